"""From momentum balance to verdict, compiled: everything that depends on the samples before.

The loop filters the residual, judges its validity and applies thresholds, debounce and hysteresis.
It stops where a contact begins or ends, and at intervals while a contact lasts, so that its caller
can look at the contact more closely. The caller then resumes it at the next sample.
"""

from __future__ import annotations

import math

from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.spatial import copy
from rbd_control.estimation.detector_state import (
    COLLISION,
    FREE,
    GAP,
    JUMP,
    REPEATED,
    SATURATED,
    SETTLING,
    VALID,
)
from rbd_control.estimation.linear_filters import observe
from rbd_control.estimation.momentum_balance import SATURATED as SATURATED_TORQUE
from rbd_control.estimation.thresholds import (
    follow_motion,
    force_size,
    highest_residual,
    statistic_ratio,
)

NOTHING, BEGUN, ENDED, BROKEN_OFF, LOOK, LOOK_AT_PEAK = range(6)
"""Why the loop stops: a contact begins, ends, is cut short for lack of a verdict, or lasts."""

LOOK_PERIOD = 0.02
"""Time between two isolations of a contact that lasts [s]."""
NEAR_PEAK = 0.9
"""Link and force are taken at the peak from this part of its height on."""
TARE_TIME = 0.25
"""Time constant of the mean residual that a tare removes [s]."""
ROUNDING = 1e-6
"""Largest rounding error of a sum of intervals, compared with a round debounce time [s]."""
JUMPS_IN_A_ROW = 3
"""Number of implausible samples in a row that are believed: the observer restarts from there."""
LEAST_STEP = 0.01
"""Shortest time that a change of position is judged over, because stamps jitter [s]."""


@compiled
def restart(memory):
    """Let the observer start again with the next sample."""
    arm = memory.arm[0]
    arm.started = math.nan
    arm.above = 0.0
    arm.below = 0.0
    arm.level = FREE
    arm.frozen = False
    arm.jumps = 0
    arm.saturated = -math.inf
    arm.remembered = 0
    for i in range(memory.joint.shape[0]):
        joint = memory.joint[i]
        for k in range(joint.filter.shape[0]):
            joint.filter[k] = 0.0
        joint.mean = 0.0
        joint.speed = 0.0
        joint.acceleration = 0.0
        joint.reversal = 1.0


@inlined
def _is_same(samples, k, memory):
    """Return whether a sample repeats the last one to the last bit, and whether it moves."""
    same, moving = True, False
    for i in range(memory.joint.shape[0]):
        joint = memory.joint[i]
        same = same and samples.v[k, i] == joint.v and samples.effort[k, i] == joint.effort
        moving = moving or samples.v[k, i] != 0.0
    for i in range(memory.q.shape[0]):
        same = same and samples.q[k, i] == memory.q[i]
    return same, moving


@inlined
def _jumped(samples, k, settings, last_q, dt):
    """Return whether a joint is faster, or moved further since the last sample, than it can."""
    base = last_q.shape[0] - settings.shape[0]  # a floating base has one number more, no limits
    for i in range(settings.shape[0]):
        limit = settings[i].speed_limit
        if abs(samples.v[k, i]) > limit:
            return True
        if limit < math.inf:
            way = samples.q[k, base + i] - last_q[base + i]
            turn = settings[i].turn
            if turn > 0.0:
                way -= turn * math.floor(way / turn + 0.5)
            if abs(way) > limit * max(dt, LEAST_STEP):
                return True
    return False


@inlined
def _carry(settings, memory, samples, k, dt):
    """Advance residuals and thresholds to the end of an interval."""
    for i in range(memory.joint.shape[0]):
        setting, joint = settings.joint[i], memory.joint[i]
        observe(
            settings.kind,
            setting.design,
            joint.filter,
            dt,
            samples.p[k, i],
            samples.rate[k, i],
            joint.p,
            joint.rate,
            setting.bias,
        )
        follow_motion(setting, joint, samples.v[k, i], dt)


@inlined
def _keep(memory, samples, k):
    """Keep a sample as the beginning of the next interval."""
    for i in range(memory.joint.shape[0]):
        joint = memory.joint[i]
        joint.p = samples.p[k, i]
        joint.rate = samples.rate[k, i]
        joint.v = samples.v[k, i]
        joint.effort = samples.effort[k, i]
    copy(samples.q[k], memory.q)
    memory.arm[0].stamp = samples.stamp[k]


@inlined
def _write(memory, residual, verdict, reason, level):
    """Write residual and verdict of a sample."""
    for i in range(memory.joint.shape[0]):
        residual[i] = memory.joint[i].filter[0]
    verdict.reason = reason
    verdict.level = level


@inlined
def _remember(memory, stamp):
    """Add the residual to the history in which the start of a contact is searched."""
    arm = memory.arm[0]
    row = memory.history[arm.remembered % memory.history.shape[0]]
    row[0] = stamp
    for i in range(memory.joint.shape[0]):
        row[1 + i] = memory.joint[i].filter[0]
    arm.remembered += 1


