"""Dynamics compiled for one model, for loops that call them a million times.

The plain functions check their arguments, make room for their results and hand a dozen arrays to
compiled code that knows no model: a few microseconds, more than the dynamics of an arm take. Here
the model is a constant of the compiled code, and the results go where the caller says. What is
left of a call from Python is about half a microsecond; from other compiled code, nothing.

Each function is compiled when it is first called and kept on disk, for this very model. Nothing is
checked: arguments must be C-contiguous float64 arrays of the right shape and finite.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from rbd_control.dynamics import articulated_body, momentum, newton_euler
from rbd_control.dynamics.christoffel import christoffel_sweep
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.coriolis import coriolis_sweep, mass_matrix_sweep
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.sweep import new_sweep

_newton_euler = inlined(newton_euler._newton_euler.py_func)
_articulated_bodies = inlined(articulated_body._articulated_bodies.py_func)
_momentum_terms = inlined(momentum._momentum_terms.py_func)
_gravity_torques = inlined(momentum._gravity_torques.py_func)


class FrozenDynamics:
    """The compiled functions of one model, made by :func:`freeze`.

    Each attribute is a numba function that writes into its last arguments and returns nothing. It
    can be called from Python and from other functions compiled with numba. ``q`` is (nq,), all
    vectors (nv,), matrices (nv, nv), ``Gamma`` (nv, nv, nv); C-contiguous float64.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._arrays = model.arrays
        self._rows = model.arrays.parent.size

    @cached_property
    def dynamics_terms(self) -> Any:
        """``(q, v, M, C, CTv, g)``, see :func:`~rbd_control.dynamics.dynamics_terms`."""
        model, n = self._arrays, self._rows

        @compiled
        def frozen_dynamics_terms(q, v, M, C, CTv, g):  # type: ignore[no-untyped-def]
            coriolis_sweep(model, q, v, new_sweep(n), np.empty((n, 12)), M, C, CTv, g)

        return frozen_dynamics_terms

    @cached_property
    def mass_matrix(self) -> Any:
        """``(q, M)``, see :func:`~rbd_control.dynamics.mass_matrix`."""
        model, n = self._arrays, self._rows

        @compiled
        def frozen_mass_matrix(q, M):  # type: ignore[no-untyped-def]
            mass_matrix_sweep(model, q, new_sweep(n), M)

        return frozen_mass_matrix

    @cached_property
    def christoffel_symbols(self) -> Any:
        """``(q, Gamma)``, see :func:`~rbd_control.dynamics.christoffel_symbols`."""
        model, n = self._arrays, self._rows

        @compiled
        def frozen_christoffel_symbols(q, Gamma):  # type: ignore[no-untyped-def]
            christoffel_sweep(model, q, new_sweep(n), Gamma)

        return frozen_christoffel_symbols

    @cached_property
    def momentum_terms(self) -> Any:
        """``(q, v, p, CTv, g)``, see :func:`~rbd_control.dynamics.momentum_terms`."""
        model = self._arrays

        @compiled
        def frozen_momentum_terms(q, v, p, CTv, g):  # type: ignore[no-untyped-def]
            _momentum_terms(model, _one(q), _one(v), _one(p), _one(CTv), _one(g))

        return frozen_momentum_terms

    @cached_property
    def gravity_torque(self) -> Any:
        """``(q, g)``, see :func:`~rbd_control.dynamics.gravity_torque`."""
        model = self._arrays

        @compiled
        def frozen_gravity_torque(q, g):  # type: ignore[no-untyped-def]
            _gravity_torques(model, _one(q), _one(g))

        return frozen_gravity_torque

    @cached_property
    def slotine_li_torque(self) -> Any:
        """``(q, v, v_r, a_r, tau)``, see :func:`~rbd_control.dynamics.slotine_li_torque`."""
        model, (bodies, points, wrenches) = self._arrays, _no_wrenches()

        @compiled
        def frozen_slotine_li_torque(q, v, v_r, a_r, tau):  # type: ignore[no-untyped-def]
            _newton_euler(
                model, bodies, points, _one(q), _one(v), _one(v_r), _one(a_r), wrenches, _one(tau)
            )

        return frozen_slotine_li_torque

    @cached_property
    def inverse_dynamics(self) -> Any:
        """``(q, v, a, tau)``, see :func:`~rbd_control.dynamics.inverse_dynamics`."""
        model, (bodies, points, wrenches) = self._arrays, _no_wrenches()

        @compiled
        def frozen_inverse_dynamics(q, v, a, tau):  # type: ignore[no-untyped-def]
            _newton_euler(
                model, bodies, points, _one(q), _one(v), _one(v), _one(a), wrenches, _one(tau)
            )

        return frozen_inverse_dynamics

    @cached_property
    def forward_dynamics(self) -> Any:
        """``(q, v, tau, a)``, see :func:`~rbd_control.dynamics.forward_dynamics`."""
        model, (bodies, points, wrenches) = self._arrays, _no_wrenches()

        @compiled
        def frozen_forward_dynamics(q, v, tau, a):  # type: ignore[no-untyped-def]
            _articulated_bodies(
                model, bodies, points, _one(q), _one(v), _one(tau), wrenches, _one(a)
            )

        return frozen_forward_dynamics


def freeze(model: Model) -> FrozenDynamics:
    """The dynamics of ``model`` as compiled functions without checks, for hot loops.

    Compiling takes about a second a function, the first time for each model.

    Args:
        model: the robot.
    """
    return FrozenDynamics(model)


@inlined
def _one(x):  # type: ignore[no-untyped-def]
    """A vector as a batch of one."""
    return x.reshape((1, x.shape[0]))


def _no_wrenches() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.empty(0, dtype=np.int64), np.empty((0, 3)), np.empty((1, 0, 6))
