"""Compiled checks of samples: implausible and repeated samples, and efforts that are not measured.

An implausible sample is dropped as if its message had been lost: neither the filter nor the
thresholds use it, and the last verdict is kept. After several dropped samples in a row there is no
verdict.

An effort of exactly zero counts as not measured if the model expects a load, because drives that
are switched off, and drivers that fill the field with zeros, publish it. The load of a joint may be
small for a moment, so only loads well above the noise (``loaded``, half of the contact threshold)
count:

- A gravity torque above ``loaded`` counts at once.
- A residual above ``loaded`` shows the torque that the motion needs, or that of a push. It counts
  on a joint whose effort has always been zero, for ``repeated_time`` and for :data:`FADED` time
  constants of the observer, in which the residual of an earlier push has decayed. On a joint whose
  effort was measured before, zero may be its true value, as that of a simulated arm that
  compensates its own gravity, and the residual is a contact.
- Zeros on all joints count at once before the first effort that is not zero, and afterwards if they
  last for ``repeated_time``, or for ``repeated_time_at_rest`` while no joint moves.
"""

from __future__ import annotations

import math

from rbd_control.dynamics.borrowing import inlined_borrowing
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
)
from rbd_control.estimation.momentum_balance import LARGEST, USABLE
from rbd_control.joint_states.plausibility import FARTHEST, has_jumped, is_within

FADED = 10.0
"""Number of time constants of the observer after which the residual of a push has decayed."""
IN_MOTION = 0.02
"""Speed from which a joint must show a new position, whatever the efforts do [rad/s or m/s].

At this speed an encoder of 12 bits, with steps of 1.5e-3 rad, shows a new position within
``maximum_gap``. A slower joint may repeat its position and a rounded velocity, so that only a
repeated effort shows that the driver has read nothing."""
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
            if late or abs(samples.load[k, i]) > settings.joint[i].loaded:
                reason, row = ZERO_EFFORT, i
    if some_zero and all_zero:
        longest = rules.repeated_time if moving else rules.repeated_time_at_rest
        if reason != VALID or not memory.arm[0].measured or stamp - since >= longest:
            reason, row = ALL_ZERO, NO_JOINT
    return reason, row


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
