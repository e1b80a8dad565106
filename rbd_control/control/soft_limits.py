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

An arm that starts beyond a soft limit opens the limit as far as it stands, so that it is not
pushed. The limit closes behind the arm as it comes back. The springs are then not stretched, so
closing costs no energy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.kernels import close_behind, spring_torque
from rbd_control.control.torque_step import ReferenceBounds
from rbd_control.dynamics import Model

Array = NDArray[np.float64]

LARGEST_SHARE = 0.1
"""Share of a joint's range that a margin takes at most, at either end."""

CATCH_UP = 1.2
"""Largest reference speed, in speed limits."""

CLOSING_SLACK = 1e-3
"""Distance that an open limit keeps from the arm that comes back [rad or m].

Noise of the encoders moves the limit no closer, so that its spring does not creep with the arm.
"""


@dataclass(frozen=True, eq=False)
class PositionLimits:
    """Limits that trajectories are checked against, each (nv,), as they are at one instant."""

    lower_limit: Array
    """Lowest position [rad or m]."""
    upper_limit: Array
    """Highest position [rad or m]."""
    velocity_limit: Array
    """Greatest speed [rad/s or m/s]; infinite where there is none."""


class SoftLimits:
    """The soft limits of one arm.

    Args:
        model: the arm; joints without limits (continuous ones) have no soft ones either.
        parameters: of which those of the limits are used.
        here: a position that must not be outside, such as that of an arm parked at its limits.

    Attributes:
        lower_limit, upper_limit: (nv,) soft limits as they are now [rad or m].
        margin: (nv,) distance of the soft limits from the hard ones [rad or m]; 0 without limits.
        lowest, highest: (nv,) the same once they have closed behind the arm.
        velocity_limit: (nv,) speed limit of planned motions [rad/s or m/s].
        stiffness: (nv,) of the springs [N·m/rad or N/m].
        speed: (nv,) largest reference speed [rad/s or m/s].
        approach: bound on the reference speed for each unit of distance [1/s].

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(
        self, model: Model, parameters: ControllerParameters, here: Array | None = None
    ) -> None:
        limits = ArmLimits.of(model, parameters)
        lower, upper = model.lower_limit, model.upper_limit
        margin = np.minimum(
            parameters.for_joints("limit_margin", model.nv), LARGEST_SHARE * (upper - lower)
        )
        limited = np.isfinite(margin) & (margin > 0.0) & np.isfinite(upper - lower)
        most = parameters.for_joints("limit_torque_share", model.nv) * limits.effort
        self.stiffness: Array = np.where(
            limited & np.isfinite(most), most / np.where(limited, margin, 1.0), 0.0
        )
        self.margin: Array = np.where(limited, margin, 0.0)
        self.lowest: Array = lower + self.margin
        self.highest: Array = upper - self.margin
        self.velocity_limit: Array = limits.velocity
        self.speed: Array = CATCH_UP * limits.assumed_velocity
        self.approach = parameters.limit_approach
        self.lower_limit: Array = self.lowest.copy()
        self.upper_limit: Array = self.highest.copy()
        self._is_open = False
        self._closed = self._now()
        if here is not None:
            self.open_to(here)

    def open_to(self, here: Array, before: SoftLimits | None = None) -> None:
        """Move the limits out so that ``here`` (nv,) is inside.

        With ``before``, they are moved no further than those limits were, so that an arm that has
        been pushed into a spring is still pushed back.
        """
        low = high = here
        if before is not None:
            low, high = np.maximum(low, before.lower_limit), np.minimum(high, before.upper_limit)
        self.lower_limit[:] = np.minimum(self.lowest, low)
        self.upper_limit[:] = np.maximum(self.highest, high)
        self._is_open = bool(
            (self.lower_limit < self.lowest).any() or (self.upper_limit > self.highest).any()
        )

    def close_behind(self, q: Array) -> None:
        """Move open limits back as far as the arm at ``q`` (nv,) has come back."""
        if self._is_open:
            closed = close_behind(
                q, CLOSING_SLACK, self.lowest, self.highest, self.lower_limit, self.upper_limit
            )
            self._is_open = not closed

    def now(self) -> PositionLimits:
        """Return the limits as they are now, for a plan."""
        return self._now() if self._is_open else self._closed

    def bounds(self) -> ReferenceBounds:
        """Return the bounds for the law's kernel; they follow the limits."""
        return ReferenceBounds(
            self.lower_limit, self.upper_limit, self.speed, self.stiffness, self.approach
        )

    def torque(self, q: Array) -> Array:
        """Return the torque of the springs, (nv,) [N·m or N]."""
        push: Array = spring_torque(q, self.lower_limit, self.upper_limit, self.stiffness)
        return push

    def _now(self) -> PositionLimits:
        return PositionLimits(self.lower_limit.copy(), self.upper_limit.copy(), self.velocity_limit)
