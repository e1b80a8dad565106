"""Recordings of rosbag2 (folder, ``.db3``, ``.mcap``) and of ROS 1 (``.bag``), read by rosbags.

rosbags is imported when a bag is opened. Released ROS packages cannot depend on it, because it is
distributed on PyPI; CSV files and the nodes do without it.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from heapq import merge
from importlib import import_module
from itertools import islice, pairwise
from operator import itemgetter
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from weakref import finalize

from rbd_control.errors import ModelWarning, RecordingError
from rbd_control.files.input_files import about, reading, reason, refuse_special
from rbd_control.files.output_files import ScratchFolder
from rbd_control.files.yaml_input import read_yaml
from rbd_control.joint_states import JointMessage
from rbd_control.joint_states.cdr import CdrScan, Ros1Scan
from rbd_control.playback.parts import Part, decode_parts
from rbd_control.wording import listed, quoted, shortened

JOINT_STATE = "sensor_msgs/msg/JointState"
BOOL = "std_msgs/msg/Bool"
STRING = "std_msgs/msg/String"

STORAGE_SUFFIXES = (".mcap", ".db3")
"""Suffixes of the storage files of rosbag2."""

ROS1_SUFFIX = ".bag"
"""Suffix of a recording of ROS 1."""

COMPRESSED = ".zstd"
"""Suffix that rosbag2 appends to a storage file that is compressed as a whole."""

METADATA = "metadata.yaml"
"""File of a rosbag2 folder that lists its storage files."""

MAX_MESSAGE = 1 << 18
"""Maximum size of a message [bytes]; a joint state of a thousand joints takes a fifth of it."""

OVERLAP = 1.0
"""Overlap of two files above which they belong to different recordings [s]."""

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
"""First bytes of a message that rosbag2 has compressed; CDR begins with a zero."""

_REPAIR = {
    ".mcap": "it may be damaged or cut short, 'mcap recover' may repair it",
    ".db3": "it may be damaged or cut short, 'sqlite3 FILE .recover' may repair it",
    ".bag": "it may be damaged or cut short, 'rosbag reindex' may repair it",
}


class Topic(NamedTuple):
    """A topic of a recording: type, serialisation format and number of its messages.

    Type or format is ``several types`` or ``several formats`` if it is not the same throughout.
    """

    msgtype: str
    encoding: str
    messages: int


class Bag:
    """The topics of a recording, which is streamed.

    Args:
        path: a rosbag2 folder with or without ``metadata.yaml``, one of its storage files, or a
            ``.bag`` file. Only the list of storage files in ``metadata.yaml`` is used; everything
            else is read from the storage files, which are merged by time of receipt.

    Attributes:
        path: the folder or file of the recording.
        topics: its topics by name, from all its storage files.

    Raises:
        RecordingError: from the constructor and from every iteration, naming the file that is
            missing or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_ros1 = path.suffix == ROS1_SUFFIX
        self._storages = [_Storage(file) for file in _storage_files(path)]
        if len(self._storages) > 1 and not (path / METADATA).exists():
            self._take_for_one()
        self.topics: dict[str, Topic] = {}
        for storage in self._storages:
            for name, topic in storage.topics:
                known = self.topics.get(name, topic._replace(messages=0))
                self.topics[name] = Topic(
                    topic.msgtype if topic.msgtype == known.msgtype else "several types",
                    topic.encoding if topic.encoding == known.encoding else "several formats",
                    topic.messages + known.messages,
                )

    def _take_for_one(self) -> None:
        """Warn that the files of a folder without ``metadata.yaml`` are read as one recording.

        Raises:
            RecordingError: if two of them overlap in time by more than :data:`OVERLAP`.
        """
        files = sorted(self._storages, key=lambda storage: storage.span)
        for before, after in pairwise(files):
            if before.span[1] - after.span[0] > OVERLAP * 1e9:
                with about(self.path):
                    raise RecordingError(
                        f"has no {METADATA}, and {before.path.name} and {after.path.name} overlap "
                        "in time, as files of different recordings: give each file alone"
                    )
        names = listed([storage.path.name for storage in files])
        text = f"{self.path}: has no {METADATA}; its files are read as one recording: {names}"
        warnings.warn(text, ModelWarning, stacklevel=3)

    def require(self, topic: str, msgtype: str) -> int:
        """Return the number of messages on ``topic``; raise an error if it cannot be read.

        Raises:
            RecordingError: if there is no such topic (the message lists the topics), if it is not
                of type ``msgtype``, if it is not serialised as CDR, or if it has no message.
        """
        with about(self.path):
            if topic not in self.topics:
                same = [name for name, each in self.topics.items() if each.msgtype == msgtype]
                there = f"topics of {msgtype} are {listed(same)}; select one with --topic"
                if not same:
                    there = f"none of {msgtype}; its topics are {listed(self.topics)}"
                raise RecordingError(f"has no topic {quoted(topic)}, {there}")
            found = self.topics[topic]
            if found.msgtype != msgtype:
                raise RecordingError(
                    f"topic {quoted(topic)} has type {shortened(found.msgtype, 60)}, not {msgtype}"
                )
            if found.encoding != "cdr":
                raise RecordingError(
                    f"topic {quoted(topic)} is serialised as {quoted(found.encoding)}; only "
                    "'cdr' is read: convert the recording with 'ros2 bag convert'"
                )
            if not found.messages:
                raise RecordingError(f"holds no message on {quoted(topic)}")
            return found.messages

    def joint_parts(self, topic: str, size: int) -> Iterator[list[Part]]:
        """Yield the joint states of ``topic`` in blocks, each divided into parts of one layout.

        A block has ``size`` messages, the last block may have fewer. The blocks are in order of
        receipt; :func:`~rbd_control.playback.parts.in_order` restores the order within a block.
        """
        scan = Ros1Scan if self._is_ros1 else CdrScan
        with _naming(self.path):
            for times, raws in self._blocks(topic, size):
                yield decode_parts(times, raws, self._joint_state, scan)

    def values(
        self, topic: str, msgtype: str, largest: int = MAX_MESSAGE
    ) -> Iterator[tuple[float, Any]]:
        """Yield time of receipt [s] and ``data`` of each std_msgs message of ``topic``.

        Args:
            topic: a topic of the recording.
            msgtype: its type: :data:`BOOL` or :data:`STRING`.
            largest: maximum size of a message [bytes].
        """
        with _naming(self.path):
            for times, raws in self._blocks(topic, 64, largest):
                for time, raw in zip(times, raws, strict=True):
                    yield 1e-9 * time, self._decoded(raw, msgtype).data

    def _joint_state(self, receipt: float, raw: bytes) -> JointMessage:
        """Decode a joint state of any layout; an error names its time of receipt [s]."""
        try:
            decoded = self._decoded(raw, JOINT_STATE)
        except Exception as error:
            # Generated code may raise any exception for damaged bytes.
            raise RecordingError(
                f"the joint state received at {receipt:.3f} s is damaged "
                f"({shortened(str(error), 60)})"
            ) from error
        stamp = decoded.header.stamp
        values = decoded.position, decoded.velocity, decoded.effort
        return JointMessage(stamp.sec + 1e-9 * stamp.nanosec, receipt, decoded.name, *values)

    def _decoded(self, raw: bytes, msgtype: str) -> Any:
        if self._is_ros1:
            return _types("ROS1_NOETIC").deserialize_ros1(raw, msgtype)
        return _types("LATEST").deserialize_cdr(raw, msgtype)

    def _blocks(
        self, topic: str, size: int, largest: int = MAX_MESSAGE
    ) -> Iterator[tuple[list[int], list[bytes]]]:
        """Yield times of receipt [ns] and bytes of the messages on ``topic``, in blocks."""
        streams = [storage.messages(topic) for storage in self._storages]
        merged = streams[0] if len(streams) == 1 else merge(*streams, key=itemgetter(0))
        while block := list(islice(merged, size)):
            times, raws = map(list, zip(*block, strict=True))
            if raws[0].startswith(_ZSTD_MAGIC):
                raws = [bytes(_zstd().decompress(raw)) for raw in raws]
            longest = max(map(len, raws))
            if longest > largest:
                raise RecordingError(
                    f"a message on {quoted(topic)} has {longest} bytes; at most {largest} are read"
                )
            yield times, raws


