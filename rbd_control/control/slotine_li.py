"""The passivity-based law of Slotine and Li.

With the position error ``e = q - q_d``::

    v_r = v_d - Lambda e          a_r = a_d - Lambda (v - v_d)          s = v - v_r
    tau = M a_r + C v_r + g - K_D s

the arm moves as ``M s_dot + C s + K_D s = tau_ext``. As M_dot - 2C is skew-symmetric, the storage
``V = ½ sᵀ M s`` obeys ``V_dot = -sᵀ K_D s + sᵀ tau_ext``: from what it touches the controlled arm
takes energy, measured along s, and never gives any.

The proof lets K_D depend on the configuration. Here ``K_D = diag(damping) + damping_rate M(q)``,
and the second part costs nothing: ``M a_r - damping_rate M s = M (a_r - damping_rate s)``.

Known joint friction ``F`` is added at the reference velocity, ``tau + F(v_r)``. What is left is
``F(v) - F(v_r)``, and where friction does not fall with speed, ``sᵀ (F(v) - F(v_r)) >= 0``: it only
adds to the dissipation. Compensation at the measured velocity would take friction's damping away,
and so would that of Stribeck's excess, which falls with speed: it is left out.

With :class:`~rbd_control.control.soft_limits.SoftLimits` ``v_r`` is bounded, near position limits
above all, and their springs are added; the proof stands there.

Source: Slotine & Li, *On the Adaptive Control of Robot Manipulators*, IJRR 6(3), 1987.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.kernels import reference
from rbd_control.control.soft_limits import SoftLimits
from rbd_control.dynamics import Model, slotine_li_torque
from rbd_control.errors import InputError
from rbd_control.friction import NoFriction

Array = NDArray[np.float64]


class Reference(NamedTuple):
    """What the law makes of measured and desired motion, each (nv,)."""

    v_r: Array
    """Reference velocity [rad/s or m/s]."""
    a_r: Array
    """Reference acceleration [rad/s² or m/s²]."""
    s: Array
    """v - v_r [rad/s or m/s]."""


class SlotineLiController:
    """The law for one arm; it has no state.

    Args:
        model: an arm with a fixed base.
        parameters: of which the gains and the friction are used.
        limits: soft position limits to keep; none by default.

    Raises:
        InputError: for a floating base, which has no torque at its root.
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(
        self, model: Model, parameters: ControllerParameters, limits: SoftLimits | None = None
    ) -> None:
        if model.nq != model.nv:
            raise InputError(f"{model.name}: a floating base cannot be controlled by joint torques")
        self.model = model
        self._limits = limits
        n = model.nv
        self._Lambda = parameters.for_joints("bandwidth", n)
        self._damping = parameters.for_joints("damping", n)
        self._damping_rate = parameters.damping_rate
        friction = parameters.friction(n).monotone()
        self._friction = None if isinstance(friction, NoFriction) else friction
        none = np.full(n, np.inf)
        self._bounds = (
            (-none, none, none, 1.0)
            if limits is None
            else (limits.lower_limit, limits.upper_limit, limits.speed, limits.approach)
        )

    def reference(self, q: Array, v: Array, q_d: Array, v_d: Array, a_d: Array) -> Reference:
        """v_r, its rate and s; arguments as of :meth:`torque`.

        Raises:
            InputError: for arguments of the wrong shape.
        """
        shape = (self.model.nv,)
        for x in (q, v, q_d, v_d, a_d):
            if x.shape != shape:
                self._refuse(q=q, v=v, q_d=q_d, v_d=v_d, a_d=a_d)
        return Reference(*reference(q, v, q_d, v_d, a_d, self._Lambda, *self._bounds))

    def torque(self, q: Array, v: Array, q_d: Array, v_d: Array, a_d: Array) -> Array:
        """The joint torque that tracks ``q_d(t)``.

        Position errors are taken as they are: a continuous joint that is one turn away from its
        desired position is brought back by a turn.

        Args:
            q, v: measured positions [rad or m] and velocities [rad/s or m/s], (nv,) each.
            q_d, v_d, a_d: desired position, velocity and acceleration, (nv,) each.

        Returns:
            (nv,) [N·m or N], not limited.

        Raises:
            InputError: for arguments of the wrong shape or not finite.
        """
        v_r, a_r, s = self.reference(q, v, q_d, v_d, a_d)
        a_r -= self._damping_rate * s
        tau = slotine_li_torque(self.model, q, v, v_r, a_r)
        tau -= self._damping * s
        if self._limits is not None:
            tau += self._limits.torque(q)
        if self._friction is not None:
            tau += self._friction.torque(v_r)
        return tau

    def floating_torque(self, model: Model, q: Array, v: Array) -> Array:
        """The weight of ``model``, (nv,) [N·m or N]; near soft limits the arm is damped, and kept
        off them.

        This is the law with ``v_r = 0`` and a gain that rises from nothing to ``damping_rate M``
        as the arm comes near a limit.
        """
        zero = np.zeros_like(v)
        if self._limits is None:
            return slotine_li_torque(model, q, zero, zero, zero)
        slowing = (-self._damping_rate * self._limits.closeness(q)) * v
        return slotine_li_torque(model, q, zero, zero, slowing) + self._limits.torque(q)

    def _refuse(self, **arguments: Array) -> None:
        n = self.model.nv
        for name, x in arguments.items():
            if np.shape(x) != (n,):
                raise InputError(f"{name} has shape {np.shape(x)} but the model has nv = {n}")
