"""From momentum balance to verdict, compiled: what has to go through the samples one by one.

The residual is filtered, its validity judged, thresholds, debounce and hysteresis applied. The loop
stops where a contact begins or ends, and now and then while one lasts, so that its caller can look
at it more closely, and is then sent on from the next sample.

Thresholds move with the motion, as errors of friction and model grow with it::

    threshold_i = base_i + per_speed_i |v_i| + per_acceleration_i |a_i|

Noise of the velocities reaches the residuals of all joints through the mass matrix, and not one by
one. Where the covariance of the residual without contact is known, its length in standard
deviations is judged too, ``s² = rᵀ covariance⁻¹ r``, against::

    statistic_threshold + statistic_speed max |v_i|

``|v_i|`` is held and fades with the observer's time constant, and ``a_i`` is the derivative of
``v_i`` through a filter of that time constant, so both are as late as the residual is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.model import PRISMATIC, Model
from rbd_control.estimation.linear_filters import DESIGN, STATE, advance
from rbd_control.estimation.momentum_balance import mean_external

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

NOTHING, BEGUN, ENDED, BROKEN_OFF, LOOK, LOOK_AT_PEAK = range(6)
"""What the loop stops for: contact begins, ends, is broken off for want of a verdict, lasts."""

HISTORY = 1024
"""Samples that are remembered; more than the onset window holds up to 10 kHz."""
LOOK_PERIOD = 0.02
"""Time between two looks at which link is touched, while contact lasts [s]."""
NEAR_PEAK = 0.9
"""Part of the peak from which on link and force are taken for those of the peak."""
TARE_TIME = 0.25
"""Time constant of the mean residual that a tare takes off [s]."""
ROUNDING = 1e-6
"""What sums of stamps differ from a round debounce time by [s]."""
JUMPS_IN_A_ROW = 3
"""So many implausible samples on end are the truth: the observer starts again from there."""
LEAST_STEP = 0.01
"""Stamps may jitter: positions are given this long at least to get from one to the next [s]."""


class Settings(NamedTuple):
    """What the parameters say of each joint, rows of one array (8 + 3 + nv, nv)."""

    base: np.ndarray
    collision: np.ndarray
    per_speed: np.ndarray
    per_acceleration: np.ndarray
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


class Traces(NamedTuple):
    """What is remembered of each joint, rows of one array (5 + 7, nv)."""

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
    """The rows of an array (8 + 3 + nv, nv) by name."""
    return Settings(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8:11], a[11:])


@inlined
def rules_of(a):
    """The entries of an array by name."""
    return Rules(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8])


@inlined
def traces_of(a):
    """The rows of an array (TRACES_ROWS, nv) by name."""
    return Traces(a[:5], a[5], a[6], a[7], a[8], a[9], a[10], a[11])


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
    return np.zeros((8 + DESIGN + n, n))


def new_memory() -> np.ndarray:
    """The memory of a detector that has seen nothing."""
    a = np.zeros(len(Memory._fields))
    memory = memory_of.py_func(a)
    memory.stamp[0] = memory.started[0] = math.nan
    memory.saturated[0] = -math.inf
    return a


def turns(model: Model) -> np.ndarray:
    """``Settings.turn`` of a model."""
    joint_type = model.arrays.joint_type[: model.nv]
    return np.where(joint_type == PRISMATIC, 0.0, 2.0 * math.pi)


@inlined
def restart(t, m):
    """The observer has to start again with the next sample."""
    t.filter[:] = 0.0
    t.mean[:] = 0.0
    t.speed[:] = 0.0
    t.acceleration[:] = 0.0
    m.started[0] = math.nan
    m.above[0] = 0.0
    m.below[0] = 0.0
    m.level[0] = FREE
    m.frozen[0] = 0.0
    m.jumps[0] = 0.0
    m.saturated[0] = -math.inf
    m.remembered[0] = 0.0


@inlined
def _same(q, v, effort, last_q, t):
    same = True
    for i in range(v.shape[0]):
        same = same and v[i] == t.v[i] and effort[i] == t.effort[i]
    for i in range(q.shape[0]):
        same = same and q[i] == last_q[i]
    return same


@inlined
def _jumped(q, v, last_q, dt, s):
    """Whether a joint is faster, or got further since the last sample, than it can."""
    base = q.shape[0] - v.shape[0]  # a floating base has a number more, and no limits
    for i in range(v.shape[0]):
        limit = s.speed_limit[i]
        if abs(v[i]) > limit:
            return True
        if limit < math.inf:
            way = q[base + i] - last_q[base + i]
            if s.turn[i] > 0.0:
                way -= s.turn[i] * math.floor(way / s.turn[i] + 0.5)
            if abs(way) > limit * max(dt, LEAST_STEP):
                return True
    return False


@inlined
def _carry(kind, s, t, dt, p, rate, v):
    """Residual, speed and acceleration at the end of an interval."""
    for i in range(v.shape[0]):
        x = mean_external(p, rate, t.p, t.rate, dt, i) - s.bias[i]
        advance(kind, s.design, t.filter, i, dt, x)
        fade = math.exp(-s.pole[i] * dt)
        t.speed[i] = max(abs(v[i]), fade * t.speed[i])
        derivative = (v[i] - t.v[i]) / dt
        t.acceleration[i] = fade * t.acceleration[i] + (1.0 - fade) * derivative


@inlined
def _highest(s, t):
    """The joint whose residual stands highest over its threshold, by what ratio, and the level."""
    joint, highest, collision = 0, 0.0, False
    for i in range(t.p.shape[0]):
        moving = s.per_speed[i] * t.speed[i] + s.per_acceleration[i] * abs(t.acceleration[i])
        size = abs(t.filter[0, i])
        ratio = size / (s.base[i] + moving)
        if ratio > highest:
            joint, highest = i, ratio
        collision = collision or size > s.collision[i] + moving
    return joint, highest, COLLISION if collision else CONTACT


@inlined
def _statistic(rules, s, t):
    """Length of the residual in standard deviations, over its threshold."""
    if rules.statistic_threshold == math.inf:
        return 0.0
    square, fastest = 0.0, 0.0
    for i in range(t.p.shape[0]):
        fastest = max(fastest, t.speed[i])
        white = 0.0
        for j in range(i + 1):
            white += s.whitening[i, j] * t.filter[0, j]
        square += white * white
    return math.sqrt(square) / (rules.statistic_threshold + rules.statistic_speed * fastest)


@inlined
def _remember(history, m, stamp, q, t):
    row = int(m.remembered[0]) % history.shape[0]
    n = t.p.shape[0]
    history[row, 0] = stamp
    history[row, 1 : n + 1] = t.filter[0]
    history[row, n + 1 :] = q
    m.remembered[0] += 1.0


@inlined
def _judge(rules, m, stamp, dt, doubtful, joint, ratio, level, torque, statistic):
    """Debounce and hysteresis of a valid sample; what the loop has to stop for."""
    if m.level[0] == FREE:
        m.above[0] = m.above[0] + dt if max(ratio, statistic) > 1.0 else 0.0
        if m.above[0] == 0.0 or m.above[0] < rules.onset_debounce - ROUNDING:
            return NOTHING
        m.level[0] = m.height[0] = level
        m.peak[0], m.peak_joint[0], m.peak_torque[0] = ratio, joint, torque
        m.looked[0] = stamp
        m.below[0] = 0.0
        return BEGUN
    m.level[0] = m.height[0] = max(m.level[0], level)
    if ratio > m.peak[0]:
        m.peak[0], m.peak_joint[0], m.peak_torque[0] = ratio, joint, torque
    calm = max(ratio, statistic) < rules.release_ratio and not doubtful
    m.below[0] = m.below[0] + dt if calm else 0.0
    if calm and m.below[0] >= rules.release_debounce - ROUNDING:
        m.level[0] = FREE
        m.above[0] = 0.0
        m.ended[0] = stamp
        return ENDED
    if stamp - m.looked[0] >= LOOK_PERIOD:
        m.looked[0] = stamp
        return LOOK_AT_PEAK if ratio >= NEAR_PEAK * m.peak[0] else LOOK
    return NOTHING


@compiled
def decide(
    first,
    stamps,
    q,
    v,
    effort,
    p,
    rate,
    saturated,
    kind,
    settings,
    rules,
    traces,
    last_q,
    memory,
    history,
    residual,
    reason,
    level,
):
    """Go through the samples from ``first`` on.

    ``p``, ``rate`` and ``saturated`` are the momentum balance of the samples, ``kind`` that of the
    filter. Writes ``residual`` (k, nv), ``reason`` and ``level`` (k,), and carries ``traces``,
    ``last_q``, ``memory`` and ``history`` on.

    Returns:
        The sample it stopped at and what for; the number of samples and ``NOTHING`` at the end.
    """
    s, t, m = settings_of(settings), traces_of(traces), memory_of(memory)
    rules = rules_of(rules)
    for k in range(first, stamps.shape[0]):
        stamp = stamps[k]
        was_open = m.level[0] != FREE
        fresh = math.isnan(m.started[0])
        dt = stamp - m.stamp[0]
        why = SETTLING
        if not fresh:
            if _same(q[k], v[k], effort[k], last_q, t):
                moving = False
                for i in range(v.shape[1]):
                    moving = moving or v[k, i] != 0.0
                longest = rules.repeated_time if moving else rules.repeated_time_at_rest
                if stamp - m.same_since[0] >= longest:
                    if m.frozen[0] == 0.0:
                        m.level[0] = FREE
                        m.frozen[0] = 1.0
                        m.ended[0] = m.same_since[0]
                    m.stamp[0] = stamp
                    residual[k] = t.filter[0]
                    reason[k], level[k] = REPEATED, FREE
                    if was_open:
                        return k, BROKEN_OFF
                    continue
            else:
                m.same_since[0] = stamp
                fresh = m.frozen[0] != 0.0
            if dt > rules.maximum_gap:
                why, fresh = GAP, True
            elif not fresh and _jumped(q[k], v[k], last_q, dt, s):
                m.jumps[0] += 1.0
                if m.jumps[0] < JUMPS_IN_A_ROW:
                    residual[k] = t.filter[0]
                    reason[k], level[k] = JUMP, FREE
                    continue
                why, fresh = JUMP, True
            else:
                m.jumps[0] = 0.0
        if fresh:
            m.ended[0] = m.stamp[0]
            restart(t, m)
            m.started[0] = m.same_since[0] = stamp
        else:
            _carry(kind, s, t, dt, p[k], rate[k], v[k])
        m.stamp[0] = stamp
        t.p[:], t.rate[:], t.v[:], t.effort[:], last_q[:] = p[k], rate[k], v[k], effort[k], q[k]
        residual[k] = t.filter[0]
        if saturated[k]:
            m.saturated[0] = stamp
        if fresh or stamp - m.started[0] < rules.settling_time:
            reason[k], level[k] = why, FREE
            if was_open:
                return k, BROKEN_OFF
            continue
        doubtful = stamp - m.saturated[0] < rules.settling_time
        _remember(history, m, stamp, q[k], t)
        if m.level[0] == FREE and not doubtful:
            share = min(dt / TARE_TIME, 1.0)
            for i in range(t.mean.shape[0]):
                t.mean[i] += share * (t.filter[0, i] - t.mean[i])
        joint, ratio, height = _highest(s, t)
        torque, statistic = t.filter[0, joint], _statistic(rules, s, t)
        event = _judge(rules, m, stamp, dt, doubtful, joint, ratio, height, torque, statistic)
        level[k] = int(m.level[0])
        reason[k] = SATURATED if doubtful and m.level[0] == FREE else VALID
        if event != NOTHING:
            return k, event
    return stamps.shape[0], NOTHING
