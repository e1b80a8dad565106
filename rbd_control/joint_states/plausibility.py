"""Plausibility of joint states: bounds of speed, position, jumps and effort for all nodes.

Failures of encoders, drives and drivers produce physically impossible data: a flipped bit, an
overflow, another unit, a repeated state. This module contains the parameters and the bounds of each
joint for detector and controller, and the controller's checks of position, speed and jump.
:mod:`rbd_control.estimation.validity` has the checks of the detector, including the effort.
:mod:`rbd_control.joint_states.acceptance` drops messages with values above 1e9 before all checks.

With speed bound ``s``, the motion of a joint between two samples is plausible if::

    |q - q_last| <= implausible_jump + s dt

The controller adds ``max(|v|, |v_last|) T`` for the time T for which the joint states had repeated
before, because a driver may publish faster than its hardware updates. It accepts any speed that
the previous sample confirms: an arm that is really too fast must be braked. The velocity in the
previous sample, and the motion since then, then have its direction and at least :data:`CONFIRMED`
of it. A sensor error lasts for one sample, also if the driver computes velocities from positions.

Positions are compared modulo whole turns, by the detector for all revolute joints, by the
controller for continuous joints only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.model_arrays import REVOLUTE
from rbd_control.parameters import Parameters, parameter

Array = NDArray[np.float64]

TURN = 2.0 * math.pi
"""One turn of a revolute joint [rad]."""

FARTHEST = 1e6
"""Positions beyond this are implausible for every joint, also for wheels [rad or m]."""

LINEAR_SHARE = 0.2
"""Share of ``default_velocity_limit`` that is assumed for a prismatic joint, in m/s per rad/s."""

CONFIRMED = 0.5
"""Share of a speed that the previous sample and the motion since then must have to confirm it."""

PLAUSIBLE, NOT_FINITE, TOO_FAR, TOO_FAST, JUMPED = range(5)
"""Results of :func:`find_implausible`: kinds of an implausible value.

