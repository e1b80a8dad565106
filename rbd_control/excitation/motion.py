"""The motion that excites an arm: a loop through one pose, played in rounds of several speeds.

The loop is a uniform cubic B-spline with N spans of length h. In span j, with u from 0 to 1,::

    q = (P_j (1 - u)³ + P_(j+1) (3u³ - 6u² + 4) + P_(j+2) (1 + 3u + 3u² - 3u³) + P_(j+3) u³) / 6

At a knot ``v = (P_(j+2) - P_j) / 2h`` and ``a = (P_j - 2 P_(j+1) + P_(j+2)) / h²``. The first
three and the last three coefficients are the start pose, so that velocity and acceleration are zero
at both ends. Between knots the acceleration is linear, so that its maximum is at a knot. A
trajectory with a point at each knot is the motion itself for every controller that interpolates
positions, velocities and accelerations by quintic polynomials.

A round plays the loop at a share of its speed; a negative share plays it backwards. A motion and
its reverse have the same torques of gravity and inertia but opposite friction, which separates the
two.
Slow rounds show friction at low speeds, on the same path.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.waypoints import TrajectoryArrays, Waypoints
from rbd_control.errors import InputError, TrajectoryError
from rbd_control.files.yaml_input import read_yaml

Array = NDArray[np.float64]

SPAN = 0.5
"""Length of a span of the B-spline at full speed [s]; motions have frequencies up to about 1 Hz."""
FIXED = 3
"""Number of coefficients at each end that are the start pose."""
LEAD = 5.0
"""Time from the stamp of a trajectory to its first point, the start pose, at full speed [s]."""
DIGITS = 7
"""Number of decimals of the numbers in a file."""
AT_REST = 1e-6
"""Largest velocity and acceleration of a point that counts as at rest [rad/s, rad/s² or m]."""


@dataclass(frozen=True)
class Rounds:
    """The rounds of a motion.

    Attributes:
        shares: share of the full speed of each round; negative for a round backwards.
        duration: approximate duration of all rounds together [s].
    """

    shares: tuple[float, ...]
    duration: float

    @property
    def spans(self) -> int:
        """Number of spans of the loop, N."""
        loop = self.duration / sum(1.0 / abs(share) for share in self.shares)
        return max(round(loop / SPAN), 2 * FIXED)

    @property
    def free(self) -> int:
        """Number of coefficients of each joint that may be chosen."""
        return self.spans - FIXED

    def basis(self, times: Array) -> Array:
        """Return positions, velocities and accelerations per unit of each free coefficient.

        Args:
            times: times in the loop at full speed, (k,) [s].

        Returns:
            (3, k, free), of which the products with the coefficients, less the start pose, are the
            position less the start pose, velocity and acceleration.
        """
        j = np.minimum((times / SPAN).astype(np.int64), self.spans - 1)
        u = times / SPAN - j
        # Values, first and second derivatives of the four pieces; rows are the coefficients.
        pieces = np.array(
            [
                [(1 - u) ** 3, 3 * u**3 - 6 * u**2 + 4, 1 + 3 * u + 3 * u**2 - 3 * u**3, u**3],
                [-3 * (1 - u) ** 2, 9 * u**2 - 12 * u, 3 + 6 * u - 9 * u**2, 3 * u**2],
                [6 * (1 - u), 18 * u - 12, 6 - 18 * u, 6 * u],
            ]
        )
        pieces *= np.array([1.0, 1.0 / SPAN, 1.0 / SPAN**2])[:, None, None] / 6.0
        whole = np.zeros((3, times.size, self.spans + FIXED))
        for piece in range(4):
            whole[:, np.arange(times.size), j + piece] = pieces[:, piece]
        return whole[:, :, FIXED : self.spans]

    def loop_times(self, period: float) -> Array:
        """Return times of the loop with about this period, both ends included, (k,) [s]."""
        length = self.spans * SPAN
        return np.linspace(0.0, length, round(length / period) + 1)

    @cached_property
    def motion_seconds(self) -> float:
        """Duration of all rounds [s]."""
        return self.spans * SPAN * sum(1.0 / abs(share) for share in self.shares)

    def sampled(self, period: float) -> tuple[Array, Array]:
        """Return samples of the motion: their times, (k,) [s], and the basis, (3, k, free)."""
        times: list[Array] = [np.zeros(1)]
        parts: list[Array] = [np.zeros((3, 1, self.free))]
        begin = 0.0
        for share in self.shares:
            length = self.spans * SPAN / abs(share)
            t: Array = np.arange(1.0, round(length / period) + 1.0) * (
                length / round(length / period)
            )
            where = np.clip(abs(share) * t, 0.0, self.spans * SPAN)
            basis = self.basis(where if share > 0.0 else where[-1] - where)
            parts.append(basis * np.array([1.0, share, share**2])[:, None, None])
            times.append(begin + t)
            begin += length
        return np.concatenate(times), np.concatenate(parts, axis=1)


@dataclass(frozen=True, eq=False)
class Motion:
    """A motion of an arm for calibration.

    Attributes:
        joints: names of the joints, in the order of the model.
        start: pose at the start and at the end of each round, (n,) [rad or m].
        rounds: the rounds.
        coefficients: free coefficients of the loop less the start pose, (free, n) [rad or m].
    """

    joints: tuple[str, ...]
    start: Array
    rounds: Rounds
    coefficients: Array

    def sampled(self, period: float) -> tuple[Array, Array, Array, Array]:
        """Return times (k,), positions, velocities and accelerations (k, n) of all rounds."""
        t, basis = self.rounds.sampled(period)
        q, v, a = basis @ self.coefficients
        return t, self.start + q, v, a

    def loop(self, period: float) -> tuple[Array, Array, Array]:
        """Return positions, velocities and accelerations of the loop at full speed, (k, n)."""
        q, v, a = self.rounds.basis(self.rounds.loop_times(period)) @ self.coefficients
        return self.start + q, v, a

    def points(self) -> TrajectoryArrays:
        """Return the points of the trajectory, one at each knot of each round."""
        knots = self.rounds.loop_times(SPAN)
        q, v, a = self.rounds.basis(knots) @ self.coefficients
        times, rows = [np.array([LEAD])], [np.zeros((3, 1, self.start.size))]
        for share in self.rounds.shares:
            order = slice(1, None) if share > 0.0 else slice(-2, None, -1)
            times.append(times[-1][-1] + knots[1:] / abs(share))
            rows.append(np.array([q[order], share * v[order], share**2 * a[order]]))
        q, v, a = np.concatenate(rows, axis=1)
        return TrajectoryArrays(self.start + q, np.concatenate(times), v, a)


def at_speed(points: TrajectoryArrays, share: float) -> TrajectoryArrays:
    """Return a trajectory at a share of its speed, on the same path.

    Raises:
        InputError: for a share that is not above 0 and at most 1.
    """
    if not 0.0 < share <= 1.0:
        raise InputError(f"--speed is {share:g}; give a share above 0 and at most 1")
    return TrajectoryArrays(
        points.positions,
        points.times / share,
        share * points.velocities,
        share**2 * points.accelerations,
    )


def resumed(points: TrajectoryArrays, time: float) -> TrajectoryArrays:
    """Return the rest of a trajectory, from the beginning of the round that contains a time.

    The arm begins and ends each round at rest in the start pose.

    Args:
        points: the trajectory.
        time: time in the trajectory [s].

    Raises:
        InputError: if the trajectory has ended by then.
    """
    last = float(points.times[-1])
    if not 0.0 <= time < last:
        raise InputError(f"--from is {time:g} s; give a time from 0 to below {last:g} s, the end")
    still = rests(points)
    first = still[np.searchsorted(points.times[still], time, side="right") - 1]
    if time < points.times[0]:
        first = 0
    times = points.times[first:] - points.times[first] + points.times[0]
    return TrajectoryArrays(
        points.positions[first:], times, points.velocities[first:], points.accelerations[first:]
    )


def rests(points: TrajectoryArrays) -> NDArray[np.intp]:
    """Return the indices of the points at which the arm rests: the ends of the rounds."""
    moving = np.abs(points.velocities) > AT_REST
    moving |= np.abs(points.accelerations) > AT_REST
    return np.flatnonzero(~moving.any(axis=1))


def trajectory_yaml(joints: tuple[str, ...], points: TrajectoryArrays, heading: str = "") -> str:
    """Return a trajectory as YAML, in the layout of ``trajectory_msgs/msg/JointTrajectory``.

    ``ros2 topic pub`` takes this text as the message, and ``ros2 action send_goal`` as the value of
    ``trajectory`` in the goal of FollowJointTrajectory.

    Args:
        joints: names of the joints.
        points: the points with velocities and accelerations.
        heading: comment lines at the beginning, without ``#``.
    """
    lines = [f"# {line}" for line in heading.splitlines()]
    lines += [f"joint_names: [{', '.join(joints)}]", "points:"]
    for t, q, v, a in zip(
        points.times, points.positions, points.velocities, points.accelerations, strict=True
    ):
        sec, nanosec = divmod(round(float(t) * 1e9), 10**9)
        lines.append(f"- positions: {_numbers(q)}")
        lines.append(f"  velocities: {_numbers(v)}")
        lines.append(f"  accelerations: {_numbers(a)}")
        lines.append(f"  time_from_start: {{sec: {sec}, nanosec: {nanosec}}}")
    return "\n".join(lines) + "\n"


def _numbers(values: Array) -> str:
    return "[" + ", ".join(f"{round(float(x), DIGITS) + 0.0:.{DIGITS}g}" for x in values) + "]"


def read_trajectory_file(path: Path) -> tuple[tuple[str, ...], TrajectoryArrays]:
    """Read a file that :func:`trajectory_yaml` wrote.

    Returns:
        The names of the joints, and the points.

    Raises:
        TrajectoryError: naming the file, if it is no trajectory with positions, velocities and
            accelerations.
    """
    content = read_yaml(path, TrajectoryError)
    try:
        joints = tuple(str(name) for name in content["joint_names"])
        given = content["points"]
        fields = [
            np.array([point[name] for point in given], dtype=float)
            for name in ("positions", "velocities", "accelerations")
        ]
        stamps = [point["time_from_start"] for point in given]
        times = np.array([stamp["sec"] + 1e-9 * stamp["nanosec"] for stamp in stamps])
        points = TrajectoryArrays(fields[0], times, fields[1], fields[2])
        Waypoints.of(joints, joints, points, partial=False)
        if not len(rests(points)):
            raise TrajectoryError("it never rests")
    except (KeyError, TypeError, ValueError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else error
        wrong = TrajectoryError(
            f"is no motion of rbd-control excite ({why}); give its file of --out"
        )
        wrong.path = str(path)
        raise wrong from error
    return joints, points
