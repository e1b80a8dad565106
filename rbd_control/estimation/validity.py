"""Samples that the detector does not use, and torque that it has not seen.

**Compiled checks of samples: implausible and repeated samples, and efforts that are not measured.**

An implausible sample, or one without velocity or effort, is dropped as if its message had been
lost: neither the filter nor the thresholds use it, and the last verdict is kept. After several
dropped samples in a row there is no verdict.

An effort of exactly zero counts as not measured if the model expects a load, because drives that
are switched off, and drivers that fill the field with zeros, publish it. The load of a joint may be
small for a moment, so only loads well above the noise (``loaded``, half of the contact threshold)
count:

- A gravity torque above ``loaded`` counts at once, or after ``repeated_time`` if the effort before
  was at most the contact threshold: friction may cancel the weight, and a driver rounds the rest.
- A residual above ``loaded`` shows the torque that the motion needs, or that of a push. It counts
  on a joint whose effort has always been zero, for ``repeated_time`` and for :data:`FADED` time
  constants of the observer, in which the residual of an earlier push has decayed. On a joint whose
  effort was measured before, zero may be its true value, as that of a simulated arm that
  compensates its own gravity, and the residual is a contact.
- Zeros on all joints count at once before the first effort that is not zero, and afterwards if they
  last for ``repeated_time``, or for ``repeated_time_at_rest`` while no joint moves.

Velocities of exactly zero on all joints count as not measured once a joint has moved by
:data:`MOVED` within :data:`MOVED_WITHIN`, in at least :data:`MOVES` samples, until a velocity is
not zero. The momentum balance without velocity shows the torque of inertia and friction as external
torque.

**Threshold allowance for the unknown torque between two samples.**

For an interval between two samples the observer uses the mean of the momentum's rate at both ends.
The rate in between is not measured: a drive may hold its torque and change it at any instant of the
interval, and in a fast motion the rate within a long interval may have any value between the values
at its ends. The mean external torque of the interval may therefore be wrong by half the difference
of the two rates. The residual contains the filtered error, which decays with the time constant 1/K.
The allowance of joint i, which is added to its thresholds, increases with each interval and decays
in the same way::

    increase_i = (1 - exp(-K_i dt)) |rate_i(end) - rate_i(begin)| / 2

Most differences are noise, which the thresholds cover. Therefore a quarter of the joint's contact
threshold c is subtracted from the difference, unless the interval is longer than ``GAP_PERIODS``
mean periods. A torque that changes by D > c / 4 in every period then raises the threshold to
c + (D - c / 4) / 2. After subtraction of the error D / 2 the threshold still has 7/8 c for errors
of model and friction. Calibrated thresholds cover the torque between samples at the rate of the
recordings (``calibrated_rate``): the allowance then applies to long intervals only, unless the mean
period is longer than that of the calibration by more than the factor :data:`OTHER_RATE`. Then it is
also at least the noise of the torque that fewer samples average (:func:`sampling_noise`). Without a
calibration, a period longer than the time constant counts as covered.

Lost samples. In an interval longer than ``GAP_PERIODS`` mean periods, the noise of the efforts at
both ends is not averaged over samples in between, so the next residual may have a larger error than
any calibration without lost samples shows. Until two time constants 1/K have passed, an excess
counts as contact only if it lasts for this time. The error of the interval has then decayed to
14 %, and the residual of a contact is nearly complete. The debounce counts a long interval as one
period if the excess begins at its end, otherwise as at most a quarter of the debounce time. A few
samples with the same error are therefore no contact. If every interval is long, a contact is
detected two time constants or four intervals late, whichever is longer. An interval after which the
detector accepts samples again is treated in the same way if dropped samples have ended a contact.

The mean period is the mean of the intervals, each counted as at most ``GAP_PERIODS`` mean
intervals. The mean interval, the time that has passed divided by the number of samples, follows
batches of samples and changes of the rate. If the upper bound were a multiple of the mean period
itself, this mean could stay at a small part of the period for ever, and each batch would count as
lost samples. A restart of the observer restarts both means.
"""

from __future__ import annotations

import math

