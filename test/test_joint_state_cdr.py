"""Serialized joint states without ROS: layouts, damaged bytes, one by one and in blocks."""

from __future__ import annotations

from itertools import pairwise
from struct import pack

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from rosbags.typesys import Stores, get_typestore

from rbd_control.joint_states import JointMessage
from rbd_control.joint_states.cdr import JointStateReader, Ros1Scan
from rbd_control.playback.parts import decode_parts, in_order

TYPES = get_typestore(Stores.LATEST)
FORMER = get_typestore(Stores.ROS1_NOETIC)
JOINT_STATE = "sensor_msgs/msg/JointState"
WRONG = "what only the other decoder returns"


def serialized(
    names: tuple[str, ...], fields: tuple[list[float], ...], frame: str = "w", sec: int = 3
) -> bytes:
    """Return a joint state as little-endian CDR."""
    raw = bytearray(pack("<iI", sec, 250_000_000))

    def put(data: bytes, alignment: int) -> None:
        raw.extend(b"\0" * (-len(raw) % alignment) + data)

    for text in (frame, None, *names):
        put(pack("<I", len(names) if text is None else len(text.encode()) + 1), 4)
        raw.extend(b"" if text is None else text.encode() + b"\0")
    for values in fields:
        put(pack("<I", len(values)), 4)
        if values:
            put(pack(f"<{len(values)}d", *values), 8)
    return b"\0\1\0\0" + bytes(raw)


def decode(receipt: float, raw: bytes) -> JointMessage:
    """Return the message that rosbags decodes from the bytes."""
    return _message(receipt, TYPES.deserialize_cdr(raw, JOINT_STATE))


def decode_ros1(receipt: float, raw: bytes) -> JointMessage:
    """Return the message of ROS 1 that rosbags decodes from the bytes."""
    return _message(receipt, FORMER.deserialize_ros1(raw, JOINT_STATE))


def _message(receipt: float, read: object) -> JointMessage:
    stamp = read.header.stamp  # type: ignore[attr-defined]
    values = (read.position, read.velocity, read.effort)  # type: ignore[attr-defined]
    names = read.name  # type: ignore[attr-defined]
    return JointMessage(stamp.sec + 1e-9 * stamp.nanosec, receipt, names, *values)


ARM_PARTS = ("a", "elbow_ä"), ([1.0, 2.0], [3.0, 4.0], [np.nan, -0.0])
ARM = serialized(*ARM_PARTS)


def same(ours: JointMessage, theirs: JointMessage) -> bool:
    """Return whether two messages are equal to the last bit, NaN included."""
    return (
        ours[:2] == theirs[:2]
        and [*ours.name] == [*theirs.name]
        and all(
            np.asarray(a, float).tobytes() == np.asarray(b, float).tobytes()
            for a, b in zip(ours[3:], theirs[3:], strict=True)
        )
    )


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_damage_never_changes_what_is_read(data: st.DataObject) -> None:
    """After any change of bytes the reader returns what the decoder returns, or raises like it."""
    reader = JointStateReader(decode)
    reader.read(ARM, 0.0)
    raw = bytearray(ARM)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(len(raw) - 9, len(raw)))]
    results = []
    for read in (reader.read, lambda raw, receipt: decode(receipt, raw)):
        try:
            found = read(bytes(raw), 1.0)
        except Exception:
            results.append(None)
        else:
            fields = [np.asarray(values, float).tobytes() for values in found[3:]]
            results.append((found.stamp, tuple(found.name), *fields))
    # A frame that is not UTF-8 and padding between strings do not reach the message.
    assert results[0] == results[1]


def test_a_layout_that_another_decoder_denies_is_not_used() -> None:
    """The decoder has the last word, for single messages and for blocks."""

    def denying(receipt: float, raw: bytes) -> JointMessage:
        return decode(receipt, raw)._replace(name=(WRONG, "b"))

    reader = JointStateReader(denying)
    assert [reader.read(ARM, 0.0).name for _ in range(2)] == [(WRONG, "b")] * 2
    parts = decode_parts([0, 1], [ARM, ARM], denying)
    assert [part.block.name for part in parts] == [(WRONG, "b")] * 2


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.floats(width=64)), min_size=1, max_size=12))
def test_a_block_holds_what_is_read_one_by_one(drawn: list[tuple[int, float]]) -> None:
    kinds = (("a", "b"), ("a", "c"), ("finger",), ())
    raws = [
        serialized(kinds[k], ([x] * len(kinds[k]), [], [2.0 * x] * len(kinds[k])), sec=i)
        for i, (k, x) in enumerate(drawn)
    ]
    reader = JointStateReader(decode)
    single = [reader.read(raw, 1e-9 * k) for k, raw in enumerate(raws)]
    parts = decode_parts(range(len(raws)), raws, decode)
    blocks = [message for block in in_order(parts) for message in block.messages()]
    assert all(map(same, single, blocks))
    assert len(single) == len(blocks)
    assert all(a.stamp < b.stamp for a, b in pairwise(blocks))


def test_messages_of_ros_1_are_read_by_their_layout() -> None:
    """The other decoder is called once; ``header.seq``, stamp and numbers differ."""
    raws = [
        pack("<I", k) + bytes(TYPES.cdr_to_ros1(serialized(*ARM_PARTS, sec=k), JOINT_STATE))[4:]
        for k in range(20)
    ]
    asked = []

    def counting(receipt: float, raw: bytes) -> JointMessage:
        asked.append(receipt)
        return decode_ros1(receipt, raw)

    (part,) = decode_parts(range(20), raws, counting, Ros1Scan)
    assert len(asked) == 1
    for raw, ours in zip(raws, part.block.messages(), strict=True):
        assert same(ours, decode_ros1(ours.receipt, raw))


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_damage_never_changes_what_is_read_of_ros_1(data: st.DataObject) -> None:
    """In a block after a sound message, a changed one is what rosbags reads, or an error."""
    sound = bytes(TYPES.cdr_to_ros1(ARM, JOINT_STATE))
    raw = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(len(raw) - 9, len(raw)))]
    try:
        theirs = decode_ros1(1e-9, bytes(raw))
    except Exception:
        theirs = None
    try:
        blocks = in_order(decode_parts([0, 1], [sound, bytes(raw)], decode_ros1, Ros1Scan))
        _, ours = (message for block in blocks for message in block.messages())
    except Exception:
        ours = None
    assert (ours is None) == (theirs is None)
    if ours is not None and theirs is not None:
        assert same(ours, theirs)
