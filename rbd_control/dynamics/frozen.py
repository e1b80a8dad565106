"""Dynamics compiled for one model, for loops that call them a million times.

The plain functions check their arguments, allocate their results and pass the model to compiled
code as an argument. This takes about a microsecond, more than the dynamics of an arm. Here the
expressions of the function for this model are compiled, see ``machine_code.py``: the code has no
products with the zeros of the model. The caller may provide the arrays for the results. The
overhead of a call from Python is then some tenths of a microsecond, and zero from other compiled
code.

Each function is compiled for this model when it is first called, and stored on disk. Units, frames
and signs are those of the plain functions.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from rbd_control.dynamics.compiled import compiled
from rbd_control.dynamics.machine_code import Program, execute
from rbd_control.dynamics.model import Model


class FrozenDynamics:
    """The compiled functions of one model, made by :func:`freeze`.

    Each attribute except ``model`` is a numba function, which can be called from Python and from
    other functions compiled with numba. It takes q and vectors, and arrays for the results; without
    these arrays it returns new ones, as the plain function does. Arguments are C-contiguous float64
    arrays: ``q`` is (nq,), vectors are (nv,), matrices (nv, nv), ``Gamma`` (nv, nv, nv). With
    leading axes, the same for all arguments, they are a batch, which is computed in lanes.

    Arrays of wrong sizes raise a ValueError, of other types numba's TypingError; numbers are not
    checked. Results must not overlap inputs.

    Attributes:
        model: the robot.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    @cached_property
    def dynamics_terms(self) -> Any:
        """Kernel ``(q, v, M, C, CTv, g)``, which writes the last four.

        See :func:`~rbd_control.dynamics.dynamics_terms`.
        """
        key = Program(self.model, "dynamics_terms").key

        @compiled
        def frozen_dynamics_terms(q, v, M=None, C=None, CTv=None, g=None):
            return execute(key, (q, v), (M, C, CTv, g))

        return frozen_dynamics_terms

    @cached_property
    def mass_matrix(self) -> Any:
        """Kernel ``(q, M)``, which writes M, see :func:`~rbd_control.dynamics.mass_matrix`."""
        key = Program(self.model, "mass_matrix").key

        @compiled
        def frozen_mass_matrix(q, M=None):
            return execute(key, (q,), (M,))

        return frozen_mass_matrix

    @cached_property
    def christoffel_symbols(self) -> Any:
        """Kernel ``(q, Gamma)``, which writes Gamma.

        See :func:`~rbd_control.dynamics.christoffel_symbols`.
        """
        key = Program(self.model, "christoffel_symbols").key

        @compiled
        def frozen_christoffel_symbols(q, Gamma=None):
            return execute(key, (q,), (Gamma,))

        return frozen_christoffel_symbols

    @cached_property
    def momentum_terms(self) -> Any:
        """Kernel ``(q, v, p, CTv, g)``, which writes the momentum M v, Cᵀ v and the gravity torque.

        See :func:`~rbd_control.dynamics.momentum_terms`.
        """
        key = Program(self.model, "momentum_terms").key

        @compiled
        def frozen_momentum_terms(q, v, p=None, CTv=None, g=None):
            return execute(key, (q, v), (p, CTv, g))

        return frozen_momentum_terms

    @cached_property
    def gravity_torque(self) -> Any:
        """Kernel ``(q, g)``, which writes g, see :func:`~rbd_control.dynamics.gravity_torque`."""
        key = Program(self.model, "gravity_torque").key

        @compiled
        def frozen_gravity_torque(q, g=None):
            return execute(key, (q,), (g,))

        return frozen_gravity_torque

    @cached_property
    def slotine_li_torque(self) -> Any:
        """Kernel ``(q, v, v_r, a_r, tau)``, which writes tau = M a_r + C v_r + g.

        See :func:`~rbd_control.dynamics.slotine_li_torque`.
        """
        key = Program(self.model, "slotine_li_torque").key

        @compiled
        def frozen_slotine_li_torque(q, v, v_r, a_r, tau=None):
            return execute(key, (q, v, v_r, a_r), (tau,))

        return frozen_slotine_li_torque

    @cached_property
    def inverse_dynamics(self) -> Any:
        """Kernel ``(q, v, a, tau)``, which writes the torque tau of the motion, without wrenches.

        See :func:`~rbd_control.dynamics.inverse_dynamics`.
        """
        key = Program(self.model, "inverse_dynamics").key

        @compiled
        def frozen_inverse_dynamics(q, v, a, tau=None):
            return execute(key, (q, v, a), (tau,))

        return frozen_inverse_dynamics

    @cached_property
    def forward_dynamics(self) -> Any:
        """Kernel ``(q, v, tau, a)``, which writes the acceleration a, without wrenches.

        It raises no error where the mass matrix is singular; ``a`` is then not finite or
        meaningless. See :func:`~rbd_control.dynamics.forward_dynamics`.
        """
        key = Program(self.model, "forward_dynamics").key

        @compiled
        def frozen_forward_dynamics(q, v, tau, a=None):
            return execute(key, (q, v, tau), (a,))

        return frozen_forward_dynamics


def freeze(model: Model) -> FrozenDynamics:
    """Return the dynamics of ``model`` as compiled functions without checks, for hot loops.

    Each function is compiled at its first call, once for single states and once for batches, which
    takes about a second; later processes load it from disk. The functions of large robots, whose
    straight-line code would be slower, run the loops of the plain functions.

    Args:
        model: the robot.
    """
    return FrozenDynamics(model)