from rbd_control.dynamics.compiled import inlined_borrowing
from rbd_control.estimation.detector_state import (
    ALL_ZERO,
    EFFORT,
    JUMP,
    NO_JOINT,
    POSITION,
    RANGE,
    SPEED,
    TOO_CLOSE,
    VALID,
    ZERO_EFFORT,
    ZERO_VELOCITY,
)
from rbd_control.estimation.observers import LARGEST, USABLE
from rbd_control.joint_states.acceptance import GAP_PERIODS
from rbd_control.joint_states.plausibility import FARTHEST, has_jumped, is_within, whole_turns

FADED = 10.0
"""Number of time constants of the observer after which the residual of a push has decayed."""
IN_MOTION = 0.02
"""Speed from which a joint must show a new position, whatever the efforts do [rad/s or m/s].

At this speed an encoder of 12 bits, with steps of 1.5e-3 rad, shows a new position within
``maximum_gap``. A slower joint may repeat its position and a rounded velocity, so that only a
repeated effort shows that the driver has read nothing."""
MOVED = 0.02
"""Motion after which velocities of exactly zero are not measured [rad or m].

It is more than ten steps of an encoder of 12 bits, and further than gears and brakes give way."""
MOVED_WITHIN = 1.0
"""Time within which it must happen [s]: a driver may round slower motion to zero."""
MOVES = 5
"""Number of samples in which it must happen, so that an arm that has moved while samples were lost
and rests again does not count."""
LEAST_INTERVAL = 5e-10
"""Shortest interval that is filtered; stamps of ROS 2 are whole nanoseconds [s]."""


@inlined_borrowing
def find_fault(samples, k, settings, memory, is_fresh):
    """Return the fault of sample ``k``, and the row of the first joint with this fault.

    Of several faults one is returned: implausible speed or effort, otherwise position, range,
    stamps too close, jump, or missing effort, in this order.

    Args:
        samples: the samples, of type ``Samples``.
        k: index of the sample.
        settings, memory: settings and memory of the detector; ``memory`` records since when efforts
            are zero.
        is_fresh: whether the observer starts with this sample, which is then not compared with a
            previous one.

    Returns:
        Index into ``REASONS``, ``VALID`` for a plausible sample; and the row of the joint in v,
        ``NO_JOINT`` for a fault of no single joint.
    """
    n = settings.joint.shape[0]
    base = memory.q.shape[0] - n  # 1 for a floating base, whose coordinates have no limits
    dt = samples.stamp[k] - memory.arm[0].stamp
    compares = not is_fresh and dt <= settings.arm[0].maximum_gap
    reason, row = _find_zero_effort(samples, k, settings, memory, is_fresh)
    if _moves_without_velocity(samples, k, settings, memory, dt):
        reason, row = ZERO_VELOCITY, NO_JOINT
    if compares:
        for i in range(n - 1, -1, -1):
            speed, turn = settings.joint[i].highest_speed, settings.joint[i].turn
            q, last_q = samples.q[k, base + i], memory.q[base + i]
            jump = settings.arm[0].implausible_jump
            if speed < math.inf and has_jumped(q, last_q, turn, speed, jump, dt):
                reason, row = JUMP, i
    if dt < LEAST_INTERVAL:
        reason, row = TOO_CLOSE, NO_JOINT
    if samples.quality[k] != USABLE:
        reason, row = RANGE, NO_JOINT
    for i in range(memory.q.shape[0] - 1, -1, -1):
        if not is_within(samples.q[k, i], FARTHEST):
            reason, row = POSITION, max(i - base, 0)
    for i in range(n - 1, -1, -1):
        if not is_within(samples.torque[k, i], settings.joint[i].highest_effort):
            reason, row = EFFORT, i
        if not is_within(samples.v[k, i], settings.joint[i].highest_speed):
            reason, row = SPEED, i
    return reason, row


