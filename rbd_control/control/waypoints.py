"""The points of a trajectory message: checked, and in the order of the arm's joints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.errors import TrajectoryError
from rbd_control.wording import quoted

Array = NDArray[np.float64]

MOST_POINTS = 2000
"""Largest number of points of a trajectory."""

LARGEST = 1e9
"""Bound on every number of a trajectory, in any unit, so that splines never overflow."""

_NONE: Array = np.empty((0, 0))
_FIELDS = ("positions", "velocities", "accelerations")


class TrajectoryJointsError(TrajectoryError):
    """A trajectory names no joint, an unknown joint, a joint twice, or lacks a required joint."""


class PastTrajectoryError(TrajectoryError):
    """A trajectory whose last point was already past when it arrived."""


class TrajectoryPoint(NamedTuple):
    """A waypoint: the fields of trajectory_msgs/JointTrajectoryPoint as plain values."""

    positions: Sequence[float] | Array
    """Positions [rad or m], in the order of the names given with the points."""
    velocities: Sequence[float] | Array = ()
    """Velocities [rad/s or m/s], or empty."""
    accelerations: Sequence[float] | Array = ()
    """Accelerations [rad/s² or m/s²], or empty."""
    time_from_start: float = 0.0
    """Time from the stamp of the trajectory [s]."""


@dataclass(frozen=True, eq=False)
class TrajectoryArrays:
    """The points of a trajectory as arrays, which saves the conversion of many points.

    Its length is the number of points, m.

    Attributes:
        positions: (m, n) [rad or m], in the order of the names given with the points.
        times: (m,) time of each point [s] from the stamp of the trajectory.
        velocities: (m, n) [rad/s or m/s], with a row of NaN for a point without velocities; an
            empty array if no point has velocities.
        accelerations: (m, n) [rad/s² or m/s²], with the same meaning of a row of NaN and of an
            empty array; a point with accelerations needs velocities.
    """

    positions: Array
    times: Array
    velocities: Array = field(default_factory=lambda: _NONE)
    accelerations: Array = field(default_factory=lambda: _NONE)

    def __len__(self) -> int:
        return len(self.positions)


Points = Sequence[TrajectoryPoint] | TrajectoryArrays


def check_size(joint_names: Sequence[str], names: Sequence[str], points: Points) -> None:
    """Check the size of a trajectory, without reading its points.

    Args:
        joint_names: the joints of the arm, for the message.
        names: the joints that the trajectory names.
        points: the points of the trajectory.

    Raises:
        TrajectoryError: without points, or with more than ``MOST_POINTS`` points.
        TrajectoryJointsError: without names.
    """
    if not len(names):
        raise TrajectoryJointsError(
            f"the trajectory names no joints; joints are {_listed(joint_names)}"
        )
    if len(points) == 0:
        raise TrajectoryError("the trajectory has no points")
    if len(points) > MOST_POINTS:
        raise TrajectoryError(
            f"the trajectory has {len(points)} points; the limit is {MOST_POINTS}"
        )


@dataclass(frozen=True, eq=False)
class Waypoints:
    """The points of one trajectory in the order of the arm's joints.

    Attributes:
        joint_names: all joints of the arm.
        left_out: indices of the joints that the trajectory does not name; their columns are zero,
            except in rows of NaN.
        q: (m, n) positions [rad or m].
        v: (m, n) velocities [rad/s or m/s], with a row of NaN for a point without velocities.
        a: (m, n) accelerations [rad/s² or m/s²], with a row of NaN for a point without
            accelerations.
        times: (m,) time of each point from the trajectory's stamp [s], strictly increasing.
    """

    joint_names: tuple[str, ...]
    left_out: tuple[int, ...]
    q: Array
    v: Array
    a: Array
    times: Array

    @classmethod
    def of(
        cls, joint_names: Sequence[str], names: Sequence[str], points: Points, partial: bool
    ) -> Waypoints:
        """Return the points of a trajectory after a check of its names, sizes and numbers.

        Args:
            joint_names: the joints of the arm, in the order of the samples.
            names: the joints in the order of the points; the same set, or with ``partial`` a
                subset.
            points: see :class:`TrajectoryPoint` and :class:`TrajectoryArrays`.
            partial: whether joints may be missing.

        Raises:
            TrajectoryError: naming the point, the joint and the reason.
            TrajectoryJointsError: for no name, an unknown, repeated or missing name.
        """
        check_size(joint_names, names, points)
        places = _places(joint_names, names, partial)
        n = len(joint_names)
        if isinstance(points, TrajectoryArrays):
            values, times = _given(points, names)
        else:
            values, times = _fields(points, names)
        without = np.flatnonzero(np.isnan(values[1][:, 0]) & ~np.isnan(values[2][:, 0]))
        if len(without):
            raise TrajectoryError(f"point {without[0]} has accelerations but no velocities")
        _check_times(times)
        spread = []
        for value in values:
            out = np.zeros((len(times), n))
            out[np.isnan(value[:, 0])] = np.nan
            out[:, places] = value
            spread.append(out)
        left_out = tuple(j for j in range(n) if j not in places)
        q, v, a = spread
        return cls(tuple(joint_names), left_out, q, v, a, times)

    def due(self, delay: float, slower: float) -> Array:
        """Return the time of each point from now [s], strictly increasing.

        Args:
            delay: time from now to the points' time 0 [s]; negative for a time in the past.
            slower: factor on the points' times; the delay is not multiplied.

        Raises:
            PastTrajectoryError: for a last point in the past.
            TrajectoryError: for a delay that is not finite or too large, and for times so far in
                the future that they become equal by rounding.
        """
        if not -math.inf < delay < LARGEST:
            raise TrajectoryError(
                f"the trajectory starts in {delay:g} s; give a finite time of this clock"
            )
        last = len(self.times) - 1
        if self.times[last] + delay < 0.0:
            raise PastTrajectoryError(
                f"point {last}: the trajectory ended {-(self.times[last] + delay):.4g} s ago"
            )
        times: Array = slower * self.times + delay
        together = np.flatnonzero(np.diff(times) <= 0.0)
        if len(together):
            i = int(together[0])
            raise TrajectoryError(
                f"point {i + 1}: its time cannot be distinguished from that of point {i}, "
                f"{abs(times[i]):.4g} s from now"
            )
        return times


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _places(joint_names: Sequence[str], names: Sequence[str], partial: bool) -> list[int]:
    """Return the index of each of ``names`` in the joints of the arm."""
    known = _listed(joint_names)
    index = {name: i for i, name in enumerate(joint_names)}
    places: list[int] = []
    # If there are more names than joints, one of the first is unknown or repeated.
    for name in names[: len(joint_names) + 1]:
        place = index.get(name)
        if place is None:
            raise TrajectoryJointsError(f"no joint {quoted(name)}; joints are {known}")
        if place in places:
            raise TrajectoryJointsError(f"joint {quoted(name)} is named twice")
        places.append(place)
    if not partial and len(places) < len(joint_names):
        missing = next(name for name in joint_names if name not in names)
        raise TrajectoryJointsError(f"joint {quoted(missing)} is missing; joints are {known}")
    return places


def _given(points: TrajectoryArrays, names: Sequence[str]) -> tuple[list[Array], Array]:
    """Return positions, velocities and accelerations, (m, n) each, and times of given arrays."""
    m, n = len(points), len(names)
    values = []
    for what in _FIELDS:
        value = _numbers(what, getattr(points, what))
        if value.size == 0 and what != "positions":
            value = np.full((m, n), np.nan)
        if value.shape != (m, n):
            raise TrajectoryError(
                f"{what} have shape {value.shape} but there are {m} points and the trajectory "
                f"names {n} joints"
            )
        rows = np.arange(m)
        if what != "positions":
            rows = np.flatnonzero(~np.isnan(value).all(axis=1))
        _check_finite(what, value[rows], rows, names)
        values.append(value)
    times = _numbers("times", points.times)
    if times.shape != (m,):
        raise TrajectoryError(f"times have shape {times.shape} but there are {m} points")
    return values, times


def _fields(points: Sequence[TrajectoryPoint], names: Sequence[str]) -> tuple[list[Array], Array]:
    """Return positions, velocities and accelerations, (m, n) each, and times of points."""
    n = len(names)
    values = []
    for what in _FIELDS:
        given = [getattr(point, what) for point in points]
        value = np.full((len(given), n), np.nan)
        rows = [i for i, x in enumerate(given) if what == "positions" or len(x)]
        for i in rows:
            if len(given[i]) != n:
                raise TrajectoryError(
                    f"point {i} has {len(given[i])} {what} but the trajectory names {n} joints"
                )
        if rows:
            value[rows] = _numbers(what, [given[i] for i in rows])
            _check_finite(what, value[rows], rows, names)
        values.append(value)
    return values, _numbers("times", [point.time_from_start for point in points])


def _numbers(what: str, values: Any) -> Array:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TrajectoryError(f"{what} are not numbers: {error}") from error


def _check_finite(
    what: str, values: Array, rows: Sequence[int] | NDArray[np.intp], names: Sequence[str]
) -> None:
    bad = np.argwhere(~(np.abs(values) < LARGEST))
    if len(bad):
        i, j = (int(x) for x in bad[0])
        raise TrajectoryError(
            f"point {rows[i]}, joint {names[j]!r}: {what} contain {values[i, j]}; give finite "
            f"numbers below {LARGEST:g}"
        )


def _check_times(times: Array) -> None:
    bad = np.flatnonzero(~((times >= 0.0) & (times < LARGEST)))
    if len(bad):
        i = int(bad[0])
        raise TrajectoryError(
            f"point {i}: time_from_start is {times[i]:g} s; it must be finite and not negative"
        )
    back = np.flatnonzero(np.diff(times) <= 0.0)
    if len(back):
        i = int(back[0])
        raise TrajectoryError(
            f"point {i + 1}: time_from_start is {times[i + 1]:g} s, not after the {times[i]:g} s "
            f"of point {i}"
        )
