"""What the decision knows, as the arrays that compiled code takes, and by name.

A call into compiled code pays for each array, so that all that is kept of the joints are rows of
one, all of the whole arm entries of another. Here they get their names.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.compiled import inlined
from rbd_control.estimation.linear_filters import DESIGN, STATE

REASONS = (
    "",
    "settling",
    "gap",
    "no velocity",
    "no effort",
    "repeated samples",
    "saturated effort",
    "implausible jump",
)
"""Why there is no verdict, by code; code 0 is a valid verdict."""
VALID, SETTLING, GAP, NO_VELOCITY, NO_EFFORT, REPEATED, SATURATED, JUMP = range(len(REASONS))

LEVELS = ("none", "contact", "collision")
"""Levels of contact, by code."""
FREE, CONTACT, COLLISION = range(len(LEVELS))

ONSET_WINDOW = 0.1
"""How far back the start of a contact is looked for [s] ..."""
LEAST = 6
"""... or so many samples, at low rates."""
HISTORY = 1024
"""Samples that are remembered; more than the onset window holds up to 10 kHz."""


class Settings(NamedTuple):
    """What the parameters say of each joint, rows of one array (10 + 3 + nv, nv)."""

    base: np.ndarray
    collision: np.ndarray
    per_speed: np.ndarray
    per_acceleration: np.ndarray
    moving: np.ndarray
    """Part of ``base`` that holds away from reversals."""
    slow: np.ndarray
    """Speed below which a joint reverses [rad/s or m/s]."""
    pole: np.ndarray
    """One over the time constant that speed and acceleration fade with [1/s]."""
    bias: np.ndarray
    """Constant torque taken off the momentum balance [N·m or N]."""
    speed_limit: np.ndarray
    """Faster is implausible [rad/s or m/s]."""
    turn: np.ndarray
    """Positions that far apart are the same: a turn of a revolute joint; 0 for none."""
    design: np.ndarray
    """(3, nv) of the filter."""
    whitening: np.ndarray
    """(nv, nv) lower triangular L with s = |L r|."""


class Rules(NamedTuple):
    """What the parameters say of the whole arm."""

    settling_time: float
    maximum_gap: float
    repeated_time: float
    repeated_time_at_rest: float
    onset_debounce: float
    release_debounce: float
    release_ratio: float
    statistic_threshold: float
    """Infinite where the covariance of the residual is not known."""
    statistic_speed: float
    contact_force_threshold: float
    """Infinite where force is not judged."""
    collision_force_threshold: float
    force_uncertainty: float


class Traces(NamedTuple):
    """What is remembered of each joint, rows of one array (5 + 8, nv)."""

    filter: np.ndarray
    """(5, nv) state of the filter; its first row is the residual."""
    p: np.ndarray
    rate: np.ndarray
    v: np.ndarray
    effort: np.ndarray
    mean: np.ndarray
    """Mean of the residual of late, without contact."""
    speed: np.ndarray
    acceleration: np.ndarray
    reversal: np.ndarray
    """Of a reversal of late, see :mod:`~rbd_control.estimation.reversals`."""


class Memory(NamedTuple):
    """What is remembered of the whole arm, entries of one array."""

    stamp: np.ndarray
    started: np.ndarray
    """Stamp of the sample the observer started with; NaN before there is one."""
    above: np.ndarray
    """Time for which some residual has been above its threshold."""
    below: np.ndarray
    level: np.ndarray
    height: np.ndarray
    """Highest level of the last contact."""
    peak: np.ndarray
    """Highest residual over threshold of the open contact."""
    peak_joint: np.ndarray
    peak_torque: np.ndarray
    looked: np.ndarray
    ended: np.ndarray
    """Stamp at which the last contact was last known to be."""
    same_since: np.ndarray
    frozen: np.ndarray
    saturated: np.ndarray
    """Stamp of the last saturated sample."""
    jumps: np.ndarray
    remembered: np.ndarray
    """Samples in the history since the observer settled."""


TRACES_ROWS = len(Traces._fields) - 1 + STATE


@inlined
def settings_of(a):
    """The rows of an array (10 + 3 + nv, nv) by name."""
    return Settings(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10:13], a[13:])


@inlined
def rules_of(a):
    """The entries of an array by name."""
    return Rules(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11])


@inlined
def traces_of(a):
    """The rows of an array (TRACES_ROWS, nv) by name."""
    return Traces(a[:5], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12])


@inlined
def memory_of(a):
    """The entries of an array by name, each an array of one."""
    return Memory(
        a[0:1],
        a[1:2],
        a[2:3],
        a[3:4],
        a[4:5],
        a[5:6],
        a[6:7],
        a[7:8],
        a[8:9],
        a[9:10],
        a[10:11],
        a[11:12],
        a[12:13],
        a[13:14],
        a[14:15],
        a[15:16],
    )


def new_settings(n: int) -> np.ndarray:
    """Room for the settings of n joints."""
    return np.zeros((10 + DESIGN + n, n))


def new_memory() -> np.ndarray:
    """The memory of a detector that has seen nothing."""
    a = np.zeros(len(Memory._fields))
    memory = memory_of.py_func(a)
    memory.stamp[0] = memory.started[0] = math.nan
    memory.saturated[0] = -math.inf
    return a


def remembered(history: np.ndarray, memory: Memory) -> np.ndarray:
    """Rows of the history in the onset window, the oldest first: stamp, residual, q."""
    count = int(memory.remembered[0])
    rows = np.arange(max(count - HISTORY, 0), count) % HISTORY
    stamps = history[rows, 0]
    first = int(np.searchsorted(stamps, stamps[-1] - ONSET_WINDOW))
    return history[rows[min(first, max(rows.size - LEAST, 0)) :]]
