"""The compiled parts of the control loop: short loops over joints, with nothing made for them."""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics.compiled import compiled

PLAUSIBLE, NOT_FINITE = -1, -2


@compiled
def reference(q, v, q_d, v_d, a_d, Lambda, lower, upper, fastest, approach):
    """v_r, its rate and s of the law, v_r kept within bounds of speed and distance."""
    n = q.shape[0]
    v_r, a_r, s = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        speed = v_d[i] - Lambda[i] * (q[i] - q_d[i])
        rate = a_d[i] - Lambda[i] * (v[i] - v_d[i])
        up = min(fastest[i], approach * max(upper[i] - q[i], 0.0))
        down = -min(fastest[i], approach * max(q[i] - lower[i], 0.0))
        if speed > up or speed < down:
            speed = up if speed > up else down
            # The rate of the bound: that of approach times distance, else it is constant.
            rate = -approach * v[i] if 0.0 < abs(speed) < fastest[i] else 0.0
        v_r[i], a_r[i], s[i] = speed, rate, v[i] - speed
    return v_r, a_r, s


@compiled
def polynomials(coefficients, i, u):
    """Row ``i`` of polynomials (m, 6, n) of degree five at ``u``, and their two derivatives."""
    n = coefficients.shape[2]
    q, v, a = np.empty(n), np.empty(n), np.empty(n)
    for j in range(n):
        value = rate = half = 0.0
        for k in range(5, -1, -1):
            half = half * u + rate
            rate = rate * u + value
            value = value * u + coefficients[i, k, j]
        q[j], v[j], a[j] = value, rate, 2.0 * half
    return q, v, a


@compiled
def first_over(coefficients, lengths, lowest, highest, fastest, probes):
    """Where polynomials (m, 6, n) first leave their limits: segment, joint, what and how far.

    What is 0 for nowhere, 1 for speed and 2 for position. Each is looked at ``probes`` times, but
    for those that cannot leave: a sum of absolute values bounds them.
    """
    for i in range(coefficients.shape[0]):
        h = lengths[i]
        for j in range(coefficients.shape[2]):
            speed = way = 0.0
            for k in range(5, 0, -1):
                speed = speed * h + k * abs(coefficients[i, k, j])
                way = (way + abs(coefficients[i, k, j])) * h
            start = coefficients[i, 0, j]
            if speed <= fastest[j] and lowest[j] <= start - way and start + way <= highest[j]:
                continue
            speed, low, high = 0.0, start, start
            for p in range(probes + 1):
                u = h * p / probes
                value = rate = 0.0
                for k in range(5, -1, -1):
                    rate = rate * u + value
                    value = value * u + coefficients[i, k, j]
                speed, low, high = max(speed, abs(rate)), min(low, value), max(high, value)
            if speed > fastest[j]:
                return i, j, 1, speed
            if low < lowest[j]:
                return i, j, 2, low
            if high > highest[j]:
                return i, j, 2, high
    return 0, 0, 0, 0.0


@compiled
def spring_torque(q, lower, upper, stiffness):
    """Springs that push back beyond soft limits."""
    torque = np.empty(q.shape[0])
    for i in range(q.shape[0]):
        torque[i] = stiffness[i] * (max(lower[i] - q[i], 0.0) - max(q[i] - upper[i], 0.0))
    return torque


@compiled
def closeness(q, lower, upper, margin):
    """0 a margin or more before every soft limit, 1 at one."""
    closest = 0.0
    for i in range(q.shape[0]):
        if margin[i] > 0.0:
            distance = min(q[i] - lower[i], upper[i] - q[i])
            closest = max(closest, 1.0 - distance / margin[i])
    return min(closest, 1.0)


@compiled
def first_implausible(q, v, before, fastest, jump, dt):
    """Index of the first joint that is too fast, or nv more of the first that jumped."""
    n = q.shape[0]
    for i in range(n):
        if not (np.isfinite(q[i]) and np.isfinite(v[i])):
            return NOT_FINITE
    for i in range(n):
        if abs(v[i]) > fastest[i]:
            return i
        if abs(q[i] - before[i]) > jump + fastest[i] * dt:
            return n + i
    return PLAUSIBLE


@compiled
def exceeds(torque, largest):
    """Whether a torque is over its limit."""
    over = False
    for i in range(torque.shape[0]):
        over |= abs(torque[i]) > largest[i]
    return over


@compiled
def cut(torque, weight, largest):
    """The weight, and as much of the rest as all joints can bear."""
    weight = np.minimum(np.maximum(weight, -largest), largest)
    rest = torque - weight
    share = 1.0
    for i in range(rest.shape[0]):
        room = largest[i] - weight[i] if rest[i] > 0.0 else largest[i] + weight[i]
        if abs(rest[i]) > room:
            share = min(share, room / abs(rest[i]))
    return np.minimum(np.maximum(weight + share * rest, -largest), largest)


@compiled
def slowed(torque, last, rate, dt, largest):
    """As far from the last torque as all joints can go in ``dt``, and whether that is short."""
    share = 1.0
    for i in range(torque.shape[0]):
        change = abs(torque[i] - last[i])
        if change > rate[i] * dt:
            share = min(share, rate[i] * dt / change)
    if share == 1.0:
        return torque, False
    # The last torque lies outside of limits that have just been lowered.
    slow = last + share * (torque - last)
    return np.minimum(np.maximum(slow, -largest), largest), True
