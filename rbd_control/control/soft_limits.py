"""Position limits that the arm is kept off, by a spring and by a bound on the reference.

Each joint with limits has soft ones, ``limit_margin`` inside of them. Beyond a soft limit a spring
pushes back, with the stored energy ``U = sum ½ k x²`` of the depths ``x``; at the limit itself it
takes ``limit_torque_share`` of the joint's effort limit. Before it, the reference velocity towards
the limit is bounded by ``limit_approach`` times the distance left (the velocity damper of Faverjon
& Tournassoud, ICRA 1987), so that the law slows the arm down and the spring is seldom met. It is
bounded by the joint's speed limit, too, and a little more to catch up with: an arm that was held
off its path does not rush back.

None of this costs the law its passivity. With the bounds as part of ``v_r``, and their exact rate
as part of ``a_r``, the storage ``½ sᵀ M s + U`` obeys

    V_dot = -sᵀ K_D s - v_rᵀ tau_spring + sᵀ tau_ext

and ``v_rᵀ tau_spring >= 0``: where a spring is stretched, the bounded reference is zero or leads
away from the limit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.kernels import closeness, spring_torque
from rbd_control.dynamics import Model

Array = NDArray[np.float64]

LARGEST_SHARE = 0.1
"""Share of a joint's range that a margin takes at most, at either end."""

CATCH_UP = 1.2
"""Largest reference speed, in speed limits."""


class SoftLimits:
    """The soft limits of one arm; also what its trajectories are checked against.

    Args:
        model: the arm; joints without limits (continuous ones) have no soft ones either.
        parameters: of which those of the limits are used.
        here: a position that must not be outside, such as that of an arm parked at its limits.

    Attributes:
        lower_limit, upper_limit: (nv,) soft limits [rad or m].
        velocity_limit: (nv,) that of the model [rad/s or m/s].
        stiffness: (nv,) of the springs [N·m/rad or N/m].
        speed: (nv,) largest reference speed [rad/s or m/s].
        approach: bound on the reference speed for each unit of distance [1/s].

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(
        self, model: Model, parameters: ControllerParameters, here: Array | None = None
    ) -> None:
        lower, upper = model.lower_limit, model.upper_limit
        margin = np.minimum(
            parameters.for_joints("limit_margin", model.nv), LARGEST_SHARE * (upper - lower)
        )
        limited = np.isfinite(margin) & (margin > 0.0) & np.isfinite(upper - lower)
        most = parameters.for_joints("limit_torque_share", model.nv) * model.effort_limit
        self.stiffness: Array = np.where(
            limited & np.isfinite(most), most / np.where(limited, margin, 1.0), 0.0
        )
        self.margin: Array = np.where(limited, margin, 0.0)
        self.lower_limit: Array = lower + self.margin
        self.upper_limit: Array = upper - self.margin
        if here is not None:
            self.lower_limit = np.minimum(self.lower_limit, here)
            self.upper_limit = np.maximum(self.upper_limit, here)
        self.velocity_limit: Array = np.array(model.velocity_limit)
        self.speed: Array = CATCH_UP * self.velocity_limit
        self.approach = parameters.limit_approach

    def torque(self, q: Array) -> Array:
        """What the springs do, (nv,) [N·m or N]."""
        push: Array = spring_torque(q, self.lower_limit, self.upper_limit, self.stiffness)
        return push

    def closeness(self, q: Array) -> float:
        """0 while every joint is a margin away from its soft limit, 1 when one has reached it."""
        close: float = closeness(q, self.lower_limit, self.upper_limit, self.margin)
        return close
