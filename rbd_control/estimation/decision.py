"""From momentum balance to verdict, compiled: what has to go through the samples one by one.

The residual is filtered, its validity judged, thresholds, debounce and hysteresis applied. The loop
stops where a contact begins or ends, and now and then while one lasts, so that its caller can look
at it more closely, and is then sent on from the next sample.

Thresholds move with the motion, as errors of friction and model grow with it::

    threshold_i = base_i (moving_i + (1 - moving_i) reversal_i)
                  + per_speed_i |v_i| + per_acceleration_i |a_i|

``reversal_i`` is one where joint i stands or reverses; what it adds is left to friction
(:mod:`~rbd_control.estimation.reversals`).

Noise of the velocities reaches the residuals of all joints through the mass matrix, and not one by
one. Where the covariance of the residual without contact is known, its length in standard
deviations is judged too, ``s² = rᵀ covariance⁻¹ r`` of what is not left to friction, against::

    statistic_threshold + statistic_speed max |v_i|

The force ``F`` at one link can be judged besides, the most likely one under the prior that
components are of the size ``force_uncertainty``, so that what hardly moves any joint stays small::

    (J W Jᵀ + 1 / force_uncertainty²) F = J W r        W: one over the residuals' variances

``|v_i|`` is held and fades with the observer's time constant, and ``a_i`` is the derivative of
``v_i`` through a filter of that time constant, so both are as late as the residual is.
"""

from __future__ import annotations

import math

import numpy as np

from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.spatial import copy, cross, dot
from rbd_control.estimation.detector_state import (
    COLLISION,
    CONTACT,
    FREE,
    GAP,
    JUMP,
    REPEATED,
    SATURATED,
    SETTLING,
    VALID,
    memory_of,
    rules_of,
    settings_of,
    traces_of,
)
from rbd_control.estimation.linear_filters import advance
from rbd_control.estimation.momentum_balance import SATURATED as SATURATED_TORQUE
from rbd_control.estimation.momentum_balance import mean_external
from rbd_control.estimation.reversals import less_friction, reversing

NOTHING, BEGUN, ENDED, BROKEN_OFF, LOOK, LOOK_AT_PEAK = range(6)
"""What the loop stops for: contact begins, ends, is broken off for want of a verdict, lasts."""

LOOK_PERIOD = 0.02
"""Time between two looks at which link is touched, while contact lasts [s]."""
NOISE_FRACTION = 1.0 / 3.0
"""Standard deviation of a joint's residual, as a part of its detection threshold."""
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


@inlined
def restart(t, m):
    """The observer has to start again with the next sample."""
    t.filter[:] = 0.0
    t.mean[:] = 0.0
    t.speed[:] = 0.0
    t.acceleration[:] = 0.0
    t.reversal[:] = 1.0
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
        t.reversal[i] = reversing(v[i], t.v[i], t.reversal[i], s.slow[i], fade)
        t.speed[i] = max(abs(v[i]), fade * t.speed[i])
        derivative = (v[i] - t.v[i]) / dt
        t.acceleration[i] = fade * t.acceleration[i] + (1.0 - fade) * derivative


@inlined
def _allowance(s, t, i):
    """What is left to friction of the residual of joint i."""
    return s.base[i] * (1.0 - s.moving[i]) * t.reversal[i]


@inlined
def _highest(s, t):
    """The joint whose residual stands highest over its threshold, by what ratio, and the level."""
    joint, highest, collision = 0, 0.0, False
    for i in range(t.p.shape[0]):
        moving = s.per_speed[i] * t.speed[i] + s.per_acceleration[i] * abs(t.acceleration[i])
        size = abs(t.filter[0, i])
        ratio = size / (s.moving[i] * s.base[i] + _allowance(s, t, i) + moving)
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
            white += s.whitening[i, j] * less_friction(t.filter[0, j], _allowance(s, t, j))
        square += white * white
    return math.sqrt(square) / (rules.statistic_threshold + rules.statistic_speed * fastest)


@inlined
def _force(rules, s, t, J):
    """Size of the force at the point of the Jacobian ``J`` (3, nv), see the top of this file."""
    prior = 1.0 / rules.force_uncertainty**2
    A, b = np.zeros((3, 3)), np.zeros(3)
    for i in range(t.p.shape[0]):
        weight = 1.0 / (NOISE_FRACTION * s.base[i]) ** 2
        for row in range(3):
            b[row] += weight * J[row, i] * t.filter[0, i]
            for column in range(3):
                A[row, column] += weight * J[row, i] * J[column, i]
    x, y, z = (
        (A[0, 0] + prior, A[1, 0], A[2, 0]),
        (A[0, 1], A[1, 1] + prior, A[2, 1]),
        (A[0, 2], A[1, 2], A[2, 2] + prior),
    )
    f = (b[0], b[1], b[2])
    # Cramer's rule; the prior keeps the determinant away from zero.
    yz = cross(y, z)
    F = (dot(f, yz), dot(f, cross(z, x)), dot(f, cross(x, y)))
    return math.sqrt(dot(F, F)) / dot(x, yz)


@inlined
def _remember(history, m, stamp, q, t):
    row = int(m.remembered[0]) % history.shape[0]
    n = t.p.shape[0]
    history[row, 0] = stamp
    copy(t.filter[0], history[row, 1:])
    copy(q, history[row, n + 1 :])
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
    quality,
    kind,
    settings,
    rules,
    traces,
    last_q,
    memory,
    history,
    jacobians,
    residual,
    reason,
    level,
):
    """Go through the samples from ``first`` on.

    ``p``, ``rate`` and ``quality`` are the momentum balance of the samples, ``kind`` that of the
    filter, ``jacobians`` (k, 3, nv) those of the point whose force is judged, or (0, 3, nv).
    Writes ``residual`` (k, nv), ``reason`` and ``level`` (k,), and carries ``traces``, ``last_q``,
    ``memory`` and ``history`` on.

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
                    copy(t.filter[0], residual[k])
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
                    copy(t.filter[0], residual[k])
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
        copy(p[k], t.p)
        copy(rate[k], t.rate)
        copy(v[k], t.v)
        copy(effort[k], t.effort)
        copy(q[k], last_q)
        copy(t.filter[0], residual[k])
        if quality[k] == SATURATED_TORQUE:
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
        if jacobians.shape[0] > 0:
            force = _force(rules, s, t, jacobians[k])
            statistic = max(statistic, force / rules.contact_force_threshold)
            if force > rules.collision_force_threshold:
                height = COLLISION
        event = _judge(rules, m, stamp, dt, doubtful, joint, ratio, height, torque, statistic)
        level[k] = int(m.level[0])
        reason[k] = SATURATED if doubtful and m.level[0] == FREE else VALID
        if event != NOTHING:
            return k, event
    return stamps.shape[0], NOTHING
