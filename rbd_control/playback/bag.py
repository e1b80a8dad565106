"""rosbag2 recordings, read without ROS: a folder, a bare ``.db3`` or a bare ``.mcap``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from rosbags.highlevel import AnyReader
from rosbags.interfaces import Connection
from rosbags.typesys import Stores, get_typestore

from rbd_control.errors import RecordingError
from rbd_control.joint_states import JointMessage
from rbd_control.playback.db3 import rows
from rbd_control.playback.joint_state_cdr import decode_parts
from rbd_control.playback.mcap import plain_messages
from rbd_control.playback.packed import Packed, at_least
from rbd_control.playback.parts import Part

JOINT_STATE = "sensor_msgs/msg/JointState"
BOOL = "std_msgs/msg/Bool"
STORAGE_SUFFIXES = (".mcap", ".db3")


class Bag:
    """The topics of a rosbag2 recording. Every iteration opens the files anew and streams them.

    Raises:
        RecordingError: from the constructor and from every iteration, when the files are missing
            or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = _storage(path)
        with self._open() as reader:
            self.topics = {
                topic: (info.msgtype or "several types", info.msgcount)
                for topic, info in reader.topics.items()
            }
            self._types = reader.typestore
            compressed = any(getattr(each, "compression_mode", None) for each in reader.readers)
        if path.is_dir() and not compressed:
            # metadata.yaml says no more, and takes longer to read than seconds of recording.
            inside = [item for item in path.iterdir() if item.suffix in STORAGE_SUFFIXES]
            self._files = inside if len(inside) == 1 else self._files
        self._compressed = compressed

    def require(self, topic: str, msgtype: str) -> int:
        """The number of messages on ``topic``.

        Raises:
            RecordingError: when there is no such topic (the message lists those there are), it
                is not of type ``msgtype``, or it holds nothing.
        """
        if topic not in self.topics:
            there = ", ".join(f"{name} ({kind})" for name, (kind, _) in self.topics.items())
            raise RecordingError(
                f"{self.path} has no topic {topic}; topics are {there or 'none at all'}"
            )
        kind, count = self.topics[topic]
        if kind != msgtype:
            raise RecordingError(f"{topic} in {self.path} carries {kind}, not {msgtype}")
        if not count:
            raise RecordingError(f"{self.path} holds no message on {topic}")
        return count

    def joint_parts(self, topic: str, size: int) -> Iterator[list[Part]]:
        """The joint states of ``topic`` in order of receipt, some ``size`` at a time."""
        with self._complaining():
            for packed in at_least(size, self._packed(topic, size)):
                yield decode_parts(packed, self._decode)

    def _decode(self, receipt: float, raw: bytes) -> JointMessage:
        message: Any = self._types.deserialize_cdr(raw, JOINT_STATE)
        stamp = message.header.stamp
        return JointMessage(
            stamp.sec + 1e-9 * stamp.nanosec,
            receipt,
            message.name,
            message.position,
            message.velocity,
            message.effort,
        )

    def _packed(self, topic: str, size: int) -> Iterator[Packed]:
        """The messages on ``topic``, by the quickest way that their storage allows."""
        file = self._files[0]
        if len(self._files) == 1 and file.is_file() and not self._compressed:
            if file.suffix == ".db3":
                yield from rows(file, topic, size)
                return
            plain = plain_messages(file, topic)
            if plain is not None:
                yield from plain
                return
        with self._open() as reader:
            messages = self._messages(reader, topic)
            while chunk := list(islice(messages, size)):
                _, times, raws = zip(*chunk, strict=True)
                yield Packed.of(times, raws)

    def flags(self, topic: str) -> Iterator[tuple[float, bool]]:
        """Time of receipt [s] and value of each std_msgs/Bool of ``topic``."""
        with self._open() as reader:
            for _, time, raw in self._messages(reader, topic):
                message: Any = reader.deserialize(raw, BOOL)
                yield 1e-9 * time, bool(message.data)

    @staticmethod
    def _messages(reader: AnyReader, topic: str) -> Iterator[tuple[Connection, int, bytes]]:
        return reader.messages([c for c in reader.connections if c.topic == topic])

    @contextmanager
    def _open(self) -> Iterator[AnyReader]:
        # Bags recorded before ROS 2 Iron hold no type definitions; the types read here have been
        # the same in every release.
        with (
            self._complaining(),
            AnyReader(self._files, default_typestore=get_typestore(Stores.LATEST)) as reader,
        ):
            yield reader

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            yield
        except RecordingError:
            raise
        # Damaged bytes come out of the reader as errors of sqlite, struct, yaml, zstd and more.
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0].rstrip(".") or type(error).__name__
            raise RecordingError(
                f"{self.path} cannot be read as a rosbag2 recording, it may be damaged or cut "
                f"short: {reason}"
            ) from error


def _storage(path: Path) -> list[Path]:
    """What to open: the folder, the file, or the files of a folder without metadata.yaml."""
    if not path.is_dir():
        if not path.stat().st_size:
            raise RecordingError(f"{path} is empty")
        return [path]
    if (path / "metadata.yaml").exists():
        return [path]
    files = sorted(item for item in path.iterdir() if item.suffix in STORAGE_SUFFIXES)
    if not files:
        raise RecordingError(
            f"{path} is no rosbag2 recording: it holds neither metadata.yaml nor a file "
            f"{' or '.join(STORAGE_SUFFIXES)}"
        )
    return files
