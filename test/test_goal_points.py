"""Points are taken out of the C structure of a message, and read later, by another thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rclpy.duration import Duration
from rclpy.serialization import deserialize_message, serialize_message
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.control import TrajectoryArrays
from rbd_control.control.waypoints import Points, Waypoints
from rbd_control.errors import TrajectoryError
from rbd_control.nodes.goal_points import GoalPoints, find_release
from rbd_control.nodes.goal_size import _with_conversion
from rbd_control.nodes.trajectory_wire import read_trajectory

OFFSET = 56
"""Offset of the points in the C structure of a JointTrajectory, after stamp, frame and names."""

NAMES = ("a", "b")
Change = Callable[[list[JointTrajectoryPoint]], None]


def points(count: int = 4) -> list[JointTrajectoryPoint]:
    """Return points of two joints with all fields."""
    made = []
    for k in range(count):
        point = JointTrajectoryPoint(
            positions=[0.1 * k, -0.2 * k],
            velocities=[1.0 + k, 2.0],
            accelerations=[3.0, 4.0 - k],
            effort=[9.0],
        )
        point.time_from_start = Duration(seconds=0.25 * (k + 1)).to_msg()
        made.append(point)
    return made


def serialized(given: list[JointTrajectoryPoint]) -> bytes:
    return serialize_message(JointTrajectory(joint_names=list(NAMES), points=given))


def taken(raw: bytes, freed: list[int] | None = None) -> GoalPoints:
    """Return the points of a serialized trajectory, as the action server takes them."""
    release = find_release()
    assert release is not None, "the C library of trajectory_msgs was not found"

    def free(address: int) -> None:
        if freed is not None:
            freed.append(address)
        release(address)

    kind: Any = _with_conversion(
        JointTrajectory, lambda address: GoalPoints(address + OFFSET, free)
    )
    found: GoalPoints = deserialize_message(raw, kind)
    return found


def outcome(given: Points) -> list[np.ndarray] | str:
    """Return what the planner makes of points: numbers, or the text of its refusal."""
    try:
        found = Waypoints.of(NAMES, NAMES, given, False)
    except TrajectoryError as error:
        return str(error)
    return [found.q, found.v, found.a, found.times]


def without_velocities(given: list[JointTrajectoryPoint]) -> None:
    for point in given:
        point.velocities, point.accelerations = [], []


def partly_without_velocities(given: list[JointTrajectoryPoint]) -> None:
    given[1].velocities, given[1].accelerations = [], []


def short_position(given: list[JointTrajectoryPoint]) -> None:
    given[2].positions = [1.0]


def long_velocity(given: list[JointTrajectoryPoint]) -> None:
    given[1].velocities = [1.0, 2.0, 3.0]


def not_a_number(given: list[JointTrajectoryPoint]) -> None:
    given[1].velocities = [float("nan"), float("nan")]


def half_a_number(given: list[JointTrajectoryPoint]) -> None:
    given[1].velocities = [2.0, float("nan")]


def no_positions(given: list[JointTrajectoryPoint]) -> None:
    for point in given:
        point.positions = []


def unchanged(_given: list[JointTrajectoryPoint]) -> None:
    """Change nothing."""


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (unchanged, ""),
        (without_velocities, ""),
        (partly_without_velocities, ""),
        (short_position, "point 2 has 1 positions"),
        (long_velocity, "point 1 has 3 velocities"),
        (not_a_number, "velocities contain nan"),
        (half_a_number, "velocities contain nan"),
        (no_positions, "point 0 has 0 positions"),
    ],
)
def test_points_are_read_as_they_were_sent(change: Change, refusal: str) -> None:
    """As the decoder of the topic reads them, which has tests of its own."""
    given = points()
    change(given)
    freed: list[int] = []
    found = taken(serialized(given), freed)
    assert len(found) == 4
    assert not freed, "the memory is in use"
    ours, theirs = outcome(found.read()), outcome(read_trajectory(serialized(given)).points)
    assert len(freed) == 1
    assert found.read() is found.read(), "a plan that comes too late is repeated"
    if refusal:
        assert isinstance(ours, str)
        assert refusal in ours
        return
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_points_with_too_many_values_are_refused_and_freed() -> None:
    given = points()
    given[3].accelerations = [0.0] * 300
    freed: list[int] = []
    found = taken(serialized(given), freed)
    with pytest.raises(TrajectoryError, match="300 values in a point; at most 256 are read"):
        found.read()
    del found
    assert len(freed) == 1


def test_points_that_nobody_reads_are_freed() -> None:
    freed: list[int] = []
    found = taken(serialized(points()), freed)
    assert len(found) == 4
    del found
    assert len(freed) == 1
    assert taken(serialized([])).read() == []


def test_the_control_thread_has_no_part_in_the_reading() -> None:
    """Taking 2,000 points of two joints costs a small part of what rclpy's objects of them cost.

    The rest is reading the bytes, which takes 0.4 ms. Processor time of this thread, the best of
    five, so that a busy machine does not matter.
    """
    raw = serialized(points(2000))

    def cost(read: Callable[[], object]) -> float:
        times = []
        for _ in range(5):
            begun = time.thread_time()
            kept = read()
            times.append(time.thread_time() - begun)
            del kept
        return min(times)

    ours = cost(lambda: taken(raw))
    theirs = cost(lambda: deserialize_message(raw, JointTrajectory))
    print(f"2,000 points: taken in {1e3 * ours:.2f} ms, rclpy's objects in {1e3 * theirs:.2f} ms")
    assert ours < 0.25 * theirs
    found = taken(raw).read()
    assert isinstance(found, TrajectoryArrays)
    assert found.positions.shape == (2000, 2)
