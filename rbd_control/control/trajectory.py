"""Joint trajectories: checked as a whole, then sampled as splines.

The checks are those joint_trajectory_controller makes and the ones it leaves out: numbers that
are not finite or far too large, joints named twice, negative times, limits on position and speed
(between the points too) and a first point that is too far away for the time given.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.kernels import first_over, polynomials
from rbd_control.control.splines import fill_velocities, hermite
from rbd_control.errors import TrajectoryError

Array = NDArray[np.float64]

START_TOLERANCE = 0.05
"""How far a point that is due at once may be from the present desired position [rad or m]."""

AT_ONCE = 0.1
"""The time the arm takes to a last point that is due at once [s]."""

REST_TOLERANCE = 1e-5
"""The largest last velocity that counts as zero [rad/s or m/s]."""

POSITION_SLACK = 1e-3
"""How far a spline may pass a position limit between points that keep it [rad or m]."""

SPEED_SLACK = 1.01
"""Factor on the velocity limit, so that a plan that uses the whole of it is taken."""

MOST_POINTS = 2000
"""How many points a trajectory may have: between two torques there is no time for more."""

LARGEST = 1e9
"""What no number of a trajectory, whatever its unit, reaches; so splines never overflow."""

_PROBES = 24
"""Intervals per segment at whose ends a spline is held against the limits."""


class TrajectoryPoint(NamedTuple):
    """A waypoint: what trajectory_msgs/JointTrajectoryPoint carries, as plain values."""

    positions: Sequence[float]
    """[rad or m], in the order of the names given with the points."""
    velocities: Sequence[float] = ()
    """[rad/s or m/s], or empty."""
    accelerations: Sequence[float] = ()
    """[rad/s² or m/s²], or empty."""
    time_from_start: float = 0.0
    """[s] from the stamp of the trajectory."""


class DesiredState(NamedTuple):
    """Where the arm should be at one instant, each (n,)."""

    q_d: Array
    """[rad or m]"""
    v_d: Array
    """[rad/s or m/s]"""
    a_d: Array
    """[rad/s² or m/s²]"""

    @classmethod
    def at_rest(cls, q: Array) -> DesiredState:
        """Standing at ``q``."""
        zero = np.zeros_like(q)
        return cls(q, zero, zero)


class JointLimits(Protocol):
    """What a trajectory is checked against; :class:`rbd_control.dynamics.Model` has it."""

    @property
    def lower_limit(self) -> Array: ...
    @property
    def upper_limit(self) -> Array: ...
    @property
    def velocity_limit(self) -> Array: ...


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A motion of all joints from time 0 to :attr:`duration`, at rest at its end.

    Made by :meth:`from_points`. Between two knots it is the polynomial
    ``sum_k coefficients[i, k] (t - knots[i])^k``.
    """

    joint_names: tuple[str, ...]
    knots: tuple[float, ...]
    """(m + 1,) times [s]; the first is 0."""
    coefficients: Array
    """(m, 6, n) by segment, power and joint."""
    final: Array
    """(n,) last position [rad or m]."""

    @property
    def duration(self) -> float:
        """Time of the last point [s]."""
        return self.knots[-1]

    @classmethod
    def from_points(
        cls,
        joint_names: Sequence[str],
        names: Sequence[str],
        points: Sequence[TrajectoryPoint],
        *,
        start: DesiredState,
        limits: JointLimits | None = None,
        delay: float = 0.0,
        partial: bool = False,
        turning: Sequence[int] = (),
        slower: float = 1.0,
    ) -> Trajectory:
        """Check the points and lay splines through them, from ``start`` at time 0 on.

        A segment between two points is the quintic through position, velocity and acceleration
        where both carry all three, else the cubic through position and velocity. Points without
        velocities get those that make the acceleration continuous along their run (a clamped
        cubic spline); a last point without velocity is one at rest. (joint_trajectory_controller
        joins points without velocities by straight lines; no torque can follow their corners.)

        Args:
            joint_names: the joints of the arm, in the order samples shall have.
            names: the joints in the order of the points; the same set, or with ``partial`` some
                of them.
            points: see :class:`TrajectoryPoint`.
            start: the desired state that the arm has now. As the spline begins there, replacing
                a running trajectory makes no jump.
            limits: position and speed limits to keep; None for no check.
            delay: when the points' time 0 is [s from now]; negative when it has passed. Points
                that are due already are left out.
            partial: joints that ``names`` leaves out stay where they are; they must stand still.
            turning: indices of continuous joints, whose positions are shifted by the whole turns
                that bring the first point nearest to the start.
            slower: factor on all times, with which speeds and accelerations fall.

        Raises:
            TrajectoryError: naming the point, the joint and the reason.
        """
        places = _places(joint_names, names, start.v_d if partial else None)
        q, v, a = (_spread(x, places, len(joint_names)) for x in _fields(points, names))
        still = [j for j in range(len(joint_names)) if j not in places]
        q[:, still] = start.q_d[still]
        for j in turning:
            q[:, j] += 2.0 * math.pi * round((start.q_d[j] - q[0, j]) / (2.0 * math.pi))
        times = _times(points, delay, slower)
        v, a = v / slower, a / slower**2
        if limits is not None:
            _check_points(q, v, joint_names, limits)
        last = len(points) - 1
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
        knots = np.array([0.0, *times[first:]])
        q = np.vstack((start.q_d, q[first:]))
        v = np.vstack((start.v_d, v[first:]))
        a = np.vstack((start.a_d, a[first:]))
        fill_velocities(knots, q, v)
        coefficients = hermite(np.diff(knots)[:, None], q, v, a)
        trajectory = cls(tuple(joint_names), tuple(knots.tolist()), coefficients, q[-1].copy())
        if limits is not None:
            trajectory.check(limits, start, first)
        return trajectory

    @classmethod
    def stop(cls, joint_names: Sequence[str], q: Array, v: Array, time: float) -> Trajectory:
        """Come to rest at ``q`` from there with velocity ``v``, within ``time`` [s].

        The cubic brakes with 4 v / time at first, overshoots by 4/27 v time and comes back: an arm
        that stops because it has run into something ends no deeper in it.
        """
        states = np.vstack((q, q)), np.vstack((v, np.zeros_like(v)))
        coefficients = hermite(np.array([[time]]), *states, np.full((2, len(q)), np.nan))
        return cls(tuple(joint_names), (0.0, time), coefficients, np.array(q, dtype=float))

    def sample(self, t: float) -> DesiredState:
        """The desired state at time ``t`` [s]; before 0 the first, after the end the last."""
        if t >= self.knots[-1]:
            return DesiredState.at_rest(self.final)
        t = max(t, 0.0)
        i = bisect_right(self.knots, t) - 1
        return DesiredState(*polynomials(self.coefficients, i, t - self.knots[i]))

    def resumed(self, t: float, start: DesiredState, limits: JointLimits) -> Trajectory:
        """The rest of this trajectory after a stop at time ``t``, led into from ``start``.

        A quintic takes the arm to the first knot that is at least 0.25 s ahead of ``t`` (or the
        last) in twice the time that was left to it, or as much longer as the speed limits need.

        Raises:
            TrajectoryError: when no such lead-in keeps the limits.
        """
        ahead = bisect_right(self.knots[:-1], t + 0.25)
        knot = self.knots[ahead]
        target = self.sample(knot)
        time = 2.0 * max(knot - t, 0.25)
        # The acceleration of a stop that is not over yet would swing a long lead-in far out.
        ends = zip(start._replace(a_d=np.zeros_like(start.a_d)), target, strict=True)
        states = [np.vstack(pair) for pair in ends]
        for _ in range(6):
            lead = hermite(np.array([[time]]), *states)
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
        """States at the ends of ``intervals`` in each segment, each (m, intervals + 1, n)."""
        c = self.coefficients
        u = np.diff(self.knots)[:, None] * np.linspace(0.0, 1.0, intervals + 1)
        powers = u[:, :, None] ** np.arange(6)
        q = powers @ c
        v = (powers[:, :, :5] * np.arange(1, 6)) @ c[:, 1:]
        a = (powers[:, :, :4] * (2, 6, 12, 20)) @ c[:, 2:]
        return DesiredState(q, v, a)

    def check(self, limits: JointLimits, start: DesiredState, first_point: int = 0) -> None:
        """Hold the splines against the limits; the arm may come in from outside of them.

        Args:
            limits: to be kept.
            start: the state it begins with.
            first_point: number of the point at the end of its first segment, for the message.

        Raises:
            TrajectoryError: naming the segment, the joint and the limit.
        """
        lengths = np.diff(self.knots)
        i, j, what, worst = first_over(
            self.coefficients,
            lengths,
            np.minimum(limits.lower_limit, start.q_d) - POSITION_SLACK,
            np.maximum(limits.upper_limit, start.q_d) + POSITION_SLACK,
            np.maximum(limits.velocity_limit, np.abs(start.v_d)) * SPEED_SLACK,
            _PROBES,
        )
        if not what:
            return
        point = first_point + i
        before = "here" if i == 0 else f"point {point - 1}"
        place = f"from {before} to point {point}, joint {self.joint_names[j]!r}"
        if what == 1:
            ends = (polynomials(self.coefficients, i, u)[0][j] for u in (0.0, lengths[i]))
            raise TrajectoryError(
                f"{place}: it would reach a speed of {worst:.4g} on its way from "
                f"{next(ends):.4g} to {next(ends):.4g} in {lengths[i]:.4g} s; "
                f"its limit is {limits.velocity_limit[j]:g}"
            )
        raise TrajectoryError(
            f"{place}: the spline passes {worst:.4g}; its limits are "
            f"{limits.lower_limit[j]:g} to {limits.upper_limit[j]:g}"
        )


