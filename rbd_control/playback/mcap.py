"""Messages of an MCAP file chunk by chunk, where it is a plain one.

rosbags reads every MCAP file, message by message in Python, which takes more time than all that is
done with the messages of an arm. A recording as rosbag2 writes it by default, indexed and not
compressed, is gone through here in compiled code. Format: https://mcap.dev/spec
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from struct import Struct, error
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.spatial import copy
from rbd_control.playback.packed import Packed, joined

_MAGIC = b"\x89MCAP0\r\n"
_FOOTER = Struct("<BQQQI8s")
_RECORD = Struct("<BQ")
_CHUNK = Struct("<QQQII")  # up to the length of the compression's name
_UINT = Struct("<I")
_CHANNEL = Struct("<HH")
_INDEX = Struct("<QQQQ")
_SIZES = Struct("<QQ")

_IS_CHANNEL, _IS_MESSAGE, _IS_CHUNK, _IS_CHUNK_INDEX = 0x04, 0x05, 0x06, 0x08
_HEAD, _MESSAGE_HEAD = _RECORD.size, 22
"""Sizes of what precedes the content of a record, and the data of a message."""


class _Chunk(NamedTuple):
    begin: int
    offset: int
    channels: frozenset[int]
    compressed: bool


def plain_messages(path: Path, topic: str) -> Iterator[Packed] | None:
    """The messages on ``topic``, a chunk at a time; None where the file is not a plain one.

    What is iterated raises ValueError where a chunk turns out damaged.
    """
    try:
        with path.open("rb") as file:
            index = _index(file, topic)
    except (error, ValueError, IndexError, OSError):
        return None  # for others to say what is wrong with it
    if index is None:
        return None
    chunks, channels = index
    return _messages(path, chunks, channels)


def rehearse_chunks() -> None:
    """Go through a chunk of one empty message."""
    record = _RECORD.pack(_IS_MESSAGE, _MESSAGE_HEAD) + bytes(_MESSAGE_HEAD)
    _wanted(np.frombuffer(record, dtype=np.uint8), np.ones(1, dtype=np.bool_), 0)


def _index(file: BinaryIO, topic: str) -> tuple[list[_Chunk], set[int]] | None:
    """The chunks that hold messages of ``topic``, and its channels."""
    file.seek(-_FOOTER.size, 2)
    end = file.tell()
    _, _, start, _, _, magic = _FOOTER.unpack(file.read())
    if magic != _MAGIC or not 0 < start < end:
        return None
    file.seek(start)
    summary = file.read(end - start)
    channels: set[int] = set()
    chunks = []
    at = 0
    while at < len(summary):
        kind, size = _RECORD.unpack_from(summary, at)
        content = summary[at + _HEAD : at + _HEAD + size]
        at += _HEAD + size
        if kind == _IS_CHANNEL:
            text, rest = _text(content, _CHANNEL.size)
            if text == topic.encode():
                if _text(content, rest)[0] != b"cdr":
                    return None
                channels.add(_CHANNEL.unpack_from(content)[0])
        elif kind == _IS_CHUNK_INDEX:
            chunks.append(_chunk(content))
    chunks = [chunk for chunk in chunks if chunk.channels & channels]
    if not chunks or any(chunk.compressed for chunk in chunks):
        return None
    return sorted(chunks), channels


def _text(content: bytes, at: int) -> tuple[bytes, int]:
    """The text at ``at``, and where it ends."""
    (size,) = _UINT.unpack_from(content, at)
    end = at + _UINT.size + size
    return content[at + _UINT.size : end], end


def _chunk(content: bytes) -> _Chunk:
    begin, _, offset, _ = _INDEX.unpack_from(content)
    # Pairs of a channel and where the index of its messages is.
    pairs, at = _text(content, _INDEX.size)
    channels = np.frombuffer(pairs, dtype=[("channel", "<u2"), ("offset", "<u8")])["channel"]
    compression, _ = _text(content, at + 8)
    return _Chunk(begin, offset, frozenset(channels.tolist()), bool(compression))


def _messages(path: Path, chunks: list[_Chunk], channels: set[int]) -> Iterator[Packed]:
    wanted = np.zeros(1 << 16, dtype=np.bool_)
    wanted[list(channels)] = True
    waiting: Packed | None = None
    with path.open("rb") as file:
        for chunk, following in pairwise([*chunks, None]):
            assert chunk is not None
            messages = _wanted(_records(file, chunk.offset), wanted, chunk.offset)
            if waiting is not None:
                times, data, sizes = joined([waiting, messages])
                messages = _in_order(data, times, np.cumsum(sizes) - sizes, sizes)
                waiting = None
            if following is not None and messages.times[-1] >= following.begin:
                # Chunks may overlap in time: what is later than the next one begins has to wait.
                ready = int(np.searchsorted(messages.times, following.begin))
                split = int(messages.sizes[:ready].sum())
                times, data, sizes = messages
                waiting = Packed(times[ready:], data[split:], sizes[ready:])
                messages = Packed(times[:ready], data[:split], sizes[:ready])
            if len(messages.times):
                yield messages


def _wanted(records: NDArray[np.uint8], wanted: NDArray[np.bool_], offset: int) -> Packed:
    """The messages of the wanted channels, in order of time."""
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
    """The messages at ``starts`` in ``data``, in order of time."""
    if np.any(times[1:] < times[:-1]):
        order = np.argsort(times, kind="stable")
        times, starts, sizes = times[order], starts[order], sizes[order]
    packed = np.empty(int(sizes.sum()), dtype=np.uint8)
    # As what comes from a file is: for the other kind the kernel would be compiled anew.
    data.flags.writeable = False
    _pack(data, starts, sizes, packed)
    return Packed(times, packed, sizes)


def _records(file: BinaryIO, offset: int) -> NDArray[np.uint8]:
    """What is in the chunk at ``offset``."""
    file.seek(offset)
    kind, size = _RECORD.unpack(file.read(_HEAD))
    content = file.read(size) if kind == _IS_CHUNK else b""
    if not content or len(content) != size:
        raise ValueError(f"there is no whole chunk at byte {offset}")
    _, _, uncompressed, check, name = _CHUNK.unpack_from(content)
    begin = _CHUNK.size + name + 8
    records = memoryview(content)[begin:]
    if len(records) != uncompressed or (check and crc32(records) != check):
        raise ValueError(f"the chunk at byte {offset} is damaged")
    return np.frombuffer(records, dtype=np.uint8)


@inlined
def _unsigned(data, at, size):
    value = 0
    for i in range(size):
        value |= int(data[at + i]) << (8 * i)
    return value


@compiled
def _walk(records, wanted, times, starts, sizes):
    """Where the messages of the wanted channels are; how many, -1 where a record does not fit."""
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