@inlined
def _average(memory, dt):
    """Advance the mean residual that a tare removes."""
    share = min(dt / TARE_TIME, 1.0)
    for i in range(memory.joint.shape[0]):
        joint = memory.joint[i]
        joint.mean += share * (joint.filter[0] - joint.mean)


@inlined
def _judge(rules, arm, stamp, dt, doubtful, joint, ratio, level, torque, statistic):
    """Apply debounce and hysteresis to a valid sample; return why the loop has to stop."""
    if arm.level == FREE:
        arm.above = arm.above + dt if max(ratio, statistic) > 1.0 else 0.0
        if arm.above == 0.0 or arm.above < rules.onset_debounce - ROUNDING:
            return NOTHING
        arm.level = arm.height = level
        arm.peak, arm.peak_joint, arm.peak_torque = ratio, joint, torque
        arm.looked = stamp
        arm.below = 0.0
        return BEGUN
    arm.level = arm.height = max(arm.level, level)
    if ratio > arm.peak:
        arm.peak, arm.peak_joint, arm.peak_torque = ratio, joint, torque
    calm = max(ratio, statistic) < rules.release_ratio and not doubtful
    arm.below = arm.below + dt if calm else 0.0
    if calm and arm.below >= rules.release_debounce - ROUNDING:
        arm.level = FREE
        arm.above = 0.0
        arm.ended = stamp
        return ENDED
    if stamp - arm.looked >= LOOK_PERIOD:
        arm.looked = stamp
        return LOOK_AT_PEAK if ratio >= NEAR_PEAK * arm.peak else LOOK
    return NOTHING


@compiled
def decide(first, samples, settings, memory, residual, verdict):
    """Go through the samples from ``first`` on.

    Args:
        first: index of the first sample.
        samples: of :class:`~.detector_state.Samples`.
        settings: of :class:`~.detector_state.Settings`.
        memory: of :class:`~.detector_state.Memory`, changed in place.
        residual: (k, nv), written.
        verdict: (k,) of ``VERDICT``, written.

    Returns:
        The sample at which the loop stopped and why; the number of samples and ``NOTHING`` at the
        end.
    """
    arm, rules = memory.arm[0], settings.arm[0]
    for k in range(first, samples.stamp.shape[0]):
        stamp = samples.stamp[k]
        was_open = arm.level != FREE
        fresh = math.isnan(arm.started)
        dt = stamp - arm.stamp
        why = SETTLING
        if not fresh:
            same, moving = _is_same(samples, k, memory)
            if same:
                longest = rules.repeated_time if moving else rules.repeated_time_at_rest
                if stamp - arm.same_since >= longest:
                    if not arm.frozen:
                        arm.level = FREE
                        arm.frozen = True
                        arm.ended = arm.same_since
                    arm.stamp = stamp
                    _write(memory, residual[k], verdict[k], REPEATED, FREE)
                    if was_open:
                        return k, BROKEN_OFF
                    continue
            else:
                arm.same_since = stamp
                fresh = arm.frozen
            if dt > rules.maximum_gap:
                why, fresh = GAP, True
            elif not fresh and _jumped(samples, k, settings.joint, memory.q, dt):
                arm.jumps += 1
                if arm.jumps < JUMPS_IN_A_ROW:
                    _write(memory, residual[k], verdict[k], JUMP, FREE)
                    continue
                why, fresh = JUMP, True
            else:
                arm.jumps = 0
        if fresh:
            arm.ended = arm.stamp
            restart(memory)
            arm.started = arm.same_since = stamp
        else:
            _carry(settings, memory, samples, k, dt)
        _keep(memory, samples, k)
        if samples.quality[k] == SATURATED_TORQUE:
            arm.saturated = stamp
        if fresh or stamp - arm.started < rules.settling_time:
            _write(memory, residual[k], verdict[k], why, FREE)
            if was_open:
                return k, BROKEN_OFF
            continue
        doubtful = stamp - arm.saturated < rules.settling_time
        _remember(memory, stamp)
        if arm.level == FREE and not doubtful:
            _average(memory, dt)
        joint, ratio, level = highest_residual(settings.joint, memory.joint)
        torque = memory.joint[joint].filter[0]
        statistic = statistic_ratio(settings.joint, memory.joint, rules, settings.whitening)
        if samples.jacobian.shape[0] > 0:
            force = force_size(settings.joint, memory.joint, rules, samples.jacobian[k])
            statistic = max(statistic, force / rules.contact_force_threshold)
            if force > rules.collision_force_threshold:
                level = COLLISION
        event = _judge(rules, arm, stamp, dt, doubtful, joint, ratio, level, torque, statistic)
        reason = SATURATED if doubtful and arm.level == FREE else VALID
        _write(memory, residual[k], verdict[k], reason, arm.level)
        if event != NOTHING:
            return k, event
    return samples.stamp.shape[0], NOTHING
