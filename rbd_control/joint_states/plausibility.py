"""Which joint states can be believed: bounds of speed, position, jumps and effort for all nodes.

Encoders, drives and their drivers fail in ways in which no arm moves: a bit flips, a counter
overflows, a message holds another unit, the last state is published again and again. This module
holds the parameters, the bounds of each joint, and the comparisons, for detector and controller.

A joint with speed bound ``s`` may get as far from one sample to the next as::

    |q - q_last| <= implausible_jump + s dt

Positions of a joint that turns endlessly are compared the shortest way round.
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

PLAUSIBLE, NOT_FINITE, TOO_FAR, TOO_FAST, JUMPED = range(5)
"""Results of :func:`find_implausible`."""


@dataclass(frozen=True)
class PlausibilityParameters(Parameters):
    """Bounds of plausible positions and velocities, as multiples of the velocity limits."""

    implausible_speed: float = parameter(
        3.0,
        "multiple of a joint's velocity limit above which its speed, or the way from one sample to "
        "the next, is taken for an error",
        lower=1.0,
        upper=1000.0,
    )
    implausible_jump: float = parameter(
        0.1,
        "jump of a position between two samples that is plausible at any speed, as stamps jitter",
        unit="rad or m",
        lower=0.0,
        upper=10.0,
    )
    default_velocity_limit: float = parameter(
        30.0,
        "velocity limit that implausible_speed multiplies for a revolute joint that has none; a "
        "fifth of it, in m/s, for a prismatic joint",
        unit="rad/s",
        above=0.0,
        upper=1e4,
    )
    repeated_time: float = parameter(
        0.25,
        "time for which positions, velocities and efforts may repeat to the last digit, with a "
        "velocity that is not zero, before they are taken for frozen",
        unit="s",
        above=0.0,
        upper=3600.0,
    )
    repeated_time_at_rest: float = parameter(
        5.0,
        "the same for velocities that are all exactly zero, as of a simulated arm at rest",
        unit="s",
        above=0.0,
        upper=3600.0,
    )

    def assumed_velocity(self, model: Model, limit: Array) -> Array:
        """Return velocity limits (nv,) with the default in place of missing ones; all are finite.

        Args:
            model: the robot.
            limit: (nv,) limits [rad/s or m/s]; zero or infinite where there is none.
        """
        default = np.where(model.prismatic, LINEAR_SHARE, 1.0) * self.default_velocity_limit
        return limits_or(limit, default)


@dataclass(frozen=True)
class EffortPlausibilityParameters(PlausibilityParameters):
    """Bounds of plausible joint states, efforts included."""

    implausible_effort: float = parameter(
        2.5,
        "multiple of a joint's effort limit above which its effort, converted to a torque, is "
        "taken for an error; collisions of real arms reach about twice the limit",
        lower=1.0,
        upper=1000.0,
    )
    default_effort_limit: float = parameter(
        5000.0,
        "effort limit that implausible_effort multiplies for a joint whose description gives none",
        unit="N·m or N",
        above=0.0,
        upper=1e6,
    )

    def bounds(self, model: Model) -> Bounds:
        """Return the bounds of plausible joint states for a robot.

        A limit of zero in a description counts as missing.
        """
        n = model.nv
        first = n - len(model.joint_names)
        # Whole turns make no difference to the dynamics, whether a joint has limits or not.
        turn = np.where(model.prismatic, 0.0, TURN)
        velocity = self.assumed_velocity(model, model.velocity_limit)
        effort = limits_or(model.effort_limit, self.default_effort_limit)
        velocity[:first] = effort[:first] = np.inf
        return Bounds(self.implausible_speed * velocity, self.implausible_effort * effort, turn)


class Bounds(NamedTuple):
    """What is plausible of each joint; infinite for the six coordinates of a floating base."""

    speed: Array
    """(nv,) highest plausible speed [rad/s or m/s]."""
    effort: Array
    """(nv,) highest plausible torque or force [N·m or N]."""
    turn: Array
    """(nv,) positions this far apart are the same [rad]; 0 for prismatic joints."""


class MotionPlausibility:
    """Refuses positions and velocities that an arm cannot have, and says why.

    Args:
        names: names of the joints.
        speed: (nv,) highest plausible speed [rad/s or m/s].
        jump: jump of a position that is plausible at any speed [rad or m].
        continuous: joints whose positions may differ by whole turns.
    """

    def __init__(
        self, names: tuple[str, ...], speed: Array, jump: float, continuous: NDArray[np.int64]
    ) -> None:
        self._names, self._speed, self._jump = names, speed, jump
        self._turn = np.zeros(len(speed))
        self._turn[continuous] = TURN

    def refusal(self, stamp: float, q: Array, v: Array, last_q: Array, elapsed: float) -> str:
        """Return why a sample cannot be used, or an empty text.

        Args:
            stamp: time of the sample [s].
            q, v: positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            last_q: positions of the last good sample, (nv,); ``q`` itself without one.
            elapsed: time since that sample [s].
        """
        what, i = find_implausible(q, v, last_q, self._speed, self._turn, self._jump, elapsed)
        if what == PLAUSIBLE and math.isfinite(stamp):
            return ""
        if what in (PLAUSIBLE, NOT_FINITE):
            return "joint states are not finite"
        name = self._names[i]
        if what == TOO_FAR:
            return f"{name} at a position of {q[i]:.4g} is implausible (at most {FARTHEST:g})"
        if what == TOO_FAST:
            return f"{name} at a speed of {v[i]:.4g} is implausible (at most {self._speed[i]:.4g})"
        way, turn = q[i] - last_q[i], self._turn[i]
        way = math.remainder(way, turn) if turn > 0.0 else way
        return f"{name} jumped by {abs(way):.4g} in {elapsed:.3g} s"


def continuous_joints(model: Model) -> NDArray[np.int64]:
    """Return the joints that turn endlessly, as their description gives them no position limits."""
    revolute = model.arrays.joint_type[model.dof_row] == REVOLUTE
    endless = np.isinf(model.lower_limit) & np.isinf(model.upper_limit)
    return np.flatnonzero(revolute & endless)


def limits_or(limit: Array, default: float | Array) -> Array:
    """Return limits (nv,), with ``default`` in place of those that are zero or infinite."""
    return np.where((limit > 0.0) & np.isfinite(limit), limit, default)


@inlined
def is_within(value, bound):
    """Return whether a value is at most ``bound`` in size; not where it is NaN."""
    return abs(value) <= bound


@inlined
def whole_turns(way, turn):
    """Return the multiple of ``turn`` that is nearest to ``way``; zero for ``turn`` zero."""
    return turn * np.floor(way / turn + 0.5) if turn > 0.0 else 0.0


@inlined
def has_jumped(q, last_q, turn, speed, jump, dt):
    """Return whether a joint moved further in ``dt`` [s] than is plausible.

    A change of position by whole turns is no motion: encoders that wrap report it.
    """
    way = q - last_q
    return abs(way - whole_turns(way, turn)) > jump + speed * dt


@compiled
def find_implausible(q, v, last_q, speed, turn, jump, dt):
    """Return what is implausible about positions and velocities, and the first such joint."""
    n = q.shape[0]
    for i in range(n):
        if not (np.isfinite(q[i]) and np.isfinite(v[i])):
            return NOT_FINITE, i
    for i in range(n):
        if not is_within(q[i], FARTHEST):
            return TOO_FAR, i
        if not is_within(v[i], speed[i]):
            return TOO_FAST, i
        if has_jumped(q[i], last_q[i], turn[i], speed[i], jump, dt):
            return JUMPED, i
    return PLAUSIBLE, -1


@compiled
def unwrap(q, before, continuous):
    """Bring continuous joints the shortest way from ``before``, in place; return what was added."""
    added = np.zeros(q.shape[0])
    for k in range(continuous.shape[0]):
        i = continuous[k]
        turns = whole_turns(q[i] - before[i], TURN)
        if turns != 0.0 and np.isfinite(turns):
            added[i] = -turns
            q[i] -= turns
    return added
