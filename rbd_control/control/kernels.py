"""Compiled parts of the control loop: short loops over the joints, without the arm's dynamics."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.compiled import compiled, inlined


@inlined
def reference_motion(q, q_f, v_f, q_d, v_d, a_d, Lambda, bounds, v_r, a_r, s):
    """Write v_r, its rate a_r and s = v_f - v_r of the control law; limits bound v_r.

    Without bounds, ``v_r = v_d - Lambda (q_f - q_d)``. Towards a position limit, v_r is at most
    ``approach`` times the distance to the limit, and nowhere faster than ``fastest``.

    Args:
        q: measured positions, (n,) [rad or m].
        q_f, v_f: positions [rad or m] and velocities [rad/s or m/s] of the feedback, (n,) each: the
            measured ones, or those of :class:`~rbd_control.control.roll_off.RollOff`.
        q_d, v_d, a_d: desired position, velocity and acceleration, (n,) each [rad or m,
            rad/s or m/s, rad/s² or m/s²].
        Lambda: (n,) decay rate of the position error [1/s].
        bounds: ``ReferenceBounds`` of :mod:`~rbd_control.control.torque_step`.
        v_r, a_r, s: (n,) each, written [rad/s or m/s, rad/s² or m/s², rad/s or m/s].
    """
    for i in range(q.shape[0]):
        speed = v_d[i] - Lambda[i] * (q_f[i] - q_d[i])
        rate = a_d[i] - Lambda[i] * (v_f[i] - v_d[i])
        fastest, approach = bounds.fastest[i], bounds.approach
        up = min(fastest, approach * max(bounds.upper[i] - q[i], 0.0))
        down = -min(fastest, approach * max(q[i] - bounds.lower[i], 0.0))
        if speed > up or speed < down:
            speed = up if speed > up else down
            # The rate of the bound: approach times the rate of the distance, or zero.
            rate = -approach * v_f[i] if 0.0 < abs(speed) < fastest else 0.0
        v_r[i], a_r[i], s[i] = speed, rate, v_f[i] - speed


@compiled
def reference(q, q_f, v_f, q_d, v_d, a_d, Lambda, bounds):
    """Return v_r, its rate and s of the control law; arguments as of :func:`reference_motion`."""
    n = q.shape[0]
    v_r, a_r, s = np.empty(n), np.empty(n), np.empty(n)
    reference_motion(q, q_f, v_f, q_d, v_d, a_d, Lambda, bounds, v_r, a_r, s)
    return v_r, a_r, s


@compiled
def spring_torque(q, lower, upper, stiffness):
    """Return the torque of springs that push back beyond soft limits, (n,) [N·m or N].

    Args:
        q: (n,) positions [rad or m].
        lower, upper: (n,) soft limits [rad or m].
        stiffness: (n,) stiffness of the springs [N·m/rad or N/m].
    """
    torque = np.empty(q.shape[0])
    for i in range(q.shape[0]):
        torque[i] = stiffness[i] * (max(lower[i] - q[i], 0.0) - max(q[i] - upper[i], 0.0))
    return torque


@compiled
def close_behind(q, slack, nominal_lower, nominal_upper, lower, upper):
    """Close opened soft limits behind an arm that moves back; return whether all are nominal.

    Args:
        q: (n,) measured positions [rad or m].
        slack: distance that an opened limit keeps from the arm [rad or m].
        nominal_lower, nominal_upper: (n,) nominal limits, at which the closing ends [rad or m].
        lower, upper: (n,) present limits [rad or m]; changed in place, never opened further.
    """
    closed = True
    for i in range(q.shape[0]):
        upper[i] = max(nominal_upper[i], min(upper[i], q[i] + slack))
        lower[i] = min(nominal_lower[i], max(lower[i], q[i] - slack))
        closed &= upper[i] == nominal_upper[i] and lower[i] == nominal_lower[i]
    return closed


@compiled
def equal(a, b):
    """Return whether two arrays (n,) are equal to the last digit; NaN equals nothing."""
    same = True
    for i in range(a.shape[0]):
        same &= a[i] == b[i]
    return same


@compiled
def largest_share(a, b, unit):
    """Return the index of the joint with the largest |a - b| / ``unit``, and this ratio.

    All arguments are (nv,), in one unit. If no ratio is above zero, the result is (0, 0.0).
    """
    joint, largest = 0, 0.0
    for i in range(a.shape[0]):
        share = abs(a[i] - b[i]) / unit[i]
        if share > largest:
            joint, largest = i, share
    return joint, largest


@compiled
def first_beyond(a, b, most):
    """Return the index of the first joint with |a - b| above ``most``, (nv,) each, or -1."""
    for i in range(a.shape[0]):
        if abs(a[i] - b[i]) > most[i]:
            return i
    return -1


@compiled
def first_above(v, most):
    """Return the index of the first joint with |v| above ``most``, (nv,) each, or -1."""
    for i in range(v.shape[0]):
        if abs(v[i]) > most[i]:
            return i
    return -1


@compiled
def needs_cut(torque, least, most, q, lower, upper):
    """Return whether the torque or the position of any joint is outside of its bounds, or NaN.

    Args:
        torque: torque, (nv,) [N·m or N].
        least, most: torque limits, (nv,) each [N·m or N].
        q: positions, (nv,) [rad or m].
        lower, upper: position limits, (nv,) each [rad or m].
    """
    cut = False
    for i in range(torque.shape[0]):
        cut |= not least[i] <= torque[i] <= most[i] or not lower[i] <= q[i] <= upper[i]
    return cut


@compiled
def slowed(torque, last, rate, dt, least, most):
    """Return the torque with a limited rate of change, and whether the limit was active.

    One factor scales the change of all joints. The torque limits apply to a result that was scaled.

    Args:
        torque: requested torque, (nv,) [N·m or N]; returned itself if it need not be limited.
        last: last torque, (nv,) [N·m or N].
        rate: largest rate of each joint, (nv,) [N·m/s or N/s].
        dt: time since the last torque [s].
        least, most: torque limits, (nv,) each [N·m or N].
    """
    share = 1.0
    for i in range(torque.shape[0]):
        change = abs(torque[i] - last[i])
        if change > rate[i] * dt:
            share = min(share, rate[i] * dt / change)
    if share == 1.0:
        return torque, False
    # If the torque limits were just lowered, the last torque may exceed them.
    slow = last + share * (torque - last)
    return np.minimum(np.maximum(slow, least), most), True


class Swings(NamedTuple):
    """Reversals of the torque, for :func:`swinging`.

    Attributes:
        peak: extreme torque in ``direction`` since the last reversal, (n,) [N·m or N].
        at: time of the peak, (n,) [s].
        direction: 1 while the torque rises, -1 while it falls, (n,).
        start: torque at the last reversal, (n,) [N·m or N].
        demanded: least and largest torque that the desired acceleration demanded in the present
            swing and in the one before it, (2, 2, n) [N·m or N].
        times: times of the last reversals with large swings between them, (n, k) [s], the oldest
            first; minus infinity for a missing reversal.
    """

    peak: np.ndarray
    at: np.ndarray
    direction: np.ndarray
    start: np.ndarray
    demanded: np.ndarray
    times: np.ndarray


@compiled
def swinging(torque, demanded, now, limit, rate, shortest, within, swings):
    """Record reversals of the torque; return the index of a joint whose torque oscillates, or -1.

    A swing leads from one reversal to the next. It is large if it exceeds ``limit``, or ``rate``
    times its time, which counts as at least ``shortest``. The range of the torque that the desired
    acceleration demanded in this swing and the one before it is subtracted first. A joint
    oscillates if only large swings lie between its last reversals, and the first of these was less
    than ``within`` before the last.

    Args:
        torque: present torque, (n,) [N·m or N].
        demanded: torque that the desired acceleration demands, (n,) [N·m or N].
        now: present time [s].
        limit: size above which every swing is large, (n,) [N·m or N].
        rate: mean rate above which a swing is large, (n,) [N·m/s or N/s].
        shortest: shortest time of a swing in the comparison with ``rate`` [s].
        within: length of the time window [s].
        swings: the recorded reversals, a :class:`Swings`; changed in place.
    """
    found, times, last = -1, swings.times, swings.times.shape[1] - 1
    present, before = swings.demanded[0], swings.demanded[1]
    for i in range(torque.shape[0]):
        present[0, i] = min(present[0, i], demanded[i])
        present[1, i] = max(present[1, i], demanded[i])
        back = (swings.peak[i] - torque[i]) * swings.direction[i]
        if 0.0 < back <= min(limit[i], rate[i] * shortest):
            continue
        if back > 0.0:
            # The torque has reversed at the peak, where a swing ended.
            size = abs(swings.peak[i] - swings.start[i])
            size -= max(present[1, i], before[1, i]) - min(present[0, i], before[0, i])
            time = max(swings.at[i] - times[i, last], shortest)
            if size <= min(limit[i], rate[i] * time):
                times[i, :] = -np.inf
            times[i, :last] = times[i, 1:]
            times[i, last] = swings.at[i]
            if swings.at[i] - times[i, 0] < within:
                found = i
            swings.start[i], swings.direction[i] = swings.peak[i], -swings.direction[i]
            before[:, i], present[:, i] = present[:, i], demanded[i]
        swings.peak[i], swings.at[i] = torque[i], now
    return found
