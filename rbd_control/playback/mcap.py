"""Storage files of rosbag2 in MCAP, read chunk by chunk in compiled code.

rosbags reads every MCAP file too, but message by message in Python, which takes more time than all
further processing of an arm's messages, and it does not limit the size of chunks. It is used here
for files without chunks only, which are rare. Files without an index are scanned for their chunks.
Format: https://mcap.dev/spec
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.spatial import copy
from rbd_control.playback.mcap_chunks import chunk_records, scan
from rbd_control.playback.mcap_summary import RECORD, Channel, Summary, read_summary
from rbd_control.playback.packed import Packed, joined
from rbd_control.playback.storage import Topic

_IS_MESSAGE = 0x05
_HEAD, _MESSAGE_HEAD = RECORD.size, 22
"""Size of the header of a record, and of the header of a message before its data [bytes]."""


class McapStorage:
    """The topics and messages of an ``.mcap`` file.

    Attributes:
        path: the file.
        topics: topics of the file by name.
        is_indexed: whether the file has an index of its chunks; otherwise the constructor reads the
            whole file to find them.

    Raises:
        Exception: of any class, from the constructor and from every iteration, if the file is
            damaged.
        ModuleNotFoundError: from the constructor, for a file without chunks if rosbags is not
            installed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            self._summary = read_summary(file)
            self.is_indexed = self._summary is not None
            if self._summary is None:
                self._summary = scan(file)
        self.topics = self._summary.topics() if self._summary else _topics_without_chunks(path)

    def packed(self, topic: str, size: int) -> Iterator[Packed]:
        """Yield the messages on ``topic`` in order of receipt, about one chunk at a time.

        For a file without chunks, ``size`` messages are yielded at a time.
        """
        if self._summary is None:
            return _messages_without_chunks(self.path, topic, size)
        return _messages_in_chunks(self.path, self._summary, topic)


def rehearse_chunks() -> None:
    """Process a chunk with one empty message, so that the compiled code is ready before use."""
    record = RECORD.pack(_IS_MESSAGE, _MESSAGE_HEAD) + bytes(_MESSAGE_HEAD)
    _wanted(np.frombuffer(record, dtype=np.uint8), np.ones(1, dtype=np.bool_), 0)


def _topics_without_chunks(path: Path) -> dict[str, Topic]:
    """Return the topics of a file without chunks, which rosbags finds by reading all of it."""
    with closing(_reader(path)) as reader:
        summary = Summary()
        for each in reader.connections:
            summary.channels[each.id] = Channel(
                each.topic, each.ext.serialization_format, each.msgtype
            )
            summary.counts[each.id] = each.msgcount
        return summary.topics()


def _messages_without_chunks(path: Path, topic: str, size: int) -> Iterator[Packed]:
    """Yield the messages of a file without chunks, as rosbags reads them."""
    with closing(_reader(path)) as reader:
        wanted = [each for each in reader.connections if each.topic == topic]
        messages = reader.messages(wanted)
        while found := list(islice(messages, size)):
            _, times, raws = zip(*found, strict=True)
            yield Packed.of(times, raws)


def _reader(path: Path) -> Any:
    """Return an open reader of rosbags, which is imported here because the import is slow."""
    from rosbags.rosbag2.storage_mcap import McapReader

    reader = McapReader(path)
    reader.open()
    return reader


def _messages_in_chunks(path: Path, summary: Summary, topic: str) -> Iterator[Packed]:
    channels = {number for number, each in summary.channels.items() if each.topic == topic}
    chunks = sorted(chunk for chunk in summary.chunks if chunk.channels & channels)
    wanted = np.zeros(1 << 16, dtype=np.bool_)
    wanted[list(channels)] = True
    waiting: Packed | None = None
    with path.open("rb") as file:
        for chunk, following in pairwise([*chunks, None]):
            assert chunk is not None
            messages = _wanted(chunk_records(file, chunk.offset), wanted, chunk.offset)
            if waiting is not None:
                times, data, sizes = joined([waiting, messages])
                messages = _in_order(data, times, np.cumsum(sizes) - sizes, sizes)
                waiting = None
            if following is not None and messages.times[-1] >= following.begin:
                # Chunks may overlap in time: messages after the start of the next chunk must wait.
                ready = int(np.searchsorted(messages.times, following.begin))
                split = int(messages.sizes[:ready].sum())
                times, data, sizes = messages
                waiting = Packed(times[ready:], data[split:], sizes[ready:])
                messages = Packed(times[:ready], data[:split], sizes[:ready])
            if len(messages.times):
                yield messages


def _wanted(records: NDArray[np.uint8], wanted: NDArray[np.bool_], offset: int) -> Packed:
    """Return the messages of the wanted channels, in order of time."""
    most = len(records) // (_HEAD + _MESSAGE_HEAD) + 1
    times = np.empty(most, dtype=np.int64)
    starts, sizes = np.empty(most, dtype=np.intp), np.empty(most, dtype=np.intp)
    count = _walk(records, wanted, times, starts, sizes)
    if count < 1:
        raise ValueError(f"the records of the chunk at byte {offset} do not fit it or its index")
    return _in_order(records, times[:count], starts[:count], sizes[:count])


def _in_order(
    data: NDArray[np.uint8],
    times: NDArray[np.int64],
    starts: NDArray[np.intp],
    sizes: NDArray[np.intp],
) -> Packed:
    """Return the messages at ``starts`` in ``data``, in order of time."""
    if np.any(times[1:] < times[:-1]):
        order = np.argsort(times, kind="stable")
        times, starts, sizes = times[order], starts[order], sizes[order]
    packed = np.empty(int(sizes.sum()), dtype=np.uint8)
    # Read-only like data from a file: for a writable array the kernel would be compiled again.
    data.flags.writeable = False
    _pack(data, starts, sizes, packed)
    return Packed(times, packed, sizes)


@inlined
def _unsigned(data, at, size):
    value = 0
    for i in range(size):
        value |= int(data[at + i]) << (8 * i)
    return value


@compiled
def _walk(records, wanted, times, starts, sizes):
    """Write log time [ns], offset and size of the data of each message on a wanted channel.

    Return their number, -1 if the records are damaged.
    """
    count = 0
    at = 0
    while at < records.shape[0]:
        if at + _HEAD > records.shape[0]:
            return -1
        size = _unsigned(records, at + 1, 8)
        content = at + _HEAD
        if size < 0 or size > records.shape[0] - content:
            return -1
        if records[at] == _IS_MESSAGE:
            if size < _MESSAGE_HEAD:
                return -1
            if wanted[_unsigned(records, content, 2)]:
                times[count] = _unsigned(records, content + 6, 8)
                starts[count] = content + _MESSAGE_HEAD
                sizes[count] = size - _MESSAGE_HEAD
                count += 1
        at = content + size
    return count


@compiled
def _pack(records, starts, sizes, data):
    """Copy messages one after another."""
    at = 0
    for k in range(starts.shape[0]):
        copy(records[starts[k] : starts[k] + sizes[k]], data[at:])
        at += sizes[k]
