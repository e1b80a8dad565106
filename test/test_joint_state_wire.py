"""Joint states as bytes: the decoder gives the result of rclpy for the same message."""

from __future__ import annotations

from struct import pack
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from builtin_interfaces.msg import Time
from fake_node import FakePublisher
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState

from rbd_control.joint_states.cdr import JointStateReader, stamp_of
from rbd_control.ros.messages import JointStateWriter, Template, joint_state_reader, number_message

texts = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=9)
numbers = st.lists(st.floats(width=64), max_size=8)
messages = st.builds(
    lambda sec, nanosec, frame, names, fields: message(sec, nanosec, frame, names, *fields),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 10**9 - 1),
    texts,
    st.lists(texts, max_size=5),
    st.tuples(numbers, numbers, numbers),
)


def message(
    sec: int, nanosec: int, frame: str, names: list[str], *fields: list[float]
) -> JointState:
    made = JointState()
    made.header.stamp = Time(sec=sec, nanosec=nanosec)
    made.header.frame_id = frame
    made.name = names
    made.position, made.velocity, made.effort = fields
    return made


def assert_read(reader: JointStateReader, raw: bytes, expected: JointState) -> None:
    """Assert that the reader returns the expected message, to the last bit."""
    read, stamp = reader.read(raw, 1.5), expected.header.stamp
    assert stamp_of(raw) == (stamp.sec, stamp.nanosec)
    assert (read.stamp, read.receipt) == (stamp.sec + 1e-9 * stamp.nanosec, 1.5)
    assert list(read.name) == list(expected.name)
    for field in ("position", "velocity", "effort"):
        ours, theirs = (np.array(getattr(each, field), dtype=float) for each in (read, expected))
        assert ours.tobytes() == theirs.tobytes()


@settings(deadline=None, max_examples=50)
@given(st.lists(messages, min_size=1, max_size=4))
def test_messages_are_read_as_sent(sent: list[JointState]) -> None:
    """Any mixture of messages, each of them met before or not."""
    reader = joint_state_reader()
    for _ in range(2):
        for each in sent:
            assert_read(reader, serialize_message(each), each)


def test_messages_of_one_size_are_not_mixed_up() -> None:
    """Other names, and numbers moved from one field to another, in as many bytes."""
    reader = joint_state_reader()
    for each in (
        message(1, 2, "", ["a", "b"], [1.0, 2.0], [3.0], []),
        message(1, 2, "", ["a", "c"], [1.0, 2.0], [3.0], []),
        message(1, 2, "", ["a", "b"], [1.0], [2.0, 3.0], []),
        message(1, 2, "", ["a", "b"], [1.0, 2.0], [3.0], []),
    ):
        assert_read(reader, serialize_message(each), each)


def test_another_encoding_takes_the_ordinary_way() -> None:
    """Big-endian bytes, which only rclpy understands."""
    each = message(1, 2, "", [], [1.0], [2.0], [3.0])
    swapped = pack(">4xiIIc3xIId I4xd I4xd", 1, 2, 1, b"\0", 0, 1, 1.0, 1, 2.0, 1, 3.0)
    reader = joint_state_reader()
    for _ in range(2):
        assert_read(reader, swapped, each)


def test_known_layouts_are_read_without_rclpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The padding between texts and the bytes behind the message may have any value."""
    sent = [
        message(k, k + 1, "w", ["ab", "c"], [1.0 * k, 2.0], [3.0, 4.0], effort)
        for k in range(3)
        for effort in ([], [5.0, 6.0])
    ]
    reader = joint_state_reader()
    for each in sent[:2]:
        reader.read(serialize_message(each), 0.0)
    monkeypatch.setattr(reader, "_decode", None)
    for each in sent[2:]:
        raw = bytearray(serialize_message(each))
        raw[18:20] = b"?!"  # behind the frame, which takes six bytes from 12 on
        assert_read(reader, bytes(raw), each)


class Sent(FakePublisher):
    """A publisher that keeps serialized messages."""

    def try_publish(self, message: Any) -> bool:
        is_raw = isinstance(message, bytes)
        return super().try_publish(message if is_raw else serialize_message(message))


@pytest.mark.parametrize("names", [["a"], ["joint_1", "joint_2", "joint_3"]])
def test_messages_are_written_as_by_rclpy(names: list[str]) -> None:
    sent: Any = Sent()
    writer = JointStateWriter(sent, names)
    values = np.arange(3.0 * len(names)).reshape(3, -1)
    for k in range(3):
        stamp = Time(sec=k, nanosec=7 * k)
        writer.publish(stamp, *values)
        writer.publish(stamp, effort=values[0] + k)
        full, part = (deserialize_message(raw, JointState) for raw in sent[-2:])
        for made, fields in ((full, values), (part, ([], [], values[0] + k))):
            assert made.header.stamp == stamp
            assert list(made.name) == names
            for field, expected in zip(("position", "velocity", "effort"), fields, strict=True):
                np.testing.assert_array_equal(getattr(made, field), expected)


def test_another_count_of_numbers_is_refused() -> None:
    template = Template(number_message, 3)
    assert template.is_exact
    for count in (1, 2, 4):  # numpy would repeat one number
        with pytest.raises(ValueError, match="size"):
            template.filled(np.zeros(count))
