"""Which joint states can be believed: bounds of speed, effort and position, jumps, repetition.

Encoders, drives and their drivers fail in ways in which no arm moves: a bit flips, a counter
overflows, a message holds another unit, the last state is sent again and again. This module holds
the parameters, the bounds of each joint, and the comparisons that compiled code makes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.dynamics.compiled import inlined
from rbd_control.dynamics.model import PRISMATIC
from rbd_control.parameters import Parameters, parameter

FARTHEST = 1e6
"""Positions beyond this are implausible for every joint, also for wheels [rad or m]."""
LEAST_STEP = 0.01
"""Shortest time that a change of position is judged over, because stamps jitter [s]."""


class Bounds(NamedTuple):
    """What is plausible of each joint; infinite for the six coordinates of a floating base."""

    speed: np.ndarray
    """(nv,) highest plausible speed [rad/s or m/s]."""
    effort: np.ndarray
    """(nv,) highest plausible torque or force [N·m or N]."""
    turn: np.ndarray
    """(nv,) positions this far apart are the same [rad]; 0 for prismatic joints."""


@dataclass(frozen=True)
class PlausibilityParameters(Parameters):
    """Bounds of plausible joint states, as multiples of the limits in the robot description."""

    implausible_speed: float = parameter(
        3.0,
        "Multiple of a joint's velocity limit above which its speed, or the way from one sample to "
        "the next, is taken for an error",
        lower=1.0,
        upper=1000.0,
    )
    implausible_effort: float = parameter(
        2.5,
        "Multiple of a joint's effort limit above which its effort, converted to a torque, is "
        "taken for an error; collisions of real arms reach about twice the limit",
        lower=1.0,
        upper=1000.0,
    )
    default_velocity_limit: float = parameter(
        30.0,
        "Velocity limit that implausible_speed multiplies for a joint whose description gives none",
        unit="rad/s or m/s",
        above=0.0,
        upper=1e4,
    )
    default_effort_limit: float = parameter(
        5000.0,
        "Effort limit that implausible_effort multiplies for a joint whose description gives none",
        unit="N·m or N",
        above=0.0,
        upper=1e6,
    )

    repeated_time: float = parameter(
        0.25,
        "Time for which positions, velocities and efforts may repeat to the last digit, with a "
        "velocity that is not zero, before they are taken for frozen",
        unit="s",
        above=0.0,
        upper=3600.0,
    )
    repeated_time_at_rest: float = parameter(
        5.0,
        "The same for velocities that are all exactly zero, as of a simulated arm at rest",
        unit="s",
        above=0.0,
        upper=3600.0,
    )

    def bounds(self, model: Model) -> Bounds:
        """Return the bounds of plausible joint states for a robot.

        A limit of zero in a description means that nobody filled it in.
        """
        n = model.nv
        first = n - len(model.joint_names)
        turn = np.where(model.arrays.joint_type[:n] == PRISMATIC, 0.0, 2.0 * math.pi)
        velocity = limits_or(model.velocity_limit, self.default_velocity_limit)
        effort = limits_or(model.effort_limit, self.default_effort_limit)
        velocity[:first] = effort[:first] = np.inf
        return Bounds(self.implausible_speed * velocity, self.implausible_effort * effort, turn)


def limits_or(limit: np.ndarray, default: float) -> np.ndarray:
    """Return limits (nv,), with ``default`` in place of those that are zero or infinite."""
    return np.where((limit > 0.0) & np.isfinite(limit), limit, default)


@inlined
def is_within(value, bound):
    """Return whether a value is at most ``bound`` in size; not where it is NaN."""
    return abs(value) <= bound


@inlined
def has_jumped(q, last_q, turn, speed, dt):
    """Return whether a joint moved further in ``dt`` [s] than the highest plausible speed allows.

    A change of position by whole turns is none, as an encoder that wraps makes it.
    """
    way = q - last_q
    if turn > 0.0:
        way -= turn * math.floor(way / turn + 0.5)
    return abs(way) > speed * max(dt, LEAST_STEP)
