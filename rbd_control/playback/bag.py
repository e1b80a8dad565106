"""rosbag2 recordings, read without ROS: a folder, a bare ``.db3`` or a bare ``.mcap``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from heapq import merge
from itertools import islice
from pathlib import Path

from rbd_control.errors import RecordingError
from rbd_control.files.input_files import about, reading
from rbd_control.files.output_files import ScratchFolder
from rbd_control.playback.compression import ZSTD_MAGIC, expand, expand_file
from rbd_control.playback.db3 import Db3Storage
from rbd_control.playback.mcap import McapStorage
from rbd_control.playback.packed import MAX_MESSAGE, Packed, blocks
from rbd_control.playback.parts import Part, decode_parts
from rbd_control.playback.ros_storage import JOINT_STATE, RosStorage, joint_state_decoder
from rbd_control.playback.storage import (
    COMPRESSED,
    STORAGE_SUFFIXES,
    Storage,
    Topic,
    storage_files,
)
from rbd_control.wording import listed, quoted, shortened

__all__ = ["BOOL", "JOINT_STATE", "STORAGE_SUFFIXES", "Bag"]

BOOL = "std_msgs/msg/Bool"

_ENCODING = "cdr"
_BOOL_PLACE = 4
"""Offset of the value in a serialised std_msgs/Bool [bytes]."""

_REPAIR = {
    ".mcap": "it may be damaged or cut short, 'mcap recover' may repair it",
    ".db3": "it may be damaged or cut short, 'sqlite3 FILE .recover' may repair it",
}


class Bag:
    """The topics of a rosbag2 recording. Every iteration opens the files anew and streams them.

    Args:
        path: a rosbag2 folder, or one of its storage files.

    Attributes:
        path: the folder or file of the recording.
        topics: its topics by name, from all its storage files.

    Raises:
        RecordingError: from the constructor and from every iteration, naming the file that is
            missing or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._scratch: ScratchFolder | None = None
        self._storages = [(file, self._open(file)) for file in storage_files(path)]
        self.topics: dict[str, Topic] = {}
        for _, storage in self._storages:
            for name, topic in storage.topics.items():
                known = self.topics.get(name, topic._replace(messages=0))
                self.topics[name] = Topic(
                    topic.msgtype if topic.msgtype == known.msgtype else "several types",
                    topic.encoding if topic.encoding == known.encoding else "several formats",
                    topic.messages + known.messages,
                )

    def require(self, topic: str, msgtype: str) -> int:
        """Return the number of messages on ``topic``; raise an error if it cannot be read.

        Raises:
            RecordingError: if there is no such topic (the message lists the topics), if it is not
                of type ``msgtype``, if it is not serialised as CDR, or if it has no message.
        """
        with about(self.path):
            if topic not in self.topics:
                there = [f"{name} ({each.msgtype})" for name, each in self.topics.items()]
                raise RecordingError(
                    f"has no topic {quoted(topic)}, its topics are {listed(there)}; "
                    "select one with --topic"
                )
            found = self.topics[topic]
            if found.msgtype != msgtype:
                raise RecordingError(
                    f"topic {quoted(topic)} has type {shortened(found.msgtype, 60)}, not {msgtype}"
                )
            if found.encoding != _ENCODING:
                raise RecordingError(
                    f"topic {quoted(topic)} is serialised as {quoted(found.encoding)}; only "
                    f"'{_ENCODING}' is read: convert the recording with 'ros2 bag convert'"
                )
            if not found.messages:
                raise RecordingError(f"holds no message on {quoted(topic)}")
            return found.messages

    def joint_parts(self, topic: str, size: int) -> Iterator[list[Part]]:
        """Yield the joint states of ``topic`` in blocks, each divided into parts of one layout.

        A block has at least ``size`` messages; the last block, and a block of 4 MiB or more, may
        have fewer. The blocks are in order of receipt;
        :func:`~rbd_control.playback.parts.in_order` restores the order within a block.
        """
        decode = joint_state_decoder()
        with self._reading(self.path):
            for packed in blocks(size, self._packed(topic, size)):
                yield decode_parts(packed, decode)

    def flags(self, topic: str) -> Iterator[tuple[float, bool]]:
        """Yield time of receipt [s] and value of each std_msgs/Bool of ``topic``."""
        with self._reading(self.path):
            for packed in self._packed(topic, 1024):
                for time, raw in packed.messages():
                    yield 1e-9 * time, bool(raw[_BOOL_PLACE])

    def _packed(self, topic: str, size: int) -> Iterator[Packed]:
        """Yield the messages on ``topic``; several storage files are merged by time."""
        sources = [
            self._packed_in(file, storage, topic, size)
            for file, storage in self._storages
            if topic in storage.topics
        ]
        if len(sources) == 1:
            yield from sources[0]
            return
        streams = (
            (message for packed in source for message in packed.messages()) for source in sources
        )
        merged = merge(*streams, key=lambda message: message[0])
        while found := list(islice(merged, size)):
            times, raws = zip(*found, strict=True)
            yield Packed.of(times, raws)

    def _packed_in(self, file: Path, storage: Storage, topic: str, size: int) -> Iterator[Packed]:
        """Yield the messages on ``topic`` in one storage file."""
        with self._reading(file):
            for packed in storage.packed(topic, size):
                yield _expanded(packed)

    def _open(self, file: Path) -> Storage:
        """Return a storage file; decompress it first if it is compressed as a whole."""
        with self._reading(file):
            source = file
            if file.name.endswith(COMPRESSED):
                self._scratch = self._scratch or ScratchFolder()
                source = self._scratch.path / file.name.removesuffix(COMPRESSED)
                expand_file(file, source)
            if source.suffix == ".db3":
                return Db3Storage(source)
            try:
                return McapStorage(source)
            except ModuleNotFoundError as error:
                return _by_ros(source, error)

    @contextmanager
    def _reading(self, file: Path) -> Iterator[None]:
        """Convert any error during reading to a RecordingError that names ``file``."""
        remedy = _REPAIR.get(Path(file.name.removesuffix(COMPRESSED)).suffix, "it may be damaged")
        with reading(file, RecordingError, "cannot be read as a rosbag2 recording", remedy):
            yield


def _expanded(packed: Packed) -> Packed:
    """Return the messages, decompressed if rosbag2 has compressed them one by one."""
    if not packed.data.size or packed.data[: len(ZSTD_MAGIC)].tobytes() != ZSTD_MAGIC:
        return packed
    times, raws = zip(*packed.messages(), strict=True)
    return Packed.of(times, [expand(raw, "zstd", MAX_MESSAGE) for raw in raws])


def _by_ros(path: Path, missing: ModuleNotFoundError) -> Storage:
    """Return a storage that ROS reads, because a Python package is missing.

    Raises:
        RecordingError: if ROS is not installed either.
    """
    try:
        return RosStorage(path)
    except ModuleNotFoundError as error:
        raise RecordingError(
            f"has no chunks and can be read only with the package {missing.name} or ROS 2 "
            "(rosbag2_py): pip install rosbags, or source a ROS 2 installation"
        ) from error
