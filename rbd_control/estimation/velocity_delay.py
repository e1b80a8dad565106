"""Delay of the measured velocity against the measured effort.

Drivers differentiate and filter encoder positions, so the published velocity is late, while the
effort is not. When the motors' torque changes, the momentum follows too late, and the balance
counts the difference as an external torque. For a delay T, a step D of the torque and the observer
gain K, the residual has a peak of about ``K T D``: with K = 50 1/s, 2 ms and 150 N·m these are
15 N·m, more than a firm push.

The remedy is an equal delay of the effort. A velocity behind a first-order filter with the time
constant T is the velocity that the arm would have under the equally filtered torque, as long as the
mass matrix changes little during T. The filter is applied to the torque of the motors without
gravity, ``u``, because the other terms of the balance contain the delayed velocity already::

    u_k' = u_k + exp(-dt / T) (u_(k-1)' - u_k)

This is the exact solution for a torque that is constant between two samples. A contact that
moves the arm is detected no later, because its torque reaches the observer through the velocity,
which is late anyway. A contact of an arm at rest, against which the motors press with growing
torque, is detected later by T.
"""

from __future__ import annotations

import math

from rbd_control.dynamics.compiled import compiled, inlined

LONGEST_DELAY = 0.05
"""Longest delay that the parameter ``velocity_delay`` may have [s]."""


@inlined
def delayed(before, drive, dt, delay):
    """Return the delayed torque of a joint at the end of an interval [N·m or N].

    Args:
        before: delayed torque at the beginning of the interval [N·m or N].
        drive: torque of the motor less gravity at the end of the interval [N·m or N].
        dt: length of the interval [s].
        delay: time constant T [s]; zero for no delay.
    """
    if delay <= 0.0:
        return drive
    return drive + math.exp(-dt / delay) * (before - drive)


@compiled
def delay_torques(dt, drive, delay, out):
    """Delay the torques of k samples by the time constant ``delay`` [s], the same for all joints.

    Args:
        dt: times between the samples, (k - 1,) [s].
        drive: torques of the motors less gravity, (k, nv) [N·m or N].
        delay: time constant T [s]; zero for no delay.
        out: delayed torques, (k, nv) [N·m or N], written; the first sample is not delayed.
    """
    out[0] = drive[0]
    for k in range(1, drive.shape[0]):
        for i in range(drive.shape[1]):
            out[k, i] = delayed(out[k - 1, i], drive[k, i], dt[k - 1], delay)
