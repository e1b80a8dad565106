"""Compiled parts of the control loop: short loops over joints."""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics.compiled import compiled, inlined


@inlined
def reference_motion(q, v, q_d, v_d, a_d, Lambda, bounds, v_r, a_r, s):
    """Write v_r, its rate a_r and s of the law; speed and position limits bound v_r."""
    for i in range(q.shape[0]):
        speed = v_d[i] - Lambda[i] * (q[i] - q_d[i])
        rate = a_d[i] - Lambda[i] * (v[i] - v_d[i])
        fastest, approach = bounds.fastest[i], bounds.approach
        up = min(fastest, approach * max(bounds.upper[i] - q[i], 0.0))
        down = -min(fastest, approach * max(q[i] - bounds.lower[i], 0.0))
        if speed > up or speed < down:
            speed = up if speed > up else down
            # The rate of the bound: approach times the rate of the distance, or zero.
            rate = -approach * v[i] if 0.0 < abs(speed) < fastest else 0.0
        v_r[i], a_r[i], s[i] = speed, rate, v[i] - speed


@compiled
def reference(q, v, q_d, v_d, a_d, Lambda, bounds):
    """Return v_r, its rate and s of the law."""
    n = q.shape[0]
    v_r, a_r, s = np.empty(n), np.empty(n), np.empty(n)
    reference_motion(q, v, q_d, v_d, a_d, Lambda, bounds, v_r, a_r, s)
    return v_r, a_r, s


@compiled
def spring_torque(q, lower, upper, stiffness):
    """Return the torque of springs that push back beyond soft limits."""
    torque = np.empty(q.shape[0])
    for i in range(q.shape[0]):
        torque[i] = stiffness[i] * (max(lower[i] - q[i], 0.0) - max(q[i] - upper[i], 0.0))
    return torque


@compiled
def close_behind(q, slack, nominal_lower, nominal_upper, lower, upper):
    """Move opened limits back towards the nominal limits; return True when all have arrived."""
    closed = True
    for i in range(q.shape[0]):
        upper[i] = max(nominal_upper[i], min(upper[i], q[i] + slack))
        lower[i] = min(nominal_lower[i], max(lower[i], q[i] - slack))
        closed &= upper[i] == nominal_upper[i] and lower[i] == nominal_lower[i]
    return closed


@compiled
def equal(a, b):
    """Return whether two arrays are exactly equal."""
    same = True
    for i in range(a.shape[0]):
        same &= a[i] == b[i]
    return same


@compiled
def largest_share(a, b, unit):
    """Return the joint with the largest |a - b| / ``unit``, (nv,) each, and this ratio."""
    joint, largest = 0, 0.0
    for i in range(a.shape[0]):
        share = abs(a[i] - b[i]) / unit[i]
        if share > largest:
            joint, largest = i, share
    return joint, largest


@compiled
def first_beyond(a, b, most):
    """Return the first row with |a - b| above ``most``, (nv,) each, or -1 if no row is."""
    for i in range(a.shape[0]):
        if abs(a[i] - b[i]) > most[i]:
            return i
    return -1


@compiled
def first_above(v, most):
    """Return the first row with |v| above ``most``, (nv,) each, or -1 if no row is."""
    for i in range(v.shape[0]):
        if abs(v[i]) > most[i]:
            return i
    return -1


@compiled
def needs_cut(torque, least, most, q, lower, upper):
    """Return whether a torque or a position is outside of its bounds, or NaN.

    All arguments are (nv,) [N·m or N; rad or m].
    """
    cut = False
    for i in range(torque.shape[0]):
        cut |= not least[i] <= torque[i] <= most[i] or not lower[i] <= q[i] <= upper[i]
    return cut


@compiled
def slowed(torque, last, rate, dt, least, most):
    """Return the torque with a limited rate of change, and whether the limit was active.

    One factor scales the change of all joints.

    Args:
        torque: requested torque, (nv,) [N·m or N].
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


@compiled
def swinging(torque, swing, now, within, extreme, direction, times):
    """Record swings of the torque; return a joint with many recent swings, or -1.

    A joint has many recent swings if all its ``times`` are less than ``within`` before ``now``.

    Args:
        torque: present torque, (nv,) [N·m or N].
        swing: size above which a swing counts, (nv,) [N·m or N].
        now: present time [s].
        within: length of the time window [s].
        extreme: extreme torque in ``direction`` since the last swing, (nv,); changed in place.
        direction: 1 while the torque rises, -1 while it falls, (nv,); changed in place.
        times: times of the last swings, (nv, k) [s], the oldest first; changed in place.
    """
    found, last = -1, times.shape[1] - 1
    for i in range(torque.shape[0]):
        beyond = (torque[i] - extreme[i]) * direction[i]
        if beyond >= 0.0:
            extreme[i] = torque[i]
        elif -beyond > swing[i]:
            extreme[i], direction[i] = torque[i], -direction[i]
            for k in range(last):
                times[i, k] = times[i, k + 1]
            times[i, last] = now
            if now - times[i, 0] < within:
                found = i
    return found
