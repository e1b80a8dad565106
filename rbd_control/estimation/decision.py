"""The verdict: compiled, from momentum balance to contact or no contact.

**Noise of the residual that depends on the motion: friction at reversals, and speed.**

The threshold of a joint has a margin for friction while the joint is at rest or reverses, and a
margin that grows with its speed (:mod:`~rbd_control.estimation.thresholds`). The standard deviation
that the motion adds to a residual is a fixed fraction of these margins::

    doubt_i² = (REVERSED allowance_i)² + (FAST per_speed_i speed_i)² + (psi' P psi)_i

The last term is the variance of the friction that is followed
(:mod:`~rbd_control.estimation.drift`).

A collision accelerates the joints strongly, and masses and inertias are known to some percent only.
The force changes within milliseconds, which the filters of the joints follow differently. The
standard deviation that this adds ``age`` after the onset is, with the mass matrix M, the
accelerations a and the standard deviations s of the residuals without contact::

    jolt_i² = MASSES² sum_j (M_ij a_j)² + (SHAKE s_i max_j |r_j / s_j| exp(-age / FADE))²
              + (REVERSED friction_i)²

An obstacle stops joints and turns them back and forth. Friction then has either sign, or holds the
joint with any torque up to its size: in a collision every joint counts as one that reverses, and
``friction_i`` is the threshold's whole margin for friction.

**Compiled loop from momentum balance to verdict, with all memory of previous samples.**

The loop filters the residual, checks its validity and applies thresholds, debounce and hysteresis.
It stops where a contact begins or ends, and periodically while a contact lasts, so that the caller
can isolate the contact. The caller then resumes it at the next sample.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rbd_control.dynamics import Model, mass_matrix
from rbd_control.dynamics.compiled import compiled_borrowing, inlined_borrowing
from rbd_control.estimation.detector_state import (
    COLLISION,
    CONTACT,
    FREE,
    GAP,
    JUMP,
    NO_JOINT,
    RANGE,
    REPEATED,
    REPEATED_EFFORTS,
    SATURATED,
    SETTLING,
    VALID,
    Memory,
    Settings,
)
from rbd_control.estimation.drift import (
    PRESENT,
    SUSPECTED,
    advance_columns,
    clear_columns,
    drift_torque,
    explained_torque,
    follow_friction,
    mean_columns,
    record_explained,
    smooth_sign,
    suspect,
)
from rbd_control.estimation.observers import begin, clear, observe
from rbd_control.estimation.thresholds import (
    LEFT,
    LONGEST_HOLD,
    follow_errors,
    follow_motion,
    follow_rest,
    force_size,
    friction_allowance,
    highest_change,
    highest_residual,
    rest_anew,
    statistic_ratio,
)
from rbd_control.estimation.validity import (
    FADING,
    GAP_SHARE,
    find_fault,
    has_lost_samples,
    learn_period,
    repetition,
    residuals_in_range,
    sampling_noise,
    unknown_torque,
    usual_change,
)

REVERSED = 0.14
"""Standard deviation of the residual at a reversal, as a fraction of the threshold's margin for
friction."""
FAST = 0.15
"""Standard deviation of the residual of a moving joint, as a fraction of the threshold's margin for
its speed."""
MASSES = 0.05
"""Standard deviation of an entry of the mass matrix, as a fraction of the entry."""
SHAKE = 0.02
"""Standard deviation that the onset of a collision adds to all residuals, as a fraction of the
largest residual, both in standard deviations of the residuals without contact."""
FADE = 0.03
"""Time constant with which the standard deviation :data:`SHAKE` decays [s]."""


@compiled_borrowing
def _fill_doubt(settings, joints, out):
    for i in range(out.shape[0]):
        reversal = REVERSED * friction_allowance(settings[i], joints[i])
        speed = FAST * settings[i].threshold_speed * joints[i].speed
        out[i] = math.sqrt(reversal * reversal + speed * speed + joints[i].variance)


def residual_doubt(settings: Settings, memory: Memory) -> np.ndarray:
    """Return the standard deviation that the present motion adds to each residual.

    Args:
        settings: settings of the detector.
        memory: memory of the detector, with speed and reversal of each joint.

    Returns:
        ``doubt`` (top of the module), (nv,) [N·m or N].
    """
    out = np.empty(memory.joint.size)
    _fill_doubt(settings.joint, memory.joint, out)
    return out


def jolt_doubt(
    model: Model,
    settings: Settings,
    q: np.ndarray,
    memory: Memory,
    noise: np.ndarray,
    age: float,
) -> np.ndarray:
    """Return the standard deviation that the jolt of a collision adds to each residual now.

    Args:
        model: the robot.
        settings: settings of the detector.
        q: joint positions, (nq,) [rad or m].
        memory: of the detector; its accelerations are filtered as slowly as the residuals.
        noise: standard deviation of each residual without contact, (nv,) [N·m or N].
        age: time since the onset [s].

    Returns:
        ``jolt`` (top of the module), (nv,) [N·m or N].
    """
    torque = mass_matrix(model, q) * memory.joint["acceleration"]
    shake = SHAKE * noise * float(np.max(np.abs(memory.residual) / noise)) * np.exp(-age / FADE)
    joint = settings.joint
    friction = REVERSED * joint["contact_threshold"] * (1.0 - joint["moving_ratio"])
    return np.sqrt(MASSES**2 * (torque**2).sum(axis=1) + shake**2 + friction**2)


NOTHING, BEGUN, ENDED, BROKEN_OFF, LOOK = range(5)
"""Reasons for a stop of the loop: none; a contact begins; a contact ends; a contact ends because
there is no verdict any more; a contact lasts and its link and force are to be estimated again."""

LOOK_PERIOD = 0.02
"""Period in which link and force of a lasting contact are estimated again [s]."""
TARE_TIME = 1.0
"""Time constant of the average residual that a tare removes, and shortest averaging time [s]."""
RECENT_TIME = 0.2
"""Time constant of the shorter average, which shows whether the residual still changes [s]."""
ROUNDING = 1e-6
"""Tolerance for rounding errors of sums of intervals in comparisons with a debounce time [s]."""
DROPS_IN_A_ROW = 3
"""Number of consecutive implausible samples with which the verdict ends. The last of them is
dropped like the others, unless all of them jump in position: the observer then restarts with it."""


CARRY, RESTART, FREEZE, DROP, SKIP = range(5)
"""Outcomes of a sample.

