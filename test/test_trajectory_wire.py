"""Trajectories as bytes: the reader gives the result of rclpy for the same message."""

from __future__ import annotations

import random
from struct import pack
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import serialize_message
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.control import TrajectoryArrays
from rbd_control.control.waypoints import MOST_POINTS
from rbd_control.errors import TrajectoryError
from rbd_control.ros.trajectory_wire import (
    MOST_NAMES,
    check_size,
    largest_trajectory,
    message_of_trajectory,
    read_trajectory,
)

FIELDS = ("positions", "velocities", "accelerations", "effort")
JOINTS = 7

texts = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=9)
numbers = st.lists(st.floats(width=64), max_size=4)
stamps = st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(0, 10**9 - 1))
points = st.builds(
    lambda fields, due: point(due, **dict(zip(FIELDS, fields, strict=True))),
    st.tuples(numbers, numbers, numbers, numbers),
    stamps,
)
alike = st.tuples(st.tuples(*[st.integers(0, 3)] * 4), st.integers(1, 9), st.randoms()).map(
    lambda drawn: [
        point(
            (drawn[2].randrange(-9, 9), drawn[2].randrange(10**9)),
            **{
                name: [drawn[2].uniform(-1.0, 1.0) for _ in range(size)]
                for name, size in zip(FIELDS, drawn[0], strict=True)
            },
        )
        for _ in range(drawn[1])
    ]
)


def point(due: tuple[int, int], **fields: list[float]) -> JointTrajectoryPoint:
    made = JointTrajectoryPoint(**fields)
    made.time_from_start.sec, made.time_from_start.nanosec = due
    return made


def trajectory(
    stamp: tuple[int, int], frame: str, names: list[str], points: list[JointTrajectoryPoint]
) -> JointTrajectory:
    made = JointTrajectory(joint_names=names, points=points)
    made.header.stamp.sec, made.header.stamp.nanosec = stamp
    made.header.frame_id = frame
    return made


def rows(read: Any, name: str) -> list[list[float]]:
    """One field of all points, whichever way they were read."""
    if isinstance(read, TrajectoryArrays):
        values = getattr(read, name)
        return [list(row) for row in values] if len(values) else [[]] * len(read)
    return [list(getattr(each, name)) for each in read]


def times(read: Any) -> list[float]:
    if isinstance(read, TrajectoryArrays):
        return [float(x) for x in read.times]
    return [each.time_from_start for each in read]


@settings(deadline=None, max_examples=100)
@given(stamps, texts, st.lists(texts, max_size=4), st.one_of(st.lists(points, max_size=5), alike))
def test_messages_are_read_as_sent(
    stamp: tuple[int, int], frame: str, names: list[str], sent: list[JointTrajectoryPoint]
) -> None:
    raw = serialize_message(trajectory(stamp, frame, names, sent))
    check_size(raw, JOINTS)
    read = read_trajectory(raw)
    assert read.stamp == stamp[0] + 1e-9 * stamp[1]
    assert list(read.names) == names
    assert len(read.points) == len(sent)
    for name in FIELDS[:3]:
        for ours, theirs in zip(rows(read.points, name), sent, strict=True):
            assert np.array_equal(ours, getattr(theirs, name), equal_nan=True)
    due = [p.time_from_start for p in sent]
    assert times(read.points) == [x.sec + 1e-9 * x.nanosec for x in due]


def test_many_points_alike_are_read_at_once() -> None:
    sent = [point((k, 0), positions=[float(k)] * JOINTS) for k in range(9)]
    read = read_trajectory(serialize_message(trajectory((0, 0), "", ["a"] * JOINTS, sent))).points
    assert isinstance(read, TrajectoryArrays)
    # One that differs sends all of them the slow way.
    sent[4].velocities = [1.0]
    read = read_trajectory(serialize_message(trajectory((0, 0), "", ["a"] * JOINTS, sent))).points
    assert not isinstance(read, TrajectoryArrays)


def test_another_encoding_takes_the_way_of_the_middleware() -> None:
    """Big-endian bytes, which only rclpy understands."""
    raw = pack(">4xiIIc3xII2s2xII4xdIIIiI", 1, 2, 1, b"\0", 1, 2, b"a\0", 1, 1, 7.0, 0, 0, 0, 3, 4)
    read = read_trajectory(raw)
    assert (read.stamp, read.names) == (1.000000002, ("a",))
    assert read.points[0].positions == (7.0,)
    assert read.points[0].time_from_start == 3.000000004


def test_sizes_are_checked_before_anything_is_read() -> None:
    sent = [point((k, 0), positions=[0.0] * JOINTS) for k in range(MOST_POINTS + 1)]
    names = [f"joint_{k}" for k in range(JOINTS)]
    largest = serialize_message(trajectory((0, 0), "", names, sent[:-1]))
    check_size(largest, JOINTS)
    with pytest.raises(TrajectoryError, match="2001 points"):
        check_size(serialize_message(trajectory((0, 0), "", names, sent)), JOINTS)
    with pytest.raises(TrajectoryError, match="bytes; at most"):
        check_size(largest + bytes(largest_trajectory(JOINTS)), JOINTS)
    with pytest.raises(TrajectoryError, match="joint names; at most"):
        check_size(serialize_message(trajectory((0, 0), "", ["a"] * (MOST_NAMES + 1), [])), JOINTS)
    whole = [point((k, 0), **{name: [0.0] * JOINTS for name in FIELDS}) for k in range(MOST_POINTS)]
    check_size(serialize_message(trajectory((0, 0), "", names, whole)), JOINTS)


def test_bytes_that_are_no_trajectory_are_refused() -> None:
    """Cut off anywhere, with counts of anything, or at random: one error with words in it."""
    chance = random.Random(27)
    names = [f"joint_{k}" for k in range(JOINTS)]
    sent = [point((k, 0), **{name: [0.5] * JOINTS for name in FIELDS}) for k in range(4)]
    good = serialize_message(trajectory((1, 2), "base", names, sent))
    bad = [good[:end] for end in range(len(good))]
    for _ in range(500):
        spoilt = bytearray(good)
        for _ in range(chance.randrange(1, 6)):
            spoilt[chance.randrange(len(good))] = chance.choice((0, 1, 127, 128, 255))
        bad.append(bytes(spoilt))
    bad += [b"\x00\x01\x00\x00" + chance.randbytes(chance.randrange(400)) for _ in range(200)]
    refused = 0
    for raw in bad:
        # Any other error would end the test.
        try:
            check_size(raw, JOINTS)
            read_trajectory(raw)
        except TrajectoryError:
            refused += 1
    assert refused >= len(good) + 180  # some spoilt ones are trajectories all the same


def test_a_message_that_is_made_here_is_read_as_the_same_points() -> None:
    rng = np.random.default_rng(0)
    given = TrajectoryArrays(
        rng.random((5, 2)), np.arange(1.0, 6.0), rng.random((5, 2)), rng.random((5, 2))
    )
    message = message_of_trajectory(("a", "b"), given)
    read = read_trajectory(serialize_message(message))
    assert read.names == ("a", "b")
    assert read.stamp == 0.0
    assert isinstance(read.points, TrajectoryArrays)
    # Numbers are copied, not computed with; times are rounded to nanoseconds.
    for name in ("positions", "velocities", "accelerations"):
        assert (getattr(read.points, name) == getattr(given, name)).all()
    assert np.allclose(read.points.times, given.times, rtol=0.0, atol=1e-9)