@inlined_borrowing
def _find_zero_effort(samples, k, settings, memory, is_fresh):
    """Return ``ZERO_EFFORT`` and its row, or ``ALL_ZERO``, if an effort is not measured.

    If the observer restarts with this sample (``is_fresh``), the residual belongs to earlier
    samples and is ignored.
    """
    stamp, rules = samples.stamp[k], settings.arm[0]
    reason, row = VALID, NO_JOINT
    some_zero, all_zero, moving, since = False, True, False, -math.inf
    for i in range(memory.joint.shape[0] - 1, -1, -1):
        joint = memory.joint[i]
        moving = moving or samples.v[k, i] != 0.0
        if samples.effort[k, i] != 0.0:
            all_zero = False
        elif settings.joint[i].loaded < math.inf:
            if math.isnan(joint.zero_since):
                joint.zero_since = stamp
            some_zero = True
            since = max(since, joint.zero_since)
            residual = abs(memory.observer[i].residual)
            shown = residual > settings.joint[i].loaded and not (is_fresh or joint.measured)
            # Time since the last used sample does not count, because it may be a gap.
            used = memory.arm[0].stamp - joint.zero_since
            fading = FADED / settings.joint[i].observer_gain
            late = shown and used >= max(rules.repeated_time, fading)
            jumps = not joint.measured or abs(memory.effort[i]) > settings.joint[i].small
            jumps = jumps or used >= rules.repeated_time
            if late or (jumps and abs(samples.load[k, i]) > settings.joint[i].loaded):
                reason, row = ZERO_EFFORT, i
    if some_zero and all_zero:
        longest = rules.repeated_time if moving else rules.repeated_time_at_rest
        if reason != VALID or not memory.arm[0].measured or stamp - since >= longest:
            reason, row = ALL_ZERO, NO_JOINT
    return reason, row


@inlined_borrowing
def _moves_without_velocity(samples, k, settings, memory, dt):
    """Return whether the joints move although all velocities are exactly zero."""
    n, arm, stamp = memory.joint.shape[0], memory.arm[0], samples.stamp[k]
    base = memory.q.shape[0] - n
    for i in range(n):
        if samples.v[k, i] != 0.0:
            arm.still_since, arm.unmeasured = math.nan, False
            return False
    begins = not (stamp - arm.still_since <= MOVED_WITHIN and dt <= settings.arm[0].maximum_gap)
    if begins:
        arm.still_since, arm.moves = stamp, 0
    moved = farthest = 0.0
    for i in range(n):
        if settings.joint[i].highest_speed < math.inf:
            q, turn = samples.q[k, base + i], settings.joint[i].turn
            if begins:
                memory.joint[i].still_at = q
            moved = max(moved, abs(q - memory.q[base + i]))
            way = q - memory.joint[i].still_at
            farthest = max(farthest, abs(way - whole_turns(way, turn)))
    if moved > 0.0:
        arm.moves += 1
    if farthest > MOVED and arm.moves >= MOVES:
        arm.unmeasured = True
    return arm.unmeasured


@inlined_borrowing
def repetition(samples, k, memory):
    """Return whether sample ``k`` repeats the last accepted sample exactly.

    Positions and velocities are compared, and the efforts as well unless a joint is faster than
    :data:`IN_MOTION`: efforts may be read more often than the encoders.
    :func:`~.judged_samples.repeated_samples` has the same rule for arrays.

    Returns:
        Whether the sample is the same; whether all its efforts are the same, whatever the positions
        do; and whether the arm moves, which it does if a velocity is not zero.
    """
    same, same_effort, moving, fast = True, True, False, False
    for i in range(memory.v.shape[0]):
        same = same and samples.v[k, i] == memory.v[i]
        same_effort = same_effort and samples.effort[k, i] == memory.effort[i]
        moving = moving or samples.v[k, i] != 0.0
        fast = fast or abs(samples.v[k, i]) > IN_MOTION
    same = same and (same_effort or fast)
    for i in range(memory.q.shape[0]):
        same = same and samples.q[k, i] == memory.q[i]
    return same, same_effort, moving


@inlined_borrowing
def residuals_in_range(memory):
    """Return whether all residuals are finite and at most 1e9 N·m or N (``LARGEST``)."""
    in_range = True
    for i in range(memory.joint.shape[0]):
        in_range = in_range and is_within(memory.observer[i].residual, LARGEST)
    return in_range


FADING = 2.0
"""Number of time constants of the observer after which the error of lost samples has decayed."""