def _places(joint_names: Sequence[str], names: Sequence[str], speeds: Array | None) -> list[int]:
    """Where each of ``names`` stands among the joints of the arm.

    Joints may be missing when ``speeds`` are given, if theirs is zero.
    """
    known = ", ".join(joint_names)
    if not len(names):
        raise TrajectoryError(f"the trajectory names no joints; joints are {known}")
    for i, name in enumerate(names):
        if name not in joint_names:
            raise TrajectoryError(f"no joint {name!r}; joints are {known}")
        if name in names[:i]:
            raise TrajectoryError(f"joint {name!r} is named twice")
    for j, name in enumerate(joint_names):
        if name in names:
            continue
        if speeds is None:
            raise TrajectoryError(f"joint {name!r} is missing; joints are {known}")
        if abs(speeds[j]) > REST_TOLERANCE:
            raise TrajectoryError(
                f"joint {name!r} is missing but still moves with {speeds[j]:.4g}; name it, or let "
                "it come to rest first"
            )
    return [joint_names.index(name) for name in names]


def _spread(values: Array, places: Sequence[int], n: int) -> Array:
    """Columns of named joints among those of all; the others are zero, or NaN in rows of NaN."""
    out = np.zeros((len(values), n))
    out[np.isnan(values[:, 0])] = np.nan
    out[:, places] = values
    return out


