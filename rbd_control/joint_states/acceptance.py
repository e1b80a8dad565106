"""Compiled rules that accept or drop joint-state messages and determine their time."""

from __future__ import annotations

from math import inf, isfinite, isnan, nan

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics.compiled import compiled_borrowing, inlined_borrowing

FUTURE_TOLERANCE = 0.1
"""Largest accepted lead of a stamp over the time of receipt [s].

Clocks of two machines differ, and /clock may be slow. A stamp with a larger lead is replaced.
"""

GAP_PERIODS = 5.0
"""Time between two samples, in mean periods, above which it is counted as a gap."""

MEAN_STEPS = 100
"""Number of times between samples whose mean is the period.

Each further time has the weight ``1 / MEAN_STEPS``, so that older times decay.
"""

LONGEST_STEP = 0.1
"""Upper bound of a time between samples in the mean period [s], so that a pause changes it little.

The bound is ``GAP_PERIODS`` periods if that is longer.
"""

DROPS = (
    "empty",
    "lengths",
    "duplicate name",
    "missing joint",
    "not finite",
    "negative stamp",
    "old stamp",
    "same stamp",
    "too large",
)
"""Reasons for dropping a message; each is a key of ``JointStateIntake.counts``.

``empty``: no names. ``lengths``: position, velocity or effort do not have one number for each name
(velocity and effort may be empty). ``missing joint``: a joint of the intake is not among the names.
``not finite``: a position or the time. ``old stamp``: late, see :data:`JUMP_MESSAGES`.
``same stamp``: equal to the last sample's. ``too large``: a magnitude above :data:`LARGEST`.
"""

LARGEST = 1e9
"""Largest accepted position, velocity or effort, in any unit."""

JUMP_MESSAGES = 3
"""Number of late messages in a row, with increasing stamps, that show that the clock went back.

A message is late if its stamp is older than the last sample. It is also late if its stamp is newer
but continues late messages: at most :data:`CONTINUES` periods after the last late message, and
closer to one period after that message than to one period after the last sample.
"""

BURST_MESSAGES = 10
"""Replaces :data:`JUMP_MESSAGES` while late messages fit into a gap just before the last sample.

The last sample may have overtaken them, as in a recording that was merged from two.
"""

CONTINUES = 1.5
"""Longest time between two messages without a lost message between them, in mean periods."""

REMARKS = ("stamp replaced", "velocity missing", "effort missing")
"""Deficiencies of an accepted message; also keys of ``JointStateIntake.counts``."""

COUNTED = ("accepted", *DROPS, *REMARKS)
_ACCEPTED = COUNTED.index("accepted")
_NOT_FINITE = COUNTED.index("not finite")
_NEGATIVE_STAMP = COUNTED.index("negative stamp")
_OLD_STAMP = COUNTED.index("old stamp")
_SAME_STAMP = COUNTED.index("same stamp")
_TOO_LARGE = COUNTED.index("too large")
_STAMP_REPLACED = COUNTED.index("stamp replaced")
_VELOCITY_MISSING = COUNTED.index("velocity missing")
_EFFORT_MISSING = COUNTED.index("effort missing")

# Memory of an intake: indices of its clock, and indices of its tally after the counts.
LAST_STAMP, PERIOD, LARGEST_GAP, _LAST_LATE, _BEFORE, _OFFSET = range(6)
_BEGIN, _END = len(COUNTED), len(COUNTED) + 8
(
    GAPS,
    JUMPS,
    FOLLOWS_JUMPS,
    LAST_REASON,
    TOO_LARGE,
    MISSING,
    _ON_RECEIPT,
    _LATE,
) = range(_BEGIN, _END)
"""Indices of the tally. ``TOO_LARGE`` and ``MISSING`` hold the place of a value, or -1.

``TOO_LARGE``: the first too large value of the last message that was dropped because of one.
``MISSING``: the first NaN among velocities and efforts of the last accepted message with a missing
velocity or effort; -2 if its velocity was empty, otherwise -3 if its effort was.
The place counts n positions, then n velocities, then n efforts, in the order of the model.
"""

VELOCITY, EFFORT, AFTER_JUMP = 1, 2, 4
"""Flags of a sample: it has velocity, it has effort, the clock went back before it; added up."""


