"""Compiled parts of planning: splines through points, and the check of their limits.

All functions release Python's global interpreter lock, so that planning does not delay control.
"""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics.compiled import compiled, inlined


@compiled
def polynomials(coefficients, i, u):
    """Return position, velocity and acceleration of one segment of a spline, (n,) each.

    Args:
        coefficients: (m, 6, n) polynomials of degree five by segment, power and joint.
        i: index of the segment.
        u: time from the start of the segment [s].
    """
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
def probes(coefficients, lengths, intervals):
    """Return positions, velocities and accelerations at equidistant times of each segment.

    Each is (m, intervals + 1, n).

    Args:
        coefficients: (m, 6, n) by segment, power and joint.
        lengths: (m,) durations of the segments [s].
        intervals: number of intervals between these times in a segment.
    """
    m, _, n = coefficients.shape
    q, v, a = (
        np.empty((m, intervals + 1, n)),
        np.empty((m, intervals + 1, n)),
        np.empty((m, intervals + 1, n)),
    )
    for i in range(m):
        for p in range(intervals + 1):
            u = lengths[i] * p / intervals
            for j in range(n):
                value = rate = half = 0.0
                for k in range(5, -1, -1):
                    half = half * u + rate
                    rate = rate * u + value
                    value = value * u + coefficients[i, k, j]
                q[i, p, j], v[i, p, j], a[i, p, j] = value, rate, 2.0 * half
    return q, v, a


@compiled
def fill_velocities(knots, q, v):
    """Replace rows of NaN in ``v`` by the velocities of a clamped cubic spline, in place.

    Each run of NaN rows gets the velocities of the cubic spline through the positions with the
    given velocities at both ends of the run.

    Args:
        knots: (m,) times, strictly increasing [s].
        q: (m, n) positions [rad or m].
        v: (m, n) velocities [rad/s or m/s]; the first and the last row must not be NaN.
    """
    m, n = q.shape
    diagonal = np.empty(m)
    first = 0
    while first < m - 1:
        last = first + 1
        while np.isnan(v[last, 0]):
            last += 1
        if last > first + 1:
            # h1 v0 + 2 (h0 + h1) v1 + h0 v2 = 3 (h1 mean0 + h0 mean1), forward elimination
            for i in range(first + 1, last):
                h0, h1 = knots[i] - knots[i - 1], knots[i + 1] - knots[i]
                factor = 0.0
                diagonal[i] = 2.0 * (h0 + h1)
                if i > first + 1:
                    factor = h1 / diagonal[i - 1]
                    diagonal[i] -= factor * (knots[i - 1] - knots[i - 2])
                for j in range(n):
                    mean0, mean1 = (q[i, j] - q[i - 1, j]) / h0, (q[i + 1, j] - q[i, j]) / h1
                    right = 3.0 * (h1 * mean0 + h0 * mean1)
                    if i == first + 1:
                        right -= h1 * v[first, j]
                    else:
                        right -= factor * v[i - 1, j]
                    if i == last - 1:
                        right -= h0 * v[last, j]
                    v[i, j] = right
            for i in range(last - 1, first, -1):
                h0 = knots[i] - knots[i - 1]
                for j in range(n):
                    if i < last - 1:
                        v[i, j] -= h0 * v[i + 1, j]
                    v[i, j] /= diagonal[i]
        first = last


@compiled
def hermite(h, q, v, a):
    """Return the coefficients (m, 6, n) of a spline through m + 1 states, by segment and power.

    A segment is quintic if both ends have accelerations, and cubic if one of them is a row of NaN.

    Args:
        h: (m,) durations of the segments [s].
        q, v, a: positions, velocities and accelerations of the states, (m + 1, n) each [rad or m,
            rad/s or m/s, rad/s² or m/s²].
    """
    m, n = h.shape[0], q.shape[1]
    c = np.zeros((m, 6, n))
    for i in range(m):
        hi = h[i]
        quintic = not np.isnan(a[i, 0] + a[i + 1, 0])
        for j in range(n):
            c[i, 0, j], c[i, 1, j] = q[i, j], v[i, j]
            if not quintic:
                mean = (q[i + 1, j] - q[i, j]) / hi
                c[i, 2, j] = (3.0 * mean - 2.0 * v[i, j] - v[i + 1, j]) / hi
                c[i, 3, j] = (v[i, j] + v[i + 1, j] - 2.0 * mean) / hi**2
                continue
            # Remaining differences of position, velocity and acceleration at the end.
            x = q[i + 1, j] - q[i, j] - v[i, j] * hi - 0.5 * a[i, j] * hi**2
            y = v[i + 1, j] - v[i, j] - a[i, j] * hi
            z = a[i + 1, j] - a[i, j]
            c[i, 2, j] = 0.5 * a[i, j]
            c[i, 3, j] = (10.0 * x - 4.0 * y * hi + 0.5 * z * hi**2) / hi**3
            c[i, 4, j] = (-15.0 * x + 7.0 * y * hi - z * hi**2) / hi**4
            c[i, 5, j] = (6.0 * x - 3.0 * y * hi + 0.5 * z * hi**2) / hi**5
    return c


