"""Reading of rosbag2 storage files by ROS, if the package rosbags is not installed.

Released ROS packages cannot depend on rosbags, which is distributed on PyPI. This package itself
reads plain ``.db3`` and chunked ``.mcap`` files. It needs rosbags or ROS only to decode the first
joint state of each layout, and for ``.mcap`` files without chunks.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

from rbd_control.errors import RecordingError
from rbd_control.joint_states import JointMessage
from rbd_control.joint_states.cdr import Decode
from rbd_control.playback.packed import Packed
from rbd_control.playback.storage import Topic
from rbd_control.wording import shortened

JOINT_STATE = "sensor_msgs/msg/JointState"

_STORAGE_IDS = {".mcap": "mcap", ".db3": "sqlite3"}


class RosStorage:
    """Implementation of :class:`~rbd_control.playback.storage.Storage` with ``rosbag2_py``.

    Args:
        path: the storage file, ``.mcap`` or ``.db3``.

    Raises:
        ModuleNotFoundError: from the constructor, if ROS (``rosbag2_py``) is not installed.
        Exception: of any class, from the constructor and from every iteration, if the file is
            damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rosbag2 = importlib.import_module("rosbag2_py")
        found = self._reader().get_metadata().topics_with_message_count
        self.topics = {
            each.topic_metadata.name: Topic(
                each.topic_metadata.type,
                each.topic_metadata.serialization_format,
                int(each.message_count),
            )
            for each in found
        }

    def packed(self, topic: str, size: int) -> Iterator[Packed]:
        """Yield the messages on ``topic`` in order of receipt, ``size`` messages at a time."""
        reader = self._reader()
        reader.set_filter(self._rosbag2.StorageFilter(topics=[topic]))
        messages = _messages(reader)
        while found := list(islice(messages, size)):
            times, raws = zip(*found, strict=True)
            yield Packed.of(times, raws)

    def _reader(self) -> Any:
        reader = self._rosbag2.SequentialReader()
        kind = _STORAGE_IDS[self.path.suffix]
        reader.open(
            self._rosbag2.StorageOptions(uri=str(self.path), storage_id=kind),
            self._rosbag2.ConverterOptions("", ""),
        )
        return reader


def _messages(reader: Any) -> Iterator[tuple[int, bytes]]:
    """Yield time of receipt [ns] and bytes of each message."""
    while reader.has_next():
        _, raw, time = reader.read_next()
        yield int(time), bytes(raw)


def joint_state_decoder() -> Decode:
    """Return a decoder for serialized joint states of any layout: of rosbags, otherwise of ROS.

    The decoder raises a ``RecordingError`` for damaged bytes, naming the time of receipt.

    Raises:
        RecordingError: if neither rosbags nor ROS is installed.
    """
    for make in (_decoder_of_rosbags, _decoder_of_ros):
        try:
            decode = make()
        except ModuleNotFoundError:
            continue
        return _checked(decode)
    raise RecordingError(
        "reading a rosbag2 recording needs the package rosbags, or ROS 2: pip install rosbags, or "
        "source a ROS 2 installation"
    )


def _decoder_of_rosbags() -> Callable[[bytes], Any]:
    types = _types_of_rosbags(importlib.import_module("rosbags.typesys"))
    return lambda raw: types.deserialize_cdr(raw, JOINT_STATE)


@cache
def _types_of_rosbags(typesys: ModuleType) -> Any:
    """Return the message types of rosbags, which generate their decoders on first use.

    The types read here are the same in every release of ROS 2; a recording may hold definitions of
    its own, or none. The generation takes some milliseconds, so that all recordings share them.
    """
    return typesys.get_typestore(typesys.Stores.LATEST)


def _decoder_of_ros() -> Callable[[bytes], Any]:
    serialization = importlib.import_module("rclpy.serialization")
    kind = importlib.import_module("sensor_msgs.msg").JointState
    return lambda raw: serialization.deserialize_message(raw, kind)


def _checked(decode: Callable[[bytes], Any]) -> Decode:
    """Return the decoder with errors that name the damaged message."""

    def message(receipt: float, raw: bytes) -> JointMessage:
        try:
            decoded = decode(raw)
        except Exception as error:
            # Generated code may raise any exception for damaged bytes.
            said = shortened(str(error), 60)
            raise RecordingError(
                f"the joint state received at {receipt:.3f} s is damaged ({said})"
            ) from error
        stamp = decoded.header.stamp
        return JointMessage(
            stamp.sec + 1e-9 * stamp.nanosec,
            receipt,
            decoded.name,
            decoded.position,
            decoded.velocity,
            decoded.effort,
        )

    return message
