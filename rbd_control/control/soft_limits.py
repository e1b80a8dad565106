"""Soft position limits: a spring, and a bound on the reference velocity.

Each joint with limits has soft limits, ``limit_margin`` inside of them. Beyond a soft limit a
spring pushes back, with the stored energy ``U = sum ½ k x²`` of the depths ``x``; at the hard limit
its torque is ``limit_torque_share`` of the joint's effort limit. Inside the soft limit, the
reference velocity towards the limit is bounded by ``limit_approach`` times the remaining distance
(the velocity damper of Faverjon & Tournassoud, ICRA 1987), so that the law slows the arm down and
the arm seldom reaches the spring. The reference velocity is also bounded at slightly more than the
joint's speed limit: an arm that was held away from its path does not accelerate back too fast.

The law stays passive. With the bounds as part of ``v_r``, and their exact rate as part of ``a_r``,
the storage ``½ sᵀ M s + U`` obeys

    V_dot = -sᵀ K_D s - v_rᵀ tau_spring + sᵀ tau_ext

and ``v_rᵀ tau_spring >= 0``: where a spring is stretched, the bounded reference is zero or leads
away from the limit.

If an arm starts beyond a soft limit, the limit is moved to its position, so that it is not
pushed. The limit follows the arm back. The springs are then not stretched, so this motion of the
limit adds no energy.
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
"""Largest distance of a soft limit from its hard limit, as a share of the joint's range."""

CATCH_UP = 1.2
"""Largest reference speed, as a multiple of the joint's speed limit."""

CLOSING_SLACK = 1e-3
"""Distance that an opened limit keeps from an arm that moves back [rad or m].

Encoder noise does not move the limit closer, so that its spring does not follow the noise.
"""


@dataclass(frozen=True, eq=False)
class PositionLimits:
    """Limits of planned motions at one instant, each (nv,): soft position limits and speed."""

    lower_limit: Array
    """Lowest position [rad or m]; minus infinity without limit.

    A limit that was opened for an arm beyond it is farther out than the nominal soft limit.
    """
    upper_limit: Array
    """Highest position [rad or m]; infinite without limit, opened as the lowest position."""
    velocity_limit: Array
    """Greatest speed [rad/s or m/s]; infinite without limit."""


class SoftLimits:
    """The soft position limits of one arm, which can be opened for an arm that starts beyond them.

    Args:
        model: the arm; joints without limits (continuous joints) have no soft limits.
        parameters: parameters of the limits.
        here: (nv,) position to which the limits are opened, for example of an arm parked at its
            limits [rad or m]; None: the limits are not opened.

    Attributes:
        lower_limit, upper_limit: (nv,) present soft limits [rad or m]; infinite without limits.
        margin: (nv,) distance of the soft limits from the hard ones [rad or m]; 0 without limits.
        lowest, highest: (nv,) nominal soft limits, to which opened limits return [rad or m].
        velocity_limit: (nv,) speed limit of planned motions [rad/s or m/s]; infinite without limit.
        stiffness: (nv,) stiffness of the springs [N·m/rad or N/m]; 0 without limits of position or
            effort, or without a margin.
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
        """Move the limits outwards from their nominal positions, so that ``here`` is inside.

        An earlier opening is discarded.

        Args:
            here: (nv,) position of the arm [rad or m].
            before: limits that these replace; no limit is opened further than it is there, so that
                an arm that was pushed into a spring is still pushed back. None: open to ``here``.
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
        """Move opened limits back towards their nominal positions, as far as the arm moved back.

        A limit follows the arm at the distance :data:`CLOSING_SLACK`, and never moves outwards.

        Args:
            q: (nv,) measured positions [rad or m].
        """
        if self._is_open:
            closed = close_behind(
                q, CLOSING_SLACK, self.lowest, self.highest, self.lower_limit, self.upper_limit
            )
            self._is_open = not closed

    def now(self) -> PositionLimits:
        """Return a snapshot of the present limits, which does not follow later changes."""
        return self._now() if self._is_open else self._closed

    def bounds(self) -> ReferenceBounds:
        """Return the bounds for the compiled law; their arrays follow later changes of limits."""
        return ReferenceBounds(
            self.lower_limit, self.upper_limit, self.speed, self.stiffness, self.approach
        )

    def torque(self, q: Array) -> Array:
        """Return the torque of the springs at positions ``q`` (nv,) [rad or m], (nv,) [N·m or N].

        It is ``stiffness`` times the depth beyond a present soft limit, directed back inside.
        """
        push: Array = spring_torque(q, self.lower_limit, self.upper_limit, self.stiffness)
        return push

    def _now(self) -> PositionLimits:
        return PositionLimits(self.lower_limit.copy(), self.upper_limit.copy(), self.velocity_limit)