@compiled
def first_over(coefficients, lengths, lowest, highest, fastest, probes):
    """Return the first polynomial (m, 6, n) that leaves its limits: segment, joint, what, value.

    ``what`` is 0 for no violation (segment and joint are then 0), 1 for speed, 2 for position and 3
    for a number that is not finite; ``value`` is the speed or position that is reached, and the
    position at the start of the segment if ``what`` is 3. Segments are compared first, then joints.

    Args:
        coefficients: (m, 6, n) by segment, power and joint.
        lengths: (m,) durations of the segments [s].
        lowest, highest: position limits, (n,) each [rad or m].
        fastest: speed limits, (n,) [rad/s or m/s].
        probes: number of intervals of a segment at whose ends a polynomial is evaluated, unless the
            sum of the absolute values of its terms already excludes a violation.
    """
    for i in range(coefficients.shape[0]):
        h = lengths[i]
        for j in range(coefficients.shape[2]):
            speed = way = 0.0
            for k in range(5, 0, -1):
                speed = speed * h + k * abs(coefficients[i, k, j])
                way = (way + abs(coefficients[i, k, j])) * h
            start = coefficients[i, 0, j]
            if not np.isfinite(speed + way + start):
                return i, j, 3, start
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
def travels(coefficients, lengths):
    """Return how far the joints travel in each segment at most, (m,), the sum of all joints.

    A polynomial travels at most as far as the polygon of its Bernstein coefficients
    ``b_i = sum_{k <= i} C(i, k) / C(5, k) c_k h^k``; equally far if the polygon does not turn back.
    Its speed is at most ``5 / h`` times the longest side of the polygon.

    Args:
        coefficients: (m, 6, n) by segment, power and joint.
        lengths: (m,) durations of the segments [s].
    """
    m, _, n = coefficients.shape
    result = np.zeros(m)
    b = np.empty(6)
    choices = (1.0, 5.0, 10.0, 10.0, 5.0, 1.0)  # C(5, k)
    for i in range(m):
        for j in range(n):
            power = 1.0
            for k in range(6):
                b[k] = coefficients[i, k, j] * power / choices[k]
                power *= lengths[i]
            for first in range(1, 6):
                for k in range(5, first - 1, -1):
                    b[k] += b[k - 1]
            for k in range(5):
                result[i] += abs(b[k + 1] - b[k])
    return result


@inlined
def _put(coefficients, i, u, time, times, q, at):
    """Store a time, and the position of segment ``i`` at its time ``u``, in row ``at`` of arrays.

    Returns:
        The next row.
    """
    times[at] = time
    for j in range(coefficients.shape[2]):
        value = 0.0
        for k in range(5, -1, -1):
            value = value * u + coefficients[i, k, j]
        q[at, j] = value
    return at + 1


@compiled
def postures(coefficients, knots, counts, first, since):
    """Return times (k,) and positions (k, n) of a spline from the time ``since`` to its end.

    In each segment ``i`` they are the knot, and one time in each of ``counts[i]`` equal parts of
    the segment: in the middle of the parts of the first segment, and later by the golden ratio
    further in each following segment. A motion that repeats itself every few segments is therefore
    seen at other phases in each repetition. The gap between two times is at most one part.

    Args:
        coefficients: (m, 6, n) by segment, power and joint.
        knots: (m + 1,) times [s].
        counts: (m,) numbers of positions between the knots.
        first: the segment of the time ``since``.
        since: earliest time [s], which takes the place of the first knot.
    """
    m, _, n = coefficients.shape
    size = 1
    for i in range(first, m):
        size += counts[i] + 1
    times, q = np.empty(size), np.empty((size, n))
    at, phase = 0, 0.5
    for i in range(first, m):
        begin = max(since - knots[i], 0.0) if i == first else 0.0
        part = (knots[i + 1] - knots[i] - begin) / max(counts[i], 1)
        for p in range(counts[i] + 1):
            u = begin if p == 0 else begin + (p - 1 + phase) * part
            at = _put(coefficients, i, u, max(knots[i] + u, since), times, q, at)
        phase = (phase + 0.618033988749895) % 1.0
    _put(coefficients, m - 1, knots[m] - knots[m - 1], max(knots[m], since), times, q, at)
    return times, q


@compiled
def highest_speeds(v):
    """Return the highest speed of each joint, (n,), in states with the velocities ``v``, (k, n)."""
    speeds = np.zeros(v.shape[1])
    for i in range(v.shape[0]):
        for j in range(v.shape[1]):
            speeds[j] = max(speeds[j], abs(v[i, j]))
    return speeds


@compiled
def largest_effort(torque, weight, limit, carried):
    """Return the first state whose gravity torque exceeds its limit, its joint, and the effort.

    The effort is the largest ratio of the torque beyond gravity to the torque that gravity leaves
    for it in its direction. State and joint are -1 if no gravity torque exceeds its limit; else the
    effort is infinite.

    Args:
        torque, weight: torques and gravity torques of the states, (k, n) each [N·m or N].
        limit: torque limits, (n,) [N·m or N].
        carried: (n,) torques beyond gravity that are accepted in their direction [N·m or N].
    """
    effort = 0.0
    for i in range(torque.shape[0]):
        for j in range(torque.shape[1]):
            if abs(weight[i, j]) > limit[j]:
                return i, j, np.inf
            rest = torque[i, j] - weight[i, j]
            if rest > 0.0:
                effort = max(effort, rest / max(limit[j] - weight[i, j], carried[j]))
            elif rest < 0.0:
                effort = max(effort, rest / min(-limit[j] - weight[i, j], carried[j]))
    return -1, -1, effort
