"""Limits of one arm: torque, speed, and soft position limits.

**Limits on torque and speed of one arm, from its description and the parameters.**

A limit of zero or below counts as unknown, from any source. The parameters
``effort_limit`` and ``velocity_limit`` replace a description's limit joint by joint.

**Soft position limits: a spring, and a bound on the reference velocity.**

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

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.kernels import ReferenceBounds, close_behind, spring_torque
from rbd_control.dynamics import Model
from rbd_control.errors import InputError
from rbd_control.robot.payload import needed_share, require_weight

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ArmLimits:
    """Limits of one arm, each (nv,); infinite for a joint without limit.

    Attributes:
        joint_names: names of the joints.
        effort: largest torque of the motors [N·m or N].
        torque: largest torque that the controller uses, ``torque_share * effort`` [N·m or N].
        torque_rate: largest rate of the torque that the controller uses [N·m/s or N/s].
        weight: largest gravity torque that the arm can hold [N·m or N]: ``torque``, or ``effort``
            if the arm adds its gravity torque to the command.
        velocity: speed limit of planned motions [rad/s or m/s].
        assumed_velocity: ``velocity``, with an assumed limit for joints without a limit; finite.
        plausible_speed: speed above which a sample is implausible [rad/s or m/s]; finite. A lower
            ``velocity_limit`` of the parameters does not reduce it: an arm that is faster than its
            planned motions, for example after a knock, must be braked and not lose its torque.
        overspeed: measured speed above which :class:`Overspeed` counts time towards a fault [rad/s
            or m/s]; finite.
    """

    joint_names: tuple[str, ...]
    effort: Array
    torque: Array
    torque_rate: Array
    weight: Array
    velocity: Array
    assumed_velocity: Array
    plausible_speed: Array
    overspeed: Array

    @classmethod
    def of(cls, model: Model, parameters: ControllerParameters) -> ArmLimits:
        """Return the limits of an arm from its description and the parameters.

        Raises:
            ParameterError: for a per-joint parameter of the wrong length.
        """
        n = model.nv
        effort = _replaced(model.effort_limit, parameters.for_joints("effort_limit", n))
        velocity = _replaced(model.velocity_limit, parameters.for_joints("velocity_limit", n))
        assumed = parameters.assumed_velocity(model, velocity)
        fastest = np.maximum(assumed, parameters.assumed_velocity(model, model.velocity_limit))
        torque = parameters.for_joints("torque_share", n) * effort
        return cls(
            joint_names=model.joint_names,
            effort=effort,
            torque=torque,
            torque_rate=parameters.for_joints("torque_rate", n),
            weight=effort if parameters.gravity_compensated else torque,
            velocity=velocity,
            assumed_velocity=assumed,
            plausible_speed=parameters.implausible_speed * fastest,
            overspeed=parameters.overspeed_factor * assumed,
        )

    def require_effort(self) -> None:
        """Raise an error if the torque of a joint has no limit.

        Raises:
            InputError: naming the joints and the parameter to set.
        """
        unknown = [
            name
            for name, limit in zip(self.joint_names, self.effort, strict=False)
            if not np.isfinite(limit)
        ]
        if unknown:
            raise InputError(
                f"no effort limit for {', '.join(unknown)}: the robot description has none, or "
                f"zero; set parameter effort_limit"
            )

    def require_weight(self, weight: Array) -> None:
        """Raise an error if the weight of the arm needs more than the torque limits allow.

        Args:
            weight: gravity torque of the arm with its payload, (nv,) [N·m or N].

        Raises:
            InputError: naming the first such joint and the share of its limit that it needs.
        """
        require_weight(self.joint_names, weight, self.weight)

    def refuse_heavier(self, weight: Array, before: ArmLimits, former: Array) -> None:
        """Raise an error if a joint cannot hold the arm after a change of payload or limits.

        The limits of this object apply after the change. A joint whose gravity torque exceeds its
        limit already is accepted if it needs no larger share of its limit than before.

        Args:
            weight: gravity torque after the change, (nv,) [N·m or N].
            before: limits before the change.
            former: gravity torque before the change, (nv,) [N·m or N].

        Raises:
            InputError: naming the first such joint and the share of its limit that it needs.
        """
        accepted = needed_share(former, before.weight)
        require_weight(self.joint_names, weight, self.weight, accepted)


def _replaced(described: Array, given: Array) -> Array:
    """Return the given limits where they are positive, else the described ones, else infinity."""
    limit = np.where(given > 0.0, given, described)
    return np.where(limit > 0.0, limit, np.inf)


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