GAP_SHARE = 0.25
"""Largest fraction of a debounce time that one interval with lost samples counts for."""

OTHER_RATE = 1.5
"""Ratio of the rates of joint states and calibration above which they differ. Lost messages change
a rate by some percent, and another rate of a driver is usually another by a factor of 2."""

NOISE_LEVEL = 5.0
"""Largest noise, in standard deviations: one sample in 1.7 million exceeds it."""

USUAL = 0.25
"""Change of the momentum's rate in an interval that counts as noise, as a share of the contact
threshold."""

LEAST_INTERVALS = 10
"""Number of intervals after a start of the observer from which lost samples are detected."""

MOST_INTERVALS = 100
"""Number of intervals in mean interval and mean period; the weight of older intervals decays."""


@inlined_borrowing
def has_lost_samples(arm, dt):
    """Return whether samples are lost: an interval is longer than ``GAP_PERIODS`` mean periods.

    In the first ``LEAST_INTERVALS`` intervals after a start of the observer the result is False.

    Args:
        arm: memory of the arm, the element of :attr:`~.detector_state.Memory.arm`.
        dt: length of the interval [s].
    """
    return arm.intervals >= LEAST_INTERVALS and dt > GAP_PERIODS * arm.period


@inlined_borrowing
def learn_period(arm, dt):
    """Update the mean interval and the mean period of the samples with one interval.

    Args:
        arm: memory of the arm, the element of :attr:`~.detector_state.Memory.arm`, updated.
        dt: length of the interval [s]; it counts as at most ``GAP_PERIODS`` mean intervals in the
            mean period.
    """
    arm.intervals = min(arm.intervals + 1, MOST_INTERVALS)
    weight = 1.0 / arm.intervals
    arm.mean_interval += weight * (dt - arm.mean_interval)
    arm.period += weight * (min(dt, GAP_PERIODS * arm.mean_interval) - arm.period)


@inlined_borrowing
def usual_change(setting, dt, period, rate):
    """Return the change of the momentum's rate that a joint's thresholds cover [N·m or N].

    It is ``USUAL`` times the contact threshold, but infinite if the calibration covers all changes
    at the present rate of samples; without a calibration, if the interval is at least as long as
    the time constant 1/K of the observer.

    Args:
        setting: settings of the joint, an element of :attr:`~.detector_state.Settings.joint`.
        dt: length of the interval [s].
        period: mean period of the samples [s].
        rate: ``calibrated_rate`` [Hz]; zero if unknown.
    """
    is_covered = rate * period <= OTHER_RATE if rate > 0.0 else setting.observer_gain * dt >= 1.0
    return math.inf if is_covered else USUAL * setting.contact_threshold


@inlined_borrowing
def sampling_noise(gain, noise, period, rate):
    """Return the increase of a threshold because fewer samples average the noise [N·m or N].

    White noise of the torque with the standard deviation ``noise`` leaves a residual with the
    standard deviation ``noise sqrt((1 - exp(-K period)) / 2)``. The result is :data:`NOISE_LEVEL`
    times the difference between the present period and that of the calibration; zero unless the
    present one is longer by more than the factor :data:`OTHER_RATE`.

    Args:
        gain: gain K of the observer [1/s].
        noise: ``torque_noise`` [N·m or N].
        period: mean period of the samples [s].
        rate: ``calibrated_rate`` [Hz]; zero if unknown.
    """
    if rate * period <= OTHER_RATE:
        return 0.0
    present, calibrated = -math.expm1(-gain * period), -math.expm1(-gain / rate)
    return NOISE_LEVEL * noise * (math.sqrt(0.5 * present) - math.sqrt(0.5 * calibrated))


@inlined_borrowing
def unknown_torque(before, fade, change, usual):
    """Return the threshold allowance for unknown torque after an interval [N·m or N].

    Args:
        before: allowance before the interval [N·m or N].
        fade: fraction of the residual that remains after the interval, exp(-K dt).
        change: difference of the momentum's rate between the ends [N·m or N].
        usual: change that the thresholds cover, from :func:`usual_change` [N·m or N].
    """
    return fade * before + 0.5 * (1.0 - fade) * max(abs(change) - usual, 0.0)
