"""Dynamics compiled for one model, for loops that call them a million times.

The plain functions check their arguments, allocate their results and pass the model to compiled
code as an argument. This takes about a microsecond, more than the dynamics of an arm. Here the
model is a constant of the compiled code, and the caller provides the arrays for the results. The
overhead of a call from Python is then about half a microsecond, and zero from other compiled code.

Each function is compiled for this model when it is first called, and stored on disk. Arguments are
not checked: they must be C-contiguous float64 arrays of the right shape and finite. Units, frames
and signs are those of the plain functions.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from rbd_control.dynamics.articulated_body import articulated_body_sweep, new_articulated
from rbd_control.dynamics.christoffel import christoffel_sweep
from rbd_control.dynamics.compiled import compiled
from rbd_control.dynamics.constants import constants_of
from rbd_control.dynamics.coriolis import coriolis_sweep, mass_matrix_sweep
from rbd_control.dynamics.memory import scratch
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.momentum import gravity_sweep, momentum_sweep
from rbd_control.dynamics.newton_euler import new_forces, newton_euler_sweep, slotine_li_sweep
from rbd_control.dynamics.sweep import new_sweep


class FrozenDynamics:
    """The compiled functions of one model, made by :func:`freeze`.

    Each attribute except ``model`` is a numba function that writes into its last arguments and
    returns nothing. It can be called from Python and from other functions compiled with numba.
    ``q`` is (nq,), all vectors (nv,), matrices (nv, nv), ``Gamma`` (nv, nv, nv); C-contiguous
    float64. Results must not overlap inputs.

    Attributes:
        model: the robot.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._constants = constants_of(model.arrays)
        self._rows = model.arrays.parent.size

    @cached_property
    def dynamics_terms(self) -> Any:
        """Kernel ``(q, v, M, C, CTv, g)``, which writes the last four.

        See :func:`~rbd_control.dynamics.dynamics_terms`.
        """
        model, n = self._constants, self._rows

        @compiled
        def frozen_dynamics_terms(q, v, M, C, CTv, g):
            coriolis_sweep(model, q, v, new_sweep(n), scratch(12 * n), M, C, CTv, g)

        return frozen_dynamics_terms

    @cached_property
    def mass_matrix(self) -> Any:
        """Kernel ``(q, M)``, which writes M, see :func:`~rbd_control.dynamics.mass_matrix`."""
        model, n = self._constants, self._rows

        @compiled
        def frozen_mass_matrix(q, M):
            mass_matrix_sweep(model, q, new_sweep(n), M)

        return frozen_mass_matrix

    @cached_property
    def christoffel_symbols(self) -> Any:
        """Kernel ``(q, Gamma)``, which writes Gamma.

        See :func:`~rbd_control.dynamics.christoffel_symbols`.
        """
        model, n = self._constants, self._rows

        @compiled
        def frozen_christoffel_symbols(q, Gamma):
            christoffel_sweep(model, q, new_sweep(n), Gamma)

        return frozen_christoffel_symbols

    @cached_property
    def momentum_terms(self) -> Any:
        """Kernel ``(q, v, p, CTv, g)``, which writes the momentum M v, Cᵀ v and the gravity torque.

        See :func:`~rbd_control.dynamics.momentum_terms`.
        """
        model, n = self._constants, self._rows

        @compiled
        def frozen_momentum_terms(q, v, p, CTv, g):
            momentum_sweep(model, q, v, new_sweep(n), p, CTv, g)

        return frozen_momentum_terms

    @cached_property
    def gravity_torque(self) -> Any:
        """Kernel ``(q, g)``, which writes g, see :func:`~rbd_control.dynamics.gravity_torque`."""
        model, n = self._constants, self._rows

        @compiled
        def frozen_gravity_torque(q, g):
            gravity_sweep(model, q, new_sweep(n), g)

        return frozen_gravity_torque

    @cached_property
    def slotine_li_torque(self) -> Any:
        """Kernel ``(q, v, v_r, a_r, tau)``, which writes tau = M a_r + C v_r + g.

        See :func:`~rbd_control.dynamics.slotine_li_torque`.
        """
        model, n = self._constants, self._rows

        @compiled
        def frozen_slotine_li_torque(q, v, v_r, a_r, tau):
            slotine_li_sweep(model, q, v, v_r, a_r, new_sweep(n), new_forces(n), tau)

        return frozen_slotine_li_torque

    @cached_property
    def inverse_dynamics(self) -> Any:
        """Kernel ``(q, v, a, tau)``, which writes the torque tau of the motion, without wrenches.

        See :func:`~rbd_control.dynamics.inverse_dynamics`.
        """
        model, n = self._constants, self._rows

        @compiled
        def frozen_inverse_dynamics(q, v, a, tau):
            newton_euler_sweep(model, q, v, a, new_sweep(n), new_forces(n), tau)

        return frozen_inverse_dynamics

    @cached_property
    def forward_dynamics(self) -> Any:
        """Kernel ``(q, v, tau, a)``, which writes the acceleration a, without wrenches.

        It raises no error where the mass matrix is singular; ``a`` is then not finite or
        meaningless. See :func:`~rbd_control.dynamics.forward_dynamics`.
        """
        model, n = self._constants, self._rows

        @compiled
        def frozen_forward_dynamics(q, v, tau, a):
            articulated_body_sweep(model, q, v, tau, new_sweep(n), new_articulated(n), a)

        return frozen_forward_dynamics


def freeze(model: Model) -> FrozenDynamics:
    """Return the dynamics of ``model`` as compiled functions without checks, for hot loops.

    Each function is compiled at its first call, which takes about a second per function and model;
    later processes load it from disk.

    Args:
        model: the robot.
    """
    return FrozenDynamics(model)
