"""Joint trajectories: splines, checked as a whole and then sampled.

**Joint trajectories, checked as a whole and then sampled as splines.**

The checks include those of joint_trajectory_controller, and checks that it lacks: numbers that
are not finite or far too large, repeated joint names, negative times, limits on position and speed
(also between the points) and a point that is due at once but far from the desired position.

**Compiled parts of planning: splines through points, and the check of their limits.**

All functions release Python's global interpreter lock, so that planning does not delay control.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.waypoints import Points, TrajectoryPoint, Waypoints
from rbd_control.dynamics.compiled import compiled, for_types_of, inlined
from rbd_control.errors import TrajectoryError

__all__ = ["DesiredState", "JointLimits", "Trajectory", "TrajectoryPoint"]

Array = NDArray[np.float64]

START_TOLERANCE = 0.05
"""Largest distance from the desired position to a point that is due at once [rad or m]."""

AT_ONCE = 0.1
"""Time in which the arm moves to a last point that is due at once [s]."""

REST_TOLERANCE = 1e-5
"""Largest last velocity that counts as zero [rad/s or m/s]."""

POSITION_SLACK = 1e-3
"""Largest violation of a position limit by a spline between points that keep it [rad or m]."""

SPEED_SLACK = 1.01
"""Tolerance factor on the velocity limit, so that a plan at the limit is accepted."""

SLOWING = 0.3
"""Time within which a trajectory must slow down a start above a speed limit [s]."""

LEAD_IN = 0.25
"""Shortest time on a trajectory from its interruption to the knot at which it is rejoined [s].