def _fields(points: Sequence[TrajectoryPoint], names: Sequence[str]) -> tuple[Array, Array, Array]:
    """Positions, velocities and accelerations, (m, n) each; rows of NaN where there are none."""
    if len(points) == 0:
        raise TrajectoryError("the trajectory has no points")
    if len(points) > MOST_POINTS:
        raise TrajectoryError(
            f"the trajectory has {len(points)} points; {MOST_POINTS} are the most: leave some out"
        )
    n = len(names)
    out = np.full((3, len(points), n), np.nan)
    for k, field in enumerate(("positions", "velocities", "accelerations")):
        given = [getattr(point, field) for point in points]
        rows = [i for i, values in enumerate(given) if k == 0 or len(values)]
        for i in rows:
            if len(given[i]) != n:
                raise TrajectoryError(
                    f"point {i} has {len(given[i])} {field} but the trajectory names {n} joints"
                )
        if not rows:
            continue
        try:
            out[k, rows] = [given[i] for i in rows]
        except (TypeError, ValueError) as error:
            raise TrajectoryError(f"{field} are not numbers: {error}") from error
        bad = np.argwhere(~(np.abs(out[k, rows]) < LARGEST))
        if len(bad):
            i, j = rows[bad[0, 0]], int(bad[0, 1])
            raise TrajectoryError(f"point {i}, joint {names[j]!r}: {field} hold {out[k, i, j]}")
    for i, point in enumerate(points):
        if len(point.accelerations) and not len(point.velocities):
            raise TrajectoryError(f"point {i} has accelerations but no velocities")
    return out[0], out[1], out[2]


def _times(points: Sequence[TrajectoryPoint], delay: float, slower: float) -> Array:
    """The time of each point from now [s], strictly increasing, the last not in the past."""
    if not -math.inf < delay < LARGEST:
        raise TrajectoryError(
            f"the trajectory starts in {delay:g} s; give a finite time of this clock"
        )
    last = -math.inf
    for i, point in enumerate(points):
        time = float(point.time_from_start)
        if not 0.0 <= time < LARGEST:
            raise TrajectoryError(
                f"point {i}: time_from_start is {time:g} s; it must be finite and not negative"
            )
        if time <= last:
            raise TrajectoryError(
                f"point {i}: time_from_start is {time:g} s, not after the {last:g} s of point "
                f"{i - 1}"
            )
        last = time
    if last + delay < 0.0:
        raise TrajectoryError(
            f"point {len(points) - 1}: the trajectory ended {-(last + delay):.4g} s ago"
        )
    times = np.array([slower * point.time_from_start + delay for point in points])
    together = np.flatnonzero(np.diff(times) <= 0.0)
    if len(together):
        i = int(together[0])
        raise TrajectoryError(
            f"point {i + 1}: its time is too close to that of point {i} to be told from it "
            f"{abs(times[i]):.4g} s from now"
        )
    return times


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
    """A point that is due at once must be where the arm is."""
    distance = np.abs(q - here)
    j = int(distance.argmax())
    if distance[j] > START_TOLERANCE:
        raise TrajectoryError(
            f"point {point}, joint {joint_names[j]!r}: it is due at once but {distance[j]:.4g} "
            f"away (from {here[j]:.4g} to {q[j]:.4g}); give it time"
        )