class _Storage:
    """One storage file, opened by rosbags; iterations at the same time have a reader each.

    Attributes:
        topics: name and properties of each topic; a name may occur several times.
        span: times of receipt of the first and the last message [ns].

    Raises:
        RecordingError: from the constructor and from every iteration, naming the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with about(path):
            self._rosbags = _rosbags("rosbag1" if path.suffix == ROS1_SUFFIX else "rosbag2")
        self._scratch: ScratchFolder | None = None
        self._readable = self._made_readable()
        self._idle: list[Any] = []
        finalize(self, _close, self._idle)
        with self._reader() as reader:
            self.span: tuple[int, int] = (reader.start_time, reader.end_time)
            self.topics = [
                (
                    each.topic,
                    Topic(
                        each.msgtype,
                        getattr(each.ext, "serialization_format", "cdr"),
                        each.msgcount,
                    ),
                )
                for each in reader.connections
            ]

    def messages(self, topic: str) -> Iterator[tuple[int, bytes]]:
        """Yield time of receipt [ns] and bytes of each message on ``topic``."""
        with self._reader() as reader:
            wanted = [each for each in reader.connections if each.topic == topic]
            if not wanted:  # for rosbags, this selects all connections
                return
            missing = stated = sum(each.msgcount for each in wanted)
            for _, time, raw in reader.messages(wanted):
                missing -= 1
                yield time, raw
            if missing:  # rosbags passes over what it does not understand
                raise ValueError(f"{missing} of {stated} messages on {topic[:40]} are missing")

    @contextmanager
    def _reader(self) -> Iterator[Any]:
        """Lend an open reader; opening it may take long, because it counts the messages."""
        with _naming(self.path):
            reader = self._idle.pop() if self._idle else self._opened()
            try:
                yield reader
            except BaseException:
                _close([reader])
                raise
            self._idle.append(reader)

    def _opened(self) -> Any:
        reader = self._rosbags.Reader(self._readable)
        try:
            reader.open()
        except self._rosbags.ReaderError as error:
            # The path, which some of its messages contain, would take the place of the reason.
            said = str(error).replace(str(self._readable), self.path.name)
            raise ValueError(said) from error
        return reader

    def _made_readable(self) -> Path:
        """Return the file, or a decompressed copy of it, or a link with a name without URI signs.

        rosbags opens ``.db3`` files by a URI, into which it copies the path.
        """
        path = self.path.resolve()
        log = path.with_name(f"{path.name}-wal")
        with _naming(self.path):
            if path.suffix == ".db3" and log.exists() and log.stat().st_size:
                raise RecordingError(
                    f"has messages in {log.name}, because its recorder still runs or has crashed; "
                    f"merge them with: sqlite3 {path.name} 'PRAGMA wal_checkpoint(TRUNCATE)'"
                )
            is_compressed = path.name.endswith(COMPRESSED)
            if not is_compressed and not any(sign in str(path) for sign in "?#%"):
                return path
            self._scratch = ScratchFolder()
            readable = self._scratch.path / f"storage{PurePath(_plain_name(path)).suffix}"
            if is_compressed:
                with _zstd().open(path, "rb") as file, readable.open("wb") as output:
                    shutil.copyfileobj(file, output)
            else:
                readable.symlink_to(path)
            return readable


def _close(readers: Sequence[Any]) -> None:
    for reader in readers:
        with suppress(Exception):  # its file may be damaged, or the process may end
            reader.close()


def _rosbags(module: str) -> Any:
    """Return a module of rosbags.

    Raises:
        RecordingError: if rosbags or one of the packages that it requires is not installed.
    """
    try:
        return import_module(f"rosbags.{module}")
    except ModuleNotFoundError as error:
        raise RecordingError(
            f"a bag is read by the package rosbags ({reason(error)}): pip install rosbags"
        ) from error


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Convert any error during reading to a RecordingError that names ``path``."""
    remedy = _REPAIR.get(PurePath(_plain_name(path)).suffix, "it may be damaged")
    with reading(path, RecordingError, "cannot be read as a recording", remedy):
        yield