The time to the last knot may be shorter.
"""

_PROBES = 24
"""Number of intervals per segment at whose ends a spline is compared with the limits."""

_LONGER = 6
"""Maximum number of attempts of a lead-in, each twice as long as the previous one."""


class DesiredState(NamedTuple):
    """Desired motion of the arm at one instant, each (n,)."""

    q_d: Array
    """Position [rad or m]."""
    v_d: Array
    """Velocity [rad/s or m/s]."""
    a_d: Array
    """Acceleration [rad/s² or m/s²]."""

    @classmethod
    def at_rest(cls, q: Array) -> DesiredState:
        """Return the state of an arm that stands at ``q``, (n,) [rad or m]."""
        zero = np.zeros_like(q)
        return cls(q, zero, zero)


class JointLimits(Protocol):
    """Limits that a trajectory is checked against; :class:`rbd_control.dynamics.Model` has them.

    A limit is infinite for a joint without limit.
    """

    @property
    def lower_limit(self) -> Array:
        """Lowest positions, (n,) [rad or m]."""

    @property
    def upper_limit(self) -> Array:
        """Highest positions, (n,) [rad or m]."""

    @property
    def velocity_limit(self) -> Array:
        """Greatest speeds, (n,) [rad/s or m/s]."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A motion of all joints from time 0 to :attr:`duration`, at rest at its end.

    Between two knots it is the polynomial ``sum_k coefficients[i, k] (t - knots[i])^k``.
    """

    joint_names: tuple[str, ...]
    knots: tuple[float, ...]
    """(m + 1,) times [s]; the first is 0."""
    coefficients: Array
    """(m, 6, n) by segment, power and joint."""
    final: Array
    """(n,) last position [rad or m]."""

    def __post_init__(self) -> None:
        # Kernels that take no other arrays are called for each sample.
        for name in ("coefficients", "final"):
            array = np.ascontiguousarray(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, array)

    @property
    def duration(self) -> float:
        """Time of the last point [s]."""
        return self.knots[-1]

    @classmethod
    def from_points(
        cls,
        joint_names: Sequence[str],
        names: Sequence[str],
        points: Points,
        *,
        start: DesiredState,
        limits: JointLimits | None = None,
        delay: float = 0.0,
        partial: bool = False,
        turning: Sequence[int] = (),
    ) -> Trajectory:
        """Check the points and compute splines through them, from ``start`` at time 0.

        Args:
            joint_names, names, points, partial: see :meth:`Waypoints.of`.
            start, limits, delay, turning: see :meth:`through`.

        Raises:
            TrajectoryError: naming the point, the joint and the reason.
        """
        waypoints = Waypoints.of(joint_names, names, points, partial)
        return cls.through(waypoints, start=start, limits=limits, delay=delay, turning=turning)

    @classmethod
    def through(
        cls,
        waypoints: Waypoints,
        *,
        start: DesiredState,
        limits: JointLimits | None = None,
        delay: float = 0.0,
        turning: Sequence[int] = (),
        slower: float = 1.0,
        turned: Array | None = None,
    ) -> Trajectory:
        """Compute splines through checked points, from ``start`` at time 0.

        A segment between two points is the quintic through position, velocity and acceleration
        if both points have all three, else the cubic through position and velocity. Points without
        velocities get velocities for which the acceleration is continuous (a clamped cubic
        spline); a last point without velocity is at rest. (joint_trajectory_controller joins
        points without velocities by straight lines; no torque can follow their corners.)

        Args:
            waypoints: the points.
            start: the present desired state, at which the spline begins, so that replacing a
                running trajectory causes no jump.
            limits: position and speed limits to keep; with None they are not checked.
            delay: time from now to the points' time 0 [s]; negative for a time in the past. Points
                that are already due are skipped, except a last point that is due at once: the arm
                moves to it within ``AT_ONCE``.
            turning: indices of continuous joints, whose positions are shifted by the whole turns
                that bring the first point nearest to the start.
            slower: factor on the times of the points but not on ``delay``. It reduces speeds and
                accelerations, also the acceleration of ``start`` but not its speed.
            turned: (n,) offset of the unwrapping in ``start``, to add to all positions [rad].

        Raises:
            TrajectoryError: naming the point, the joint and the reason.
        """
        joint_names = waypoints.joint_names
        times = waypoints.due(delay, slower)
        q, v, a = waypoints.q.copy(), waypoints.v / slower, waypoints.a / slower**2
        if turned is not None:
            q += turned
        for j in waypoints.left_out:
            if abs(start.v_d[j]) > REST_TOLERANCE:
                raise TrajectoryError(
                    f"joint {joint_names[j]!r} is missing but still moves with {start.v_d[j]:.4g};"
                    " name it, or let it come to rest first"
                )
            q[:, j] = start.q_d[j]
        for j in turning:
            q[:, j] += 2.0 * math.pi * round((start.q_d[j] - q[0, j]) / (2.0 * math.pi))
        if limits is not None:
            _check_points(q, v, joint_names, limits)
        last = len(times) - 1
        if np.isnan(v[last, 0]):
            v[last] = 0.0
        j = int(np.abs(v[last]).argmax())
        if abs(v[last, j]) > REST_TOLERANCE:
            raise TrajectoryError(
                f"point {last}, joint {joint_names[j]!r}: the last velocity is {v[last, j]:g}; "
                "the arm must end at rest"
            )

        first = int(np.searchsorted(times, 0.0, side="right"))
        if first > 0 and times[first - 1] == 0.0:
            _check_start(q[first - 1], start.q_d, joint_names, first - 1)
        if first > last:
            first, times[last] = last, AT_ONCE
        knots = np.concatenate(((0.0,), times[first:]))
        trajectory = cls.joining(
            joint_names,
            knots,
            np.vstack((start.q_d, q[first:])),
            np.vstack((start.v_d, v[first:])),
            # A start acceleration that is held for longer would lead to higher speeds.
            np.vstack((start.a_d / slower**2, a[first:])),
        )
        trajectory.check(limits, start, first)
        return trajectory

    @classmethod
    def joining(
        cls, joint_names: tuple[str, ...], knots: Array, q: Array, v: Array, a: Array
    ) -> Trajectory:
        """Return splines through states, without any check.

        :meth:`through` has the rule for quintic and cubic segments.

        Args:
            joint_names: the joints of the arm.
            knots: (m + 1,) times of the states [s]; the first is 0.
            q: (m + 1, n) positions [rad or m]; the arm stays at the last one.
            v: (m + 1, n) velocities [rad/s or m/s]; rows of NaN are replaced in place by velocities
                for which the acceleration is continuous. The first and the last row must be finite.
            a: (m + 1, n) accelerations [rad/s² or m/s²], with a row of NaN for a state without
                accelerations.
        """
        fill_velocities(knots, q, v)
        coefficients = hermite(np.diff(knots), q, v, a)
        return cls(joint_names, tuple(knots.tolist()), coefficients, q[-1].copy())

    @classmethod
    def stop(cls, joint_names: tuple[str, ...], q: Array, v: Array, time: float) -> Trajectory:
        """Return a stop at ``q`` from velocity ``v`` within ``time`` [s].

        The cubic begins with the deceleration 4 v / time, overshoots by 4/27 v time and returns to
        ``q``: after a collision the arm does not end deeper in the obstacle.

        Args:
            joint_names: the joints of the arm.
            q, v: positions and velocities at the start, (n,) each [rad or m, rad/s or m/s].
            time: duration of the stop [s].
        """
        none = np.full((2, len(q)), np.nan)
        velocities = np.vstack((v, np.zeros_like(v)))
        return cls.joining(joint_names, np.array((0.0, time)), np.vstack((q, q)), velocities, none)

    def sample(self, t: float) -> DesiredState:
        """Return the desired state at the time ``t`` [s].

        It is the first state for ``t`` below 0, and rest at :attr:`final` after the end.
        """
        if t >= self.knots[-1]:
            return DesiredState.at_rest(self.final)
        t = max(t, 0.0)
        i = bisect_right(self.knots, t) - 1
        return DesiredState(*_polynomials()(self.coefficients, i, t - self.knots[i]))

    def resumed(self, t: float, start: DesiredState, limits: JointLimits) -> Trajectory:
        """Return the remainder of this trajectory after a stop at time ``t``, with a lead-in.

        A quintic moves the arm from ``start`` to the first knot at least ``LEAD_IN`` after ``t``
        (or the last knot) in twice the remaining time, or longer if the limits require it.

        Args:
            t: time on this trajectory at which the arm was stopped [s].
            start: present desired state, from which the result begins.
            limits: position and speed limits to keep.

        Raises:
            TrajectoryError: if six lead-ins, each twice as long as the previous one, violate the
                limits.
        """
        ahead = bisect_right(self.knots[:-1], t + LEAD_IN)
        knot = self.knots[ahead]
        target = self.sample(knot)
        time = 2.0 * max(knot - t, LEAD_IN)
        # The acceleration of an unfinished stop would make a long lead-in overshoot far.
        ends = zip(start._replace(a_d=np.zeros_like(start.a_d)), target, strict=True)
        q, v, a = (np.vstack(pair) for pair in ends)
        for _ in range(_LONGER):
            lead = hermite(np.array((time,)), q, v, a)
            later = tuple(time + k - knot for k in self.knots[ahead:])
            coefficients = np.concatenate((lead, self.coefficients[ahead:]))
            trajectory = Trajectory(self.joint_names, (0.0, *later), coefficients, self.final)
            try:
                trajectory.check(limits, start)
                return trajectory
            except TrajectoryError as error:
                time, refusal = 2.0 * time, error
        raise refusal

    def probe(self, intervals: int) -> DesiredState:
        """Return the states at equidistant times of each segment, each (m, intervals + 1, n).

        Args:
            intervals: number of intervals between these times in a segment.
        """
        return DesiredState(*probes(self.coefficients, np.diff(self.knots), intervals))

    def path(self, step: float, most: int, since: float = 0.0) -> tuple[Array, Array]:
        """Return times (k,) [s] and positions (k, n) [rad or m] on the way from a time to the end.

        They include the first and the last position, each knot, and at least one position in each
        segment in which the joints travel further than ``step``.

        Args:
            step: desired travel between two positions, the sum of all joints [rad or m]. Where a
                joint moves unevenly, the travel is up to five times as far.
            most: if ``step`` requires more than this number of positions between the knots, the
                step becomes longer; k is at most ``most + 2 m + 1`` for m segments.
            since: earliest time [s].
        """
        knots, segments = np.array(self.knots), len(self.knots) - 1
        first = min(max(bisect_right(self.knots, since), 1), segments) - 1
        way = np.zeros(segments)
        way[first:] = travels(self.coefficients[first:], np.diff(knots[first:]))
        # One position at least where the travel exceeds the step, also if its sum overflows.
        counts = np.fmax(np.ceil(way / max(step, way.sum() / most)), 1.0).astype(np.int64)
        counts[way <= step] = 0
        return postures(self.coefficients, knots, counts, first, since)

    def check(self, limits: JointLimits | None, start: DesiredState, first_point: int = 0) -> None:
        """Compare positions and speeds of the splines at sampled times with the limits.

        A start outside of a position limit moves this limit to the position of the start, for the
        whole trajectory. A start above a speed limit, as during a stop, must be slowed down to the
        limit evenly within :data:`SLOWING`. Accelerations are not checked.

        Args:
            limits: limits to keep; with None only finite numbers are required.
            start: the initial state.
            first_point: number of the point at the end of the first segment, for the message.

        Raises:
            TrajectoryError: naming the segment, the joint and the violated limit.
        """
        lengths = np.diff(self.knots)
        endless = np.full(len(start.q_d), np.inf)
        lowest, highest, fastest = -endless, endless, endless
        if limits is not None:
            lowest = np.minimum(limits.lower_limit, start.q_d) - POSITION_SLACK
            highest = np.maximum(limits.upper_limit, start.q_d) + POSITION_SLACK
            fastest = np.maximum(limits.velocity_limit, np.abs(start.v_d)) * SPEED_SLACK
        i, j, what, worst = first_over(
            self.coefficients, lengths, lowest, highest, fastest, _PROBES
        )
        if not what:
            if limits is not None:
                self._check_slowing(limits.velocity_limit, np.abs(start.v_d), first_point)
            return
        point = first_point + i
        before = "here" if i == 0 else f"point {point - 1}"
        place = f"from {before} to point {point}, joint {self.joint_names[j]!r}"
        if what == 3 or limits is None:
            raise TrajectoryError(f"{place}: its numbers are too large for {lengths[i]:.4g} s")
        if what == 1:
            begin, end = (polynomials(self.coefficients, i, u)[0][j] for u in (0.0, lengths[i]))
            raise TrajectoryError(
                f"{place}: it would reach a speed of {worst:.4g} on its way from {begin:.4g} to "
                f"{end:.4g} in {lengths[i]:.4g} s; its limit is {limits.velocity_limit[j]:g}"
            )
        raise TrajectoryError(
            f"{place}: the spline passes {worst:.4g}; its limits are "
            f"{limits.lower_limit[j]:g} to {limits.upper_limit[j]:g}"
        )

    def check_speeds(self, limits: JointLimits, since: float) -> None:
        """Compare the speeds from the segment at a time on with limits that have changed.

        Args:
            limits: limits of the speed to keep.
            since: time from which the motion goes on [s].

        Raises:
            TrajectoryError: naming the segment, the joint and its speed limit.
        """
        knots = np.array(self.knots)
        first = min(max(bisect_right(self.knots, since), 1), len(knots) - 1) - 1
        endless = np.full(len(self.final), np.inf)
        fastest = limits.velocity_limit * SPEED_SLACK
        i, j, what, worst = first_over(
            self.coefficients[first:], np.diff(knots)[first:], -endless, endless, fastest, _PROBES
        )
        if what:
            raise TrajectoryError(
                f"joint {self.joint_names[j]!r} would reach a speed of {worst:.4g} before point "
                f"{first + i}; its limit is {limits.velocity_limit[j]:g}"
            )

    def _check_slowing(self, limit: Array, start: Array, first_point: int) -> None:
        """Raise an error if a start above a speed limit is not slowed down within ``SLOWING``.

        Args:
            limit, start: speed limits and speeds at the start, (n,) each [rad/s or m/s].
            first_point: as of :meth:`check`.
        """
        if (start <= limit * SPEED_SLACK).all():
            return
        lengths = np.diff(self.knots)[:, None]
        times = np.array(self.knots[:-1])[:, None] + lengths * np.linspace(0.0, 1.0, _PROBES + 1)
        part = np.maximum(1.0 - times / SLOWING, 0.0)[:, :, None]
        over = np.abs(self.probe(_PROBES).v_d) - np.maximum(limit, part * start) * SPEED_SLACK
        for i, k, j in np.argwhere(over > 0.0)[:1]:
            raise TrajectoryError(
                f"up to point {first_point + i}, joint {self.joint_names[j]!r}: it begins at a "
                f"speed of {start[j]:.4g}, over its limit of {limit[j]:g}, and is still too fast "
                f"after {times[i, k]:.3g} s; send it when the arm has stopped"
            )


def _check_points(q: Array, v: Array, joint_names: Sequence[str], limits: JointLimits) -> None:
    low, high, fastest = limits.lower_limit, limits.upper_limit, limits.velocity_limit
    for i, j in np.argwhere((q < low) | (q > high))[:1]:
        raise TrajectoryError(
            f"point {i}, joint {joint_names[j]!r}: position {q[i, j]:g} is outside its limits "
            f"{low[j]:g} to {high[j]:g}"
        )
    for i, j in np.argwhere(np.abs(v) > fastest * SPEED_SLACK)[:1]:
        raise TrajectoryError(
            f"point {i}, joint {joint_names[j]!r}: velocity {v[i, j]:g} is over its limit "
            f"{fastest[j]:g}"
        )


def _check_start(q: Array, here: Array, joint_names: Sequence[str], point: int) -> None:
    """Raise an error if a point that is due at once is too far from the desired position ``here``.

    Raises:
        TrajectoryError: naming the point, the joint and the distance.
    """
    distance = np.abs(q - here)
    j = int(distance.argmax())
    if distance[j] > START_TOLERANCE:
        raise TrajectoryError(
            f"point {point}, joint {joint_names[j]!r}: it is due at once but {distance[j]:.4g} "
            f"away (from {here[j]:.4g} to {q[j]:.4g}); increase its time_from_start"
        )


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


@cache
def _polynomials() -> Callable[..., tuple[Array, Array, Array]]:
    """Return the machine code of :func:`polynomials`."""
    return for_types_of(polynomials, (np.zeros((1, 6, 1)), 0, 0.0))


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