def new_memory(follow_jumps: bool) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the memory of an intake before its first message: its clock and its tally.

    Args:
        follow_jumps: whether to restart when the clock has gone back, see
            :class:`~rbd_control.joint_states.JointStateIntake`.

    Returns:
        The clock, times [s] with indices such as ``LAST_STAMP``, and the tally, the counts of
        ``COUNTED`` followed by values with indices such as ``GAPS``. The kernels change both.
    """
    tally = np.zeros(_END, dtype=np.int64)
    tally[FOLLOWS_JUMPS] = follow_jumps
    tally[TOO_LARGE] = tally[MISSING] = -1
    return np.array([nan, nan, 0.0, -inf, nan, 0.0]), tally


@inlined_borrowing
def _accept(stamp, receipt, position, velocity, effort, order, clock, tally, q, v, tau):
    """Write the sample of one message to ``q``, ``v`` and ``tau``; arguments as :func:`accept_one`.

    Returns:
        The sum of the flags of the sample, or -1 for a message that is dropped.
    """
    jumps = tally[JUMPS]
    places = _take(position, order, q)
    for i in range(q.shape[0]):
        if not isfinite(q[i]):
            places = _NOT_FINITE
    speeds = _take(velocity, order, v) if velocity.shape[0] > 0 else _NOT_FINITE
    efforts = _take(effort, order, tau) if effort.shape[0] > 0 else _NOT_FINITE
    reason = places
    if reason == _ACCEPTED and (speeds == _TOO_LARGE or efforts == _TOO_LARGE):
        reason = _TOO_LARGE
    if reason == _ACCEPTED:
        reason = _accept_time(stamp, receipt, clock, tally)
    tally[reason] += 1
    tally[LAST_REASON] = reason
    if reason != _ACCEPTED:
        if reason == _TOO_LARGE:
            tally[TOO_LARGE] = _first_too_large(places, q, speeds, v, tau)
        return -1
    has = AFTER_JUMP if tally[JUMPS] != jumps else 0
    if speeds == _ACCEPTED:
        has += VELOCITY
    else:
        tally[_VELOCITY_MISSING] += 1
    if efforts == _ACCEPTED:
        has += EFFORT
    else:
        tally[_EFFORT_MISSING] += 1
    if speeds != _ACCEPTED or efforts != _ACCEPTED:
        tally[MISSING] = _first_missing(velocity, effort, v, tau)
    return has


@compiled_borrowing
def accept_one(stamp, receipt, position, velocity, effort, order, clock, tally, sample):
    """Check one message, and write its sample.

    Args:
        stamp, receipt: time of the message by its sender, and of its receipt [s].
        position, velocity, effort: fields of the message, (m,) each; the latter two may be empty.
        order: index in the message of each joint of the model, (n,).
        clock, tally: memory of the intake from :func:`new_memory`; changed in place.
        sample: (3, n) array for q, v and tau, in the order of the model; changed also if the
            message is dropped. v and tau are valid only if their flags are returned.

    Returns:
        The sum of the flags of the sample (``VELOCITY``, ``EFFORT``, ``AFTER_JUMP``), whose time
        [s] is in ``clock[LAST_STAMP]``; or -1 for a message that is dropped.
    """
    q, v, tau = sample[0], sample[1], sample[2]
    return _accept(stamp, receipt, position, velocity, effort, order, clock, tally, q, v, tau)


@compiled_borrowing
def accept_block(stamp, receipt, position, velocity, effort, order, clock, tally, time, has, out):
    """Process k messages as :func:`accept_one` does, and return the number of accepted messages.

    ``stamp``, ``receipt``, ``position``, ``velocity`` and ``effort`` have one more dimension (k,)
    in front. Times and times of receipt, flags, and q, v, tau of the accepted messages are written
    to the beginning of ``time`` (2, k), ``has`` (k,) and ``out`` (3, k, n).
    """
    accepted = 0
    for k in range(stamp.shape[0]):
        q, v, tau = out[0, accepted], out[1, accepted], out[2, accepted]
        has[accepted] = _accept(
            stamp[k],
            receipt[k],
            position[k],
            velocity[k],
            effort[k],
            order,
            clock,
            tally,
            q,
            v,
            tau,
        )
        time[0, accepted], time[1, accepted] = clock[LAST_STAMP], receipt[k]
        accepted += has[accepted] >= 0
    return accepted


@inlined_borrowing
def _take(values, order, into):
    """Copy selected values; return ``_ACCEPTED``, ``_NOT_FINITE`` for NaN, or ``_TOO_LARGE``.

    ``_NOT_FINITE`` takes precedence.
    """
    reason = _ACCEPTED
    for i in range(order.shape[0]):
        into[i] = values[order[i]]
        if abs(into[i]) > LARGEST and reason == _ACCEPTED:
            reason = _TOO_LARGE
        if isnan(into[i]):
            reason = _NOT_FINITE
    return reason


@inlined_borrowing
def _first_too_large(q_reason, q, v_reason, v, tau):
    """Return the index of the first too large value in the sequence (q, v, tau).

    Positions and velocities count only if their reason is ``_TOO_LARGE``.
    """
    n = q.shape[0]
    for i in range(n):
        if q_reason == _TOO_LARGE and abs(q[i]) > LARGEST:
            return i
    for i in range(n):
        if v_reason == _TOO_LARGE and abs(v[i]) > LARGEST:
            return n + i
    for i in range(n):
        if abs(tau[i]) > LARGEST:
            return 2 * n + i
    return -1


@inlined_borrowing
def _first_missing(velocity, effort, v, tau):
    """Return ``MISSING`` for the fields of a message and the values that were taken from them."""
    n = v.shape[0]
    if velocity.shape[0] == 0:
        return -2
    for i in range(n):
        if isnan(v[i]):
            return n + i
    if effort.shape[0] == 0:
        return -3
    for i in range(n):
        if isnan(tau[i]):
            return 2 * n + i
    return -1


@inlined_borrowing
def _accept_time(stamp, receipt, clock, tally):
    """Move the clock to the time of the message and return 0, or return the reason for a drop."""
    if stamp < 0.0:
        return _NEGATIVE_STAMP
    on_receipt = stamp == 0.0 or not stamp <= receipt + FUTURE_TOLERANCE
    late = jumped = False
    if not on_receipt and tally[_ON_RECEIPT] and stamp <= clock[LAST_STAMP]:
        # After a replaced stamp, further stamps may belong to another epoch, such as simulated
        # time, and would all count as old. The time of receipt is therefore used until enough
        # consecutive stamps are in order.
        late = True
        jumped = tally[FOLLOWS_JUMPS] and _went_back(stamp, receipt, clock, tally)
        on_receipt = not jumped
    # The offset is the age of the last message with a usable stamp at its receipt.
    time = receipt - clock[_OFFSET] if on_receipt else stamp
    if not isfinite(time):
        return _NOT_FINITE
    continues = not late and _continues_late_messages(time, clock, tally)
    if time == clock[LAST_STAMP] and not continues:
        return _SAME_STAMP
    if not jumped and (time < clock[LAST_STAMP] or continues):
        # A late message has been counted above, and counts once.
        if late or not (tally[FOLLOWS_JUMPS] and _went_back(time, receipt, clock, tally)):
            return _OLD_STAMP
        jumped = True
    if jumped:
        tally[JUMPS] += 1
        clock[LAST_STAMP] = nan
    if jumped or not late:
        tally[_LATE] = 0
    if not on_receipt:
        clock[_OFFSET] = receipt - stamp
    tally[_ON_RECEIPT] = on_receipt and time != stamp
    tally[_STAMP_REPLACED] += tally[_ON_RECEIPT]
    _measure(time, clock, tally)
    return 0


@inlined_borrowing
def _continues_late_messages(time, clock, tally):
    """Return whether a message follows the last late message rather than the last sample."""
    period, step = clock[PERIOD], time - clock[_LAST_LATE]
    fits = abs(step - period) <= abs(time - clock[LAST_STAMP] - period)
    return tally[_LATE] > 0 and 0.0 < step <= CONTINUES * period and fits


@inlined_borrowing
def _went_back(time, receipt, clock, tally):
    """Count a late message; return whether the clock has gone back."""
    if receipt < clock[LAST_STAMP] - FUTURE_TOLERANCE:
        return True
    tally[_LATE] = tally[_LATE] + 1 if time > clock[_LAST_LATE] else 1
    clock[_LAST_LATE] = time
    has_gap = clock[LAST_STAMP] - clock[_BEFORE] > CONTINUES * clock[PERIOD]
    fills_gap = has_gap and time > clock[_BEFORE]
    return tally[_LATE] >= (BURST_MESSAGES if fills_gap else JUMP_MESSAGES)


@inlined_borrowing
def _measure(time, clock, tally):
    """Update the period, the gaps, and the time of the last sample."""
    step = time - clock[LAST_STAMP]
    clock[_BEFORE], clock[LAST_STAMP] = clock[LAST_STAMP], time
    if isnan(step):  # the first sample, or the first after a jump of the clock
        return
    if isnan(clock[PERIOD]):
        clock[PERIOD] = clock[LARGEST_GAP] = step
        return
    longest = GAP_PERIODS * clock[PERIOD]
    tally[GAPS] += step > longest
    clock[LARGEST_GAP] = max(clock[LARGEST_GAP], step)
    # Cut to periods only, the steps between batches of messages could never lengthen the period.
    step = min(step, max(longest, LONGEST_STEP))
    clock[PERIOD] += (step - clock[PERIOD]) / min(tally[_ACCEPTED], MEAN_STEPS)