@cache
def _types(release: str) -> Any:
    """Return the message types of rosbags, which generate their decoders on first use.

    The types read here are the same in every release of ROS 2; a recording may hold definitions of
    its own, or none. The generation takes some milliseconds, so that all recordings share them.
    """
    typesys = _rosbags("typesys")
    return typesys.get_typestore(typesys.Stores[release])


@cache
def _zstd() -> Any:
    """Return the module of the standard library, or the package that rosbags requires."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def recorded_files(path: Path) -> list[Path]:
    """Return the files of a recording, which need not be readable.

    Args:
        path: the recording. For a folder, the result is ``metadata.yaml`` and all storage files in
            it; for any other path, it is the path itself.
    """
    if not os.path.isdir(path):  # Path.is_dir() raises an error for some unreadable paths
        return [path]
    with suppress(OSError):
        return [path / METADATA, *filter(is_storage, path.iterdir())]
    return []


def _storage_files(path: Path) -> list[Path]:
    """Return the storage files of a recording, each an ordinary file that is not empty.

    They have the order of ``metadata.yaml``; without it, they are all in the folder, by name.
    """
    if not path.is_dir():
        files = [path]
    elif (path / METADATA).exists():
        refuse_special(path / METADATA, RecordingError)
        with about(path / METADATA):
            files = _listed_files(path)
    else:
        with reading(path, RecordingError, "cannot be read"):
            files = sorted(filter(is_storage, path.iterdir()))
            if not files:
                raise RecordingError(
                    f"is not a rosbag2 recording: it holds neither {METADATA} nor a file "
                    f"{' or '.join(STORAGE_SUFFIXES)}"
                )
    for file in files:
        refuse_special(file, RecordingError)
    return files


def _listed_files(folder: Path) -> list[Path]:
    """Return the storage files that ``metadata.yaml`` of a folder lists."""
    content = read_yaml(folder / METADATA, RecordingError)
    try:
        names = list(map(str, content["rosbag2_bagfile_information"]["relative_file_paths"]))
    except (KeyError, TypeError) as error:
        raise RecordingError(
            "lists no storage files; remove this file to read the recording without it"
        ) from error
    # Old versions of ROS 2 wrote the folder's own name before that of the file.
    files = [folder / PurePath(name).name for name in dict.fromkeys(names)]
    odd = [file.name for file in files if not is_storage(file)]
    if odd or not files:
        raise RecordingError(
            f"lists {listed(odd or ['no file'])}; only storage files "
            f"{' and '.join(STORAGE_SUFFIXES)} are read"
        )
    missing = [file.name for file in files if not file.exists()]
    if missing:
        raise RecordingError(
            f"lists {listed(missing)}, which the folder does not hold; remove this file to read "
            "the recording without it"
        )
    return files


def is_storage(file: Path) -> bool:
    """Return whether a file has the suffix of a storage file."""
    return _plain_name(file).endswith(STORAGE_SUFFIXES)


def _plain_name(file: Path) -> str:
    """Return the name of a file without the suffix of its compression."""
    return file.name.removesuffix(COMPRESSED)