- ``CARRY``: the sample ends an interval of the observer.
- ``RESTART``: the observer restarts with the sample.
- ``FREEZE``: samples, or the efforts of all joints, have been identical for too long.
- ``DROP``: the sample is dropped, as is one without velocity or effort (:func:`drop_incomplete`).
- ``SKIP``: the sample repeats the last sample of a moving arm and is skipped.

An identical sample of a moving arm means that the driver has read no new data. Such a sample must
not reach the filter: a motion that stops under an unchanged torque would look like a contact. The
interval ends with the next new sample."""


class Excess(NamedTuple):
    """Highest ratios of residual to threshold in one sample, with the joint and the level."""

    joint: int
    """Row of the joint with the highest ratio of residual to threshold."""
    ratio: float
    """Highest ratio of residual to threshold, without the allowance for torque between samples."""
    level: int
    """Level that a contact has by this sample alone, ``CONTACT`` or ``COLLISION``."""
    torque: float
    """Residual of ``joint`` [N·m or N]."""
    change: float
    """Highest ratio of the change at rest to its threshold."""
    largest: float
    """Largest ratio, which must exceed 1 at the onset of a contact: of residuals to thresholds with
    the allowance, of the statistic of all residuals, and of the force at ``force_link``."""


@compiled_borrowing
def forget_mean(memory):
    """Restart the average of the residuals, which the next tare will subtract.

    Args:
        memory: of :class:`~.detector_state.Memory`, changed in place.
    """
    _forget_mean(memory.arm[0], memory.joint)


@compiled_borrowing
def forget_rest(memory):
    """Judge changes at rest anew, after the arm has been at rest for ``REST_TIME``.

    Args:
        memory: of :class:`~.detector_state.Memory`, changed in place.
    """
    memory.arm[0].rests, memory.arm[0].rested = False, 0.0


@inlined_borrowing
def _restart(memory):
    arm, joints = memory.arm[0], memory.joint
    arm.started = math.nan
    arm.lasted = 0.0
    arm.mean_interval = arm.period = 0.0
    arm.intervals = 0
    arm.level = FREE
    arm.reason = SETTLING
    arm.frozen = False
    arm.saturated = arm.resumed = arm.doubtful_until = -math.inf
    arm.interrupted = False
    arm.remembered = 0
    arm.rests, arm.rested = False, 0.0
    for i in range(joints.shape[0]):
        joint = joints[i]
        clear(memory.observer[i])
        joint.speed = 0.0
        joint.acceleration = 0.0
        joint.momentum_rate = joint.late_rate = joint.torque = joint.lead = joint.error = 0.0
        joint.reversal = 1.0
        joint.unknown = 0.0
        joint.threshold = math.inf
        clear_columns(joint)
    arm.suspects = False
    _forget_mean(arm, joints)


@inlined_borrowing
def _forget_mean(arm, joints):
    arm.averaged = 0.0
    for i in range(joints.shape[0]):
        joints[i].mean = 0.0
        joints[i].recent = 0.0


@inlined_borrowing
def _carry(settings, memory, samples, k, dt):
    """Advance residuals and the motion that thresholds depend on to the end of an interval.

    Returns:
        Whether samples are lost in the interval, or dropped samples before it have ended a contact.
    """
    arm = memory.arm[0]
    follows = settings.joint[0].drift_period < math.inf
    is_long = has_lost_samples(arm, dt) or arm.interrupted
    learn_period(arm, dt)
    if is_long:
        arm.resumed, arm.fading = samples.stamp[k], 0.0
    for i in range(memory.joint.shape[0]):
        setting, joint = settings.joint[i], memory.joint[i]
        observer = memory.observer[i]
        p, rate = observer.p, observer.rate
        if is_long:
            arm.fading = max(arm.fading, FADING / setting.observer_gain)
        fade = math.exp(-setting.observer_gain * dt)
        delay = settings.arm[0].delay_error
        calibrated = settings.arm[0].calibrated_rate
        usual = 0.0 if is_long else usual_change(setting, dt, arm.period, calibrated)
        bias, v, last_v = setting.bias, samples.v[k, i], memory.v[i]
        means = 0.0, 0.0
        if follows:
            means = mean_columns(setting, joint, v, last_v)
            bias -= drift_torque(memory.drift[i, PRESENT], means)
        gains = observe(
            settings.kind,
            settings.design[i],
            observer,
            dt,
            samples.p[k, i],
            samples.rate[k, i],
            samples.drive[k, i],
            bias,
        )
        if follows:
            estimate, design = memory.drift[i, PRESENT], settings.design[i]
            advance_columns(settings.kind, design, gains, setting, joint, estimate, dt, means)
        unknown = unknown_torque(joint.unknown, fade, observer.rate - rate, usual)
        noise = setting.torque_noise
        noise = sampling_noise(setting.observer_gain, noise, arm.period, calibrated)
        joint.unknown = max(unknown, noise)
        follow_motion(setting, joint, v, last_v, dt, fade, delay)
        momentum_rate = (observer.p - p) / dt
        effort = samples.drive[k, i] + samples.load[k, i]
        follow_errors(setting, joint, momentum_rate, observer.drive, effort, dt, fade, delay)
    return is_long


@inlined_borrowing
def _begin(settings, memory, samples, k):
    """Begin the first interval of a restarted observer with a sample."""
    for i in range(memory.joint.shape[0]):
        memory.joint[i].step = smooth_sign(samples.v[k, i] * settings.joint[i].steepness)
        begin(memory.observer[i], samples.p[k, i], samples.rate[k, i], samples.drive[k, i])
        memory.joint[i].late = samples.drive[k, i]


@inlined_borrowing
def _keep(settings, memory, samples, k, restarts):
    """Store an accepted sample as the last one, and record measured and saturated efforts.

    ``restarts`` is whether the observer restarts with it. The interval before the sample then does
    not count as a time of repeated efforts, because it may be a gap.
    """
    arm, stamp = memory.arm[0], samples.stamp[k]
    if not restarts:
        arm.effort_for += stamp - arm.stamp
    for i in range(memory.joint.shape[0]):
        memory.v[i] = samples.v[k, i]
        if samples.effort[k, i] != memory.effort[i]:
            arm.effort_for = 0.0
        memory.effort[i] = samples.effort[k, i]
        if samples.effort[k, i] != 0.0:
            arm.measured = True
            memory.joint[i].measured = True
            memory.joint[i].zero_since = math.nan
        if abs(samples.torque[k, i]) >= settings.joint[i].saturated:
            arm.saturated = stamp
    for i in range(memory.q.shape[0]):
        memory.q[i] = samples.q[k, i]
    arm.stamp = stamp
    arm.dropped = 0
    arm.jumps = 0


@inlined_borrowing
def _lose(arm, joints, ended):
    """End the verdict; return ``BROKEN_OFF`` if this ends a contact, otherwise ``NOTHING``.

    ``ended`` is the time of the last valid sample [s].
    """
    event = BROKEN_OFF if arm.level != FREE else NOTHING
    arm.level = FREE
    arm.lasted = 0.0
    arm.ended = ended
    arm.rests, arm.rested = False, 0.0
    _forget_mean(arm, joints)
    return event


@inlined_borrowing
def _fate(samples, k, settings, memory):
    """Return the outcome of sample ``k``, the reason, and the row of the joint concerned."""
    arm, rules, stamp = memory.arm[0], settings.arm[0], samples.stamp[k]
    is_fresh = math.isnan(arm.started)
    fault, row = find_fault(samples, k, settings, memory, is_fresh or arm.frozen)
    arm.jumps = arm.jumps + 1 if fault == JUMP else 0
    same, same_effort, moving = repetition(samples, k, memory)
    longest = rules.repeated_time if moving else rules.repeated_time_at_rest
    # Time since the last used sample does not count, because it may be a gap.
    stale = same_effort and arm.effort_for >= rules.repeated_time_at_rest
    fate, why = CARRY, SETTLING
    if fault != VALID and arm.jumps < DROPS_IN_A_ROW:
        fate, why = DROP, fault
    elif is_fresh:
        fate = RESTART
    elif same and stamp - arm.same_since >= longest:
        fate, why = FREEZE, REPEATED
    elif same and moving and not arm.frozen:
        fate = SKIP
    elif stale and (arm.frozen or not same):
        fate, why = FREEZE, REPEATED_EFFORTS
    elif stamp - arm.stamp > rules.maximum_gap:
        fate, why = RESTART, GAP
    elif fault == JUMP:
        fate, why = RESTART, JUMP
    elif arm.frozen:
        fate = RESTART
    if fate != DROP and (is_fresh or not same):
        arm.same_since = stamp
    return fate, why, row


@inlined_borrowing
def _drop(rules, arm, joints, fault, stamp):
    """Drop a sample; keep the last verdict, or end it after too many dropped samples.

    The verdict ends with the third dropped sample in a row (:data:`DROPS_IN_A_ROW`), and with a
    dropped sample later than ``maximum_gap`` after the last accepted sample. A sample that is
    dropped before the first accepted sample gives its fault as the reason at once.

    Returns:
        The reason why there is no verdict, or ``VALID``; and the reason for a stop of the loop.
    """
    arm.dropped += 1
    if arm.dropped >= DROPS_IN_A_ROW or not stamp - arm.stamp <= rules.maximum_gap:
        event = _lose(arm, joints, arm.stamp)
        arm.interrupted |= event == BROKEN_OFF or arm.stamp < arm.doubtful_until
        arm.reason = fault  # later repetitions of the last accepted sample also have this reason
        return fault, event
    return arm.reason, NOTHING


@inlined_borrowing
def _may_return(rules, arm, stamp):
    """Return whether a contact that ended because of dropped samples may still be there.

    Its residual may exceed the threshold only after the allowance for the gap has decayed.
    """
    if arm.interrupted:
        arm.interrupted = False
        decay = _onset_debounce(rules, arm, stamp)
        arm.doubtful_until = stamp + decay + rules.onset_debounce
    return stamp < arm.doubtful_until


@inlined_borrowing
def _remember(memory, stamp):
    """Add the residual to the history for the search of the onset of a contact."""
    arm = memory.arm[0]
    row = memory.history[arm.remembered % memory.history.shape[0]]
    row[0] = stamp
    for i in range(memory.joint.shape[0]):
        row[1 + i] = memory.observer[i].residual
    arm.remembered += 1


@inlined_borrowing
def _average(memory, dt):
    """Advance the mean residuals for a tare, two exponential averages."""
    arm, joints = memory.arm[0], memory.joint
    arm.averaged += dt
    # Before the averaging time is complete, all samples have equal weight.
    share = min(dt / min(arm.averaged, TARE_TIME), 1.0)
    recent = min(dt / min(arm.averaged, RECENT_TIME), 1.0)
    for i in range(joints.shape[0]):
        joint, residual = joints[i], memory.observer[i].residual
        joint.mean += share * (residual - joint.mean)
        joint.recent += recent * (residual - joint.recent)


@inlined_borrowing
def _onset_debounce(rules, arm, stamp):
    """Return the debounce time of an onset [s]; it is longer after lost samples."""
    has_faded = stamp - arm.resumed >= arm.fading
    return rules.onset_debounce if has_faded else max(rules.onset_debounce, arm.fading)


@inlined_borrowing
def _has_lasted(arm, holds, dt, is_long, debounce):
    """Return whether a condition has held for ``debounce`` [s].

    A long interval ``dt`` [s] counts as one period if the condition holds for the first time at its
    end, otherwise as at most a quarter of the debounce time.
    """
    if not holds:
        arm.lasted = 0.0
        return False
    if is_long:
        dt = min(dt, GAP_SHARE * debounce) if arm.lasted > 0.0 else arm.period
    arm.lasted += dt
    return arm.lasted >= debounce - ROUNDING


@inlined_borrowing
def _take_peak(memory, excess):
    """Store the residuals of the highest ratio to the threshold in the present contact."""
    arm = memory.arm[0]
    arm.peak = max(excess.ratio, excess.change)
    arm.peak_joint, arm.peak_torque = excess.joint, excess.torque
    arm.peaked = arm.stamp
    for i in range(memory.joint.shape[0]):
        memory.joint[i].peak = memory.observer[i].residual


@inlined_borrowing
def _event(rules, memory, stamp, dt, is_long, doubtful, excess):
    """Apply debounce and hysteresis to a valid sample; return the reason for a stop."""
    arm = memory.arm[0]
    if arm.level == FREE:
        debounce = _onset_debounce(rules, arm, stamp)
        exceeds = max(excess.largest, excess.change) > 1.0
        if not _has_lasted(arm, exceeds, dt, is_long, debounce):
            return NOTHING
        arm.level = arm.height = excess.level
        arm.held = 0.0
        _take_peak(memory, excess)
        arm.looked = stamp
        arm.lasted = 0.0
        return BEGUN
    arm.level = arm.height = max(arm.level, excess.level)
    if max(excess.ratio, excess.change) > arm.peak:
        _take_peak(memory, excess)
    # The allowance for torque between samples delays a contact but does not end one.
    calm = max(excess.largest, excess.ratio) < rules.release_ratio and not doubtful
    # Without motion friction holds a part of the torque of a contact that has ended.
    arm.held = arm.held + dt if calm and arm.rests else 0.0
    changed = excess.change >= max(rules.release_ratio, LEFT * arm.peak)
    calm = calm and not (changed and arm.held < LONGEST_HOLD)
    if _has_lasted(arm, calm, dt, is_long, rules.release_debounce):
        arm.level = FREE
        arm.lasted = 0.0
        arm.ended = stamp
        return ENDED
    if stamp - arm.looked >= LOOK_PERIOD:
        arm.looked = stamp
        return LOOK
    return NOTHING


@inlined_borrowing
def _excess(samples, k, settings, memory):
    """Return the ratios of residual, statistic and force to their thresholds at sample ``k``.

    While a contact is suspected, the largest ratio of the residuals that a change of friction does
    not explain is recorded as well.
    """
    rules, suspects = settings.arm[0], memory.arm[0].suspects
    excess, left = Excess(0, 0.0, CONTACT, 0.0, 0.0, 0.0), 0.0
    changed, change = highest_change(settings, memory)
    for explains in range(1 if suspects else 0, -1, -1):
        if suspects:
            for i in range(memory.joint.shape[0]):
                moved, observer = memory.joint[i], memory.observer[i]
                if explains:
                    moved.uncorrected = observer.residual
                    observer.residual -= explained_torque(moved, memory.drift[i, SUSPECTED])
                else:
                    observer.residual = moved.uncorrected
        joint, ratio, deciding, level = highest_residual(settings, memory)
        largest = max(deciding, statistic_ratio(settings, memory))
        if samples.jacobian.shape[0] > 0:
            force = force_size(settings, memory, samples.jacobian[k])
            largest = max(largest, force / rules.contact_force_threshold)
            if force > rules.collision_force_threshold:
                level = COLLISION
        if change > max(ratio, 1.0):
            joint = changed
        excess = Excess(joint, ratio, level, memory.observer[joint].residual, change, largest)
        if explains:
            left = largest
    if suspects:
        record_explained(settings, memory, samples.stamp[k], left, excess.largest)
    return excess


@compiled_borrowing
def decide(first, samples, settings, memory, residual, threshold, verdict):
    """Process the samples from ``first`` on, until the end or a stop of the loop.

    The loop stops where a contact begins or ends, and every :data:`LOOK_PERIOD` while it lasts. The
    caller then estimates link and force, and calls the function again with the next sample.

    Args:
        first: index of the first sample.
        samples: of :class:`~.detector_state.Samples`.
        settings: of :class:`~.detector_state.Settings`.
        memory: of :class:`~.detector_state.Memory`, changed in place.
        residual: external joint torques, (k, nv) [N·m or N], written.
        threshold: contact thresholds at the motion of each sample, (k, nv) [N·m or N], written;
            infinite from a restart of the observer until it has settled.
        verdict: (k,) of ``VERDICT``, written.

    Returns:
        Index of the sample at which the loop stopped, and the reason, ``BEGUN`` to
        ``LOOK``; at the end, the number of samples and ``NOTHING``.
    """
    arm, joints, rules = memory.arm[0], memory.joint, settings.arm[0]
    for k in range(first, samples.stamp.shape[0]):
        stamp, last = samples.stamp[k], arm.stamp
        fate, why, row = _fate(samples, k, settings, memory)
        event, reason, dropped, is_long = NOTHING, why, VALID, False
        if fate == DROP:
            reason, event = _drop(rules, arm, joints, why, stamp)
            dropped = why
        elif fate == SKIP:
            reason = arm.reason
        elif fate == FREEZE:
            if not arm.frozen:
                since = arm.same_since if why == REPEATED else last - arm.effort_for
                event = _lose(arm, joints, since)
            arm.frozen, arm.stamp, arm.reason = True, stamp, why
        else:
            if fate == CARRY:
                is_long = _carry(settings, memory, samples, k, stamp - last)
                if not residuals_in_range(memory):
                    fate, reason = RESTART, RANGE
            if fate == RESTART:
                event = _lose(arm, joints, last)
                _restart(memory)
                _begin(settings, memory, samples, k)
                arm.started = stamp
            _keep(settings, memory, samples, k, fate == RESTART)
            if fate == RESTART or stamp - arm.started < rules.settling_time:
                if fate == CARRY:
                    event = _lose(arm, joints, last)
            else:
                is_saturated = stamp - arm.saturated <= rules.settling_time
                doubtful = _may_return(rules, arm, stamp) or is_saturated
                _remember(memory, stamp)
                if arm.level == FREE and not doubtful:
                    _average(memory, stamp - last)
                free = arm.level == FREE and not doubtful
                follow_rest(settings, memory, stamp - last, free)
                excess = _excess(samples, k, settings, memory)
                event = _event(rules, memory, stamp, stamp - last, is_long, doubtful, excess)
                if event == ENDED:
                    _forget_mean(arm, joints)
                    rest_anew(memory)
                if settings.joint[0].drift_period < math.inf:
                    if event == BEGUN:
                        suspect(settings, memory, stamp)
                    in_contact = doubtful or arm.level != FREE
                    follow_friction(settings, memory, stamp, in_contact)
                reason = VALID
                if doubtful and arm.level == FREE:
                    reason = SATURATED if is_saturated else SETTLING
            arm.reason = reason
        for i in range(joints.shape[0]):
            residual[k, i] = memory.observer[i].residual
            threshold[k, i] = joints[i].threshold
        verdict[k].reason, verdict[k].level = reason, arm.level
        verdict[k].dropped, verdict[k].joint = dropped, row
        if event != NOTHING:
            return k, event
    return samples.stamp.shape[0], NOTHING


@compiled_borrowing
def drop_incomplete(first, fault, stamps, settings, memory, residual, threshold, verdict):
    """Drop the samples from ``first`` on, which lack velocity or effort, until a stop of the loop.

    They are treated as implausible samples: the last verdict is kept, and ends with several of them
    in a row (:func:`_drop`).

    Args:
        first: index of the first sample.
        fault: ``NO_VELOCITY`` or ``NO_EFFORT``.
        stamps: (k,) times [s], increasing.
        settings, memory, residual, threshold, verdict: as for :func:`decide`.

    Returns:
        As :func:`decide`; the only reason for a stop is ``BROKEN_OFF``.
    """
    arm, joints, rules = memory.arm[0], memory.joint, settings.arm[0]
    for k in range(first, stamps.shape[0]):
        arm.jumps = 0
        reason, event = _drop(rules, arm, joints, fault, stamps[k])
        for i in range(joints.shape[0]):
            residual[k, i] = memory.observer[i].residual
            threshold[k, i] = joints[i].threshold
        verdict[k].reason, verdict[k].level = reason, arm.level
        verdict[k].dropped, verdict[k].joint = fault, NO_JOINT
        if event != NOTHING:
            return k, event
    return stamps.shape[0], NOTHING
