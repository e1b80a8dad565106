"""Chunks of an MCAP file: expansion of their records with limits, and a scan for chunks.

A file that was not closed properly, or not written by rosbag2, may have no index. The scan then
provides the data of the index. Format: https://mcap.dev/spec
"""

from __future__ import annotations

from binascii import crc32
from collections import Counter
from dataclasses import dataclass, field
from struct import Struct
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from rbd_control.playback.compression import expand
from rbd_control.playback.mcap_summary import (
    MAGIC,
    RECORD,
    Channel,
    Chunk,
    Summary,
    parse_channel,
    parse_schema,
    records_in,
    text_at,
)

MAX_CHUNK = 1 << 27
"""Largest chunk that is read, compressed or not [bytes]; rosbag2 writes less than a megabyte."""

_CHUNK = Struct("<QQQII")  # up to the length of the compression's name
_LIMIT = f"at most {MAX_CHUNK} are read"
_UINT16 = Struct("<H")

_IS_FOOTER, _IS_SCHEMA, _IS_CHANNEL, _IS_MESSAGE, _IS_CHUNK = 0x02, 0x03, 0x04, 0x05, 0x06


def chunk_records(file: BinaryIO, offset: int) -> NDArray[np.uint8]:
    """Return the records in a chunk, expanded and checked, as bytes (n,).

    Args:
        file: the open MCAP file.
        offset: offset of the record of the chunk [bytes].

    Raises:
        ValueError: if there is no whole chunk, it is larger than :data:`MAX_CHUNK`, or its size or
            checksum is wrong.
        struct.error: if the file ends before the offset.
        Exception: of the decompression, for damaged data.
    """
    file.seek(offset)
    kind, size = RECORD.unpack(file.read(RECORD.size))
    if size > MAX_CHUNK:
        raise ValueError(f"the chunk at byte {offset} has {size} bytes; {_LIMIT}")
    content = file.read(size) if kind == _IS_CHUNK else b""
    if not content or len(content) != size:
        raise ValueError(f"there is no whole chunk at byte {offset}")
    _, _, uncompressed, check, name = _CHUNK.unpack_from(content)
    begin = _CHUNK.size + name + 8
    if uncompressed > MAX_CHUNK:
        raise ValueError(f"the chunk at byte {offset} has {uncompressed} bytes; {_LIMIT}")
    compression = content[_CHUNK.size : begin - 8].decode()
    records = expand(memoryview(content)[begin:], compression, uncompressed)
    if len(records) != uncompressed or (check and crc32(records) != check):
        raise ValueError(f"the chunk at byte {offset} is damaged")
    return np.frombuffer(records, dtype=np.uint8)


def scan(file: BinaryIO) -> Summary | None:
    """Return the summary of a file without an index; None if its messages lie outside chunks.

    The scan reads the file once, one chunk at a time.

    Args:
        file: the open MCAP file.

    Raises:
        ValueError: if a record is cut short, a chunk is too large or its checksum is wrong, or some
            messages are in chunks and others are not.
        struct.error: if a record is damaged.
        Exception: of the decompression, for damaged data.
    """
    found = _Found()
    end = file.seek(0, 2)
    at = file.seek(len(MAGIC))
    while at < end:
        head = file.read(RECORD.size)
        if len(head) != RECORD.size:
            raise ValueError(f"the record at byte {at} is cut short")
        kind, size = RECORD.unpack(head)
        if kind == _IS_FOOTER:
            break
        if size > end - at - RECORD.size:
            raise ValueError(f"the record at byte {at} is cut short")
        if kind == _IS_CHUNK:
            found.take_chunk(file, at)
        elif kind in (_IS_SCHEMA, _IS_CHANNEL):
            if size > MAX_CHUNK:
                raise ValueError(f"the record at byte {at} has {size} bytes; {_LIMIT}")
            found.take(kind, file.read(size))
        found.has_messages |= kind == _IS_MESSAGE
        at = file.seek(at + RECORD.size + size)
    return found.summary()


@dataclass
class _Found:
    """The results of a scan so far.

    Attributes:
        has_messages: whether there is a message outside of all chunks.
    """

    schemas: dict[int, str] = field(default_factory=dict)
    channels: dict[int, tuple[str, str, int]] = field(default_factory=dict)
    counts: Counter[int] = field(default_factory=Counter)
    chunks: list[Chunk] = field(default_factory=list)
    has_messages: bool = False

    def take_chunk(self, file: BinaryIO, offset: int) -> None:
        """Process the schemas, channels and message counts of a chunk."""
        counts: Counter[int] = Counter()
        for kind, record in records_in(chunk_records(file, offset).tobytes()):
            if kind == _IS_MESSAGE:
                counts[_UINT16.unpack_from(record)[0]] += 1
            else:
                self.take(kind, record)
        self.counts.update(counts)
        file.seek(offset + RECORD.size)
        begin, *_ = _CHUNK.unpack(file.read(_CHUNK.size))
        file.seek(offset + RECORD.size + _CHUNK.size - 4)
        compression, _ = text_at(file.read(64), 0)
        self.chunks.append(Chunk(begin, offset, frozenset(counts), compression))

    def take(self, kind: int, record: bytes) -> None:
        """Process a schema or a channel; other records are ignored."""
        if kind == _IS_SCHEMA:
            number, name = parse_schema(record)
            self.schemas[number] = name
        elif kind == _IS_CHANNEL:
            number, schema, channel = parse_channel(record)
            self.channels[number] = (channel.topic, channel.encoding, schema)

    def summary(self) -> Summary | None:
        """Return the summary; None if the messages are in no chunks."""
        if self.has_messages:
            if self.chunks:
                raise ValueError("some of its messages are in chunks and others are not")
            return None
        channels = {
            number: Channel(topic, encoding, self.schemas.get(schema, ""))
            for number, (topic, encoding, schema) in self.channels.items()
        }
        return Summary(channels, dict(self.counts), self.chunks)