Not finite, position beyond :data:`FARTHEST`, speed above its bound, jump between two samples.
"""


@dataclass(frozen=True)
class PlausibilityParameters(Parameters):
    """Parameters of the bounds of plausible positions and velocities, and of frozen samples."""

    HEADING = "Plausible joint states"

    implausible_speed: float = parameter(
        3.0,
        "multiple of a joint's velocity limit above which its speed, or its motion between two "
        "samples, counts as a sensor error",
        lower=1.0,
        upper=1000.0,
        expert=True,
    )
    implausible_jump: float = parameter(
        0.1,
        "change of a position between two samples that is accepted at any speed",
        unit="rad or m",
        lower=0.0,
        upper=10.0,
        expert=True,
        compiled=True,
    )
    default_velocity_limit: float = parameter(
        30.0,
        "velocity limit assumed by implausible_speed for a revolute joint without limit; a "
        "fifth of it, in m/s, for a prismatic joint",
        unit="rad/s",
        above=0.0,
        upper=1e4,
        expert=True,
    )
    repeated_time: float = parameter(
        0.25,
        "time of identical positions, velocities and efforts, with a velocity that is not zero, "
        "after which the samples count as frozen; efforts are not compared while a joint is "
        "faster than 0.02 rad/s or m/s",
        unit="s",
        above=0.0,
        upper=3600.0,
        expert=True,
        compiled=True,
    )
    repeated_time_at_rest: float = parameter(
        5.0,
        "time of identical samples with all velocities exactly zero, as of a simulated arm at "
        "rest, after which the samples count as frozen; for the detector also the time of "
        "identical efforts of all joints while positions or velocities change",
        unit="s",
        above=0.0,
        upper=3600.0,
        expert=True,
        compiled=True,
    )

    def assumed_velocity(self, model: Model, limit: Array) -> Array:
        """Return velocity limits (nv,), all finite, with a default in place of missing ones.

        The default is ``default_velocity_limit``, for prismatic joints a fifth of it in m/s.

        Args:
            model: the robot.
            limit: (nv,) limits [rad/s or m/s]; zero or infinite for a missing limit.
        """
        default = np.where(model.prismatic, LINEAR_SHARE, 1.0) * self.default_velocity_limit
        return limits_or(limit, default)


@dataclass(frozen=True)
class EffortPlausibilityParameters(PlausibilityParameters):
    """Parameters of the bounds of plausible joint states, including efforts."""

    HEADING = "Plausible joint states"

    implausible_effort: float = parameter(
        2.5,
        "multiple of a joint's effort limit above which its effort, converted to a torque, counts "
        "as an error; collisions of real arms reach about twice the limit",
        lower=1.0,
        upper=1000.0,
        expert=True,
    )
    default_effort_limit: float = parameter(
        5000.0,
        "effort limit assumed by implausible_effort for a joint without limit",
        unit="N·m or N",
        above=0.0,
        upper=1e6,
        expert=True,
    )

    def bounds(self, model: Model) -> Bounds:
        """Return the bounds of plausible joint states for a robot, (nv,) each.

        They are ``implausible_speed`` times the velocity limit and ``implausible_effort`` times the
        effort limit in the description. For a limit that is missing or zero, the default of the
        parameters takes its place.
        """
        n = model.nv
        first = n - len(model.joint_names)
        # Whole turns do not affect the dynamics, whether a joint has limits or not.
        turn = np.where(model.prismatic, 0.0, TURN)
        velocity = self.assumed_velocity(model, model.velocity_limit)
        effort = limits_or(model.effort_limit, self.default_effort_limit)
        velocity[:first] = effort[:first] = np.inf
        return Bounds(self.implausible_speed * velocity, self.implausible_effort * effort, turn)


class Bounds(NamedTuple):
    """Bounds of plausible joint states.

    ``speed`` and ``effort`` are infinite for the six coordinates of a floating base.
    """

    speed: Array
    """(nv,) highest plausible speed [rad/s or m/s]."""
    effort: Array
    """(nv,) highest plausible torque or force [N·m or N]."""
    turn: Array
    """(nv,) period of the position [rad]: one turn, or 0 for prismatic joints."""


class LastSample(NamedTuple):
    """The last valid sample.

    Attributes:
        q, v: positions and velocities, (nv,) each [rad or m, rad/s or m/s].
        elapsed: time since its stamp [s].
        unchanged: time for which its positions and velocities had been equal at its stamp [s].
    """

    q: Array
    v: Array
    elapsed: float
    unchanged: float


class MotionPlausibility:
    """Checks positions and velocities of samples for plausibility, and names the reason.

    Args:
        names: names of the joints, in the order of v.
        speed: (nv,) highest plausible speed [rad/s or m/s].
        jump: change of a position between two samples that is accepted at any speed [rad or m].
        continuous: indices in v of the joints whose positions may differ by whole turns.
    """

    def __init__(
        self, names: tuple[str, ...], speed: Array, jump: float, continuous: NDArray[np.int64]
    ) -> None:
        self._turn = np.zeros(len(names))
        self._turn[continuous] = TURN
        self.set_bounds(names, speed, jump)
        self.reset()

    def set_bounds(self, names: tuple[str, ...], speed: Array, jump: float) -> None:
        """Use other bounds from the next sample on; arguments as of the constructor."""
        self._names, self._speed, self._jump = names, speed, jump

    def reset(self) -> None:
        """Forget the previous sample, which cannot confirm a speed any more."""
        self._stamp = -math.inf
        self._q, self._v = np.zeros((2, len(self._names)))

    def bounded(self, v: Array) -> Array:
        """Return velocities ``v``, (nv,), limited to the highest plausible speed [rad/s or m/s]."""
        return np.clip(v, -self._speed, self._speed)

    def refusal(self, stamp: float, q: Array, v: Array, last: LastSample) -> str:
        """Return the reason if a sample is implausible, or an empty text.

        A sample is implausible if a number is not finite, a position is beyond :data:`FARTHEST`, or
        a speed or a motion is implausible by the rules of the module.

        Args:
            stamp: time of the sample [s].
            q, v: positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            last: the last valid sample; at the first sample ``q`` itself at rest.
        """
        elapsed = stamp - self._stamp
        previous = LastSample(self._q, self._v, elapsed, 0.0)
        what, i = find_implausible(q, v, last, previous, self._speed, self._turn, self._jump)
        if what != NOT_FINITE and elapsed > 0.0:
            self._stamp, self._q, self._v = stamp, q.copy(), v
        if what == PLAUSIBLE and math.isfinite(stamp):
            return ""
        if what in (PLAUSIBLE, NOT_FINITE):
            return "joint states are not finite"
        name = self._names[i]
        if what == TOO_FAR:
            return f"{name} at a position of {q[i]:.4g} is implausible (at most {FARTHEST:g})"
        if what == TOO_FAST:
            return f"{name} at a speed of {v[i]:.4g} is implausible (at most {self._speed[i]:.4g})"
        way, turn = q[i] - last.q[i], self._turn[i]
        way = math.remainder(way, turn) if turn > 0.0 else way
        return f"{name} jumped by {abs(way):.4g} in {last.elapsed + last.unchanged:.3g} s"


def continuous_joints(model: Model) -> NDArray[np.int64]:
    """Return the indices in v of the continuous joints: revolute and without position limits."""
    revolute = model.arrays.joint_type[model.dof_row] == REVOLUTE
    endless = np.isinf(model.lower_limit) & np.isinf(model.upper_limit)
    return np.flatnonzero(revolute & endless)


def limits_or(limit: Array, default: float | Array) -> Array:
    """Return limits, (nv,), with ``default`` in place of each that is not positive and finite."""
    return np.where((limit > 0.0) & np.isfinite(limit), limit, default)


@inlined
def is_within(value, bound):
    """Return whether the magnitude of a value is at most ``bound``; False for NaN."""
    return abs(value) <= bound


@inlined
def whole_turns(way, turn):
    """Return the multiple of ``turn`` nearest to ``way`` [rad]; zero if ``turn`` is zero."""
    return turn * np.floor(way / turn + 0.5) if turn > 0.0 else 0.0


@inlined
def has_jumped(q, last_q, turn, speed, jump, dt):
    """Return whether the motion of a joint in ``dt`` [s] exceeds ``jump + speed dt`` [rad or m].

    A change of position by whole turns does not count as motion, because encoders may wrap.

    Args:
        q, last_q: present and last position [rad or m].
        turn: period of the position [rad]; 0 for a joint that cannot wrap.
        speed: highest plausible speed [rad/s or m/s].
        jump: change of position that is accepted at any speed [rad or m].
        dt: time between the two positions [s].
    """
    way = q - last_q
    return abs(way - whole_turns(way, turn)) > jump + speed * dt


@compiled
def find_implausible(q, v, last, previous, speed, turn, jump):
    """Return the kind of the first implausible value and the index of its joint in v.

    Args:
        q, v: positions and velocities, (nv,) each [rad or m, rad/s or m/s].
        last, previous: the last valid sample, and the previous sample, which may have been refused,
            see :class:`LastSample`.
        speed, turn: highest plausible speed, and period of the position, (nv,) each, see
            :class:`Bounds`.
        jump: change of a position that is accepted at any speed [rad or m].

    Returns:
        ``PLAUSIBLE`` and -1; or ``NOT_FINITE``, ``TOO_FAR``, ``TOO_FAST`` or ``JUMPED``, and the
        index.
    """
    n = q.shape[0]
    for i in range(n):
        if not (np.isfinite(q[i]) and np.isfinite(v[i])):
            return NOT_FINITE, i
    for i in range(n):
        if not is_within(q[i], FARTHEST):
            return TOO_FAR, i
        if not is_within(v[i], speed[i]):
            way = q[i] - previous.q[i]
            way -= whole_turns(way, turn[i])
            least = CONFIRMED * v[i] ** 2
            if v[i] * previous.v[i] < least or v[i] * way < least * previous.elapsed:
                return TOO_FAST, i
        fastest = max(abs(v[i]), abs(last.v[i]))
        moved = jump + fastest * last.unchanged
        bound = max(speed[i], fastest)
        if has_jumped(q[i], last.q[i], turn[i], bound, moved, last.elapsed):
            return JUMPED, i
    return PLAUSIBLE, -1


@compiled
def unwrap(q, before, continuous):
    """Add whole turns to continuous joints so that they are nearest to ``before``, in place.

    Args:
        q: positions, (nv,) [rad or m]; changed in place.
        before: previous positions, (nv,) [rad or m].
        continuous: indices in v of the continuous joints.

    Returns:
        The added turns, (nv,) [rad]; zero for the other joints.
    """
    added = np.zeros(q.shape[0])
    for k in range(continuous.shape[0]):
        i = continuous[k]
        turns = whole_turns(q[i] - before[i], TURN)
        if turns != 0.0 and np.isfinite(turns):
            added[i] = -turns
            q[i] -= turns
    return added
