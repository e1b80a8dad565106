"""The summary of an MCAP file: its channels with their message counts, and its chunks.

Format: https://mcap.dev/spec
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import BinaryIO, NamedTuple

import numpy as np

from rbd_control.playback.storage import Topic

MAGIC = b"\x89MCAP0\r\n"
"""First and last bytes of an MCAP file."""

RECORD = Struct("<BQ")
"""Header of a record: its kind, and the size of its content [bytes]."""

MAX_SUMMARY = 1 << 26
"""Maximum size of a summary [bytes], enough for some hundred thousand chunks."""

_FOOTER = Struct("<BQQQI8s")
_UINT16 = Struct("<H")
_UINT32 = Struct("<I")
_CHANNEL = Struct("<HH")
_CHUNK_INDEX = Struct("<QQQQ")
_STATISTICS_SIZE = 42  # up to the number of messages of each channel

_IS_SCHEMA, _IS_CHANNEL, _IS_CHUNK_INDEX, _IS_STATISTICS = 0x03, 0x04, 0x08, 0x0B


class Channel(NamedTuple):
    """A channel of an MCAP file: its topic, and the encoding and the type of its messages."""

    topic: str
    encoding: str
    msgtype: str


class Chunk(NamedTuple):
    """A chunk of an MCAP file.

    Attributes:
        begin: time of its first message [ns].
        offset: offset of its record in the file [bytes].
        channels: numbers of the channels that have messages in it.
        compression: name of the compression, such as ``zstd``; empty without compression.
    """

    begin: int
    offset: int
    channels: frozenset[int]
    compression: str


@dataclass
class Summary:
    """The content of the summary of an MCAP file.

    Attributes:
        channels: channels by number.
        counts: number of messages by channel number.
        chunks: all chunks of the file.
    """

    channels: dict[int, Channel] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    chunks: list[Chunk] = field(default_factory=list)

    def topics(self) -> dict[str, Topic]:
        """Return the topics by name, with types, encodings and numbers of messages."""
        topics: dict[str, Topic] = {}
        for number, (topic, encoding, msgtype) in self.channels.items():
            count = self.counts.get(number, 0)
            if topic in topics:
                known = topics[topic]
                msgtype = msgtype if msgtype == known.msgtype else "several types"
                encoding = encoding if encoding == known.encoding else "several formats"
                count += known.messages
            topics[topic] = Topic(msgtype, encoding, count)
        return topics


def read_summary(file: BinaryIO) -> Summary | None:
    """Return the summary of an MCAP file; None if there is no complete summary.

    A summary is incomplete if it lacks the statistics, a schema, the index of the chunks, or the
    channels of a chunk, which files without message index do not have.

    Args:
        file: the open file, at its beginning.

    Raises:
        ValueError: if this is not an MCAP file, its end is missing or the summary is damaged.
        struct.error, UnicodeDecodeError, OSError: for a damaged or unreadable file.
    """
    if file.read(len(MAGIC)) != MAGIC:
        raise ValueError("it does not begin as an MCAP file does")
    file.seek(0, 2)
    if file.tell() < len(MAGIC) + _FOOTER.size:
        raise ValueError("its end is missing")
    file.seek(-_FOOTER.size, 2)
    end = file.tell()
    _, _, start, _, _, magic = _FOOTER.unpack(file.read(_FOOTER.size))
    if magic != MAGIC:
        raise ValueError("its end is missing")
    if start == 0:
        return None
    if not len(MAGIC) <= start <= end or end - start > MAX_SUMMARY:
        raise ValueError("its summary is not where its end says")
    file.seek(start)
    summary = _parse(file.read(end - start))
    if summary is None or not all(chunk.channels for chunk in summary.chunks):
        return None
    is_complete = bool(summary.chunks) == bool(sum(summary.counts.values()))
    return summary if is_complete else None


def _parse(content: bytes) -> Summary | None:
    """Return a summary; None if it lacks the statistics or the schema of a channel."""
    summary = Summary()
    schemas: dict[int, str] = {}
    types: dict[int, int] = {}
    has_statistics = False
    for kind, record in records_in(content):
        if kind == _IS_SCHEMA:
            number, schemas[number] = parse_schema(record)
        elif kind == _IS_CHANNEL:
            number, types[number], summary.channels[number] = parse_channel(record)
        elif kind == _IS_CHUNK_INDEX:
            summary.chunks.append(_chunk(record))
        elif kind == _IS_STATISTICS:
            has_statistics = True
            pairs = np.frombuffer(
                _bytes(record, _STATISTICS_SIZE)[0], dtype=[("channel", "<u2"), ("count", "<u8")]
            )
            summary.counts = dict(
                zip(pairs["channel"].tolist(), pairs["count"].tolist(), strict=True)
            )
    if not has_statistics or not set(types.values()) <= set(schemas):
        return None
    for number, channel in summary.channels.items():
        summary.channels[number] = channel._replace(msgtype=schemas[types[number]])
    return summary


def records_in(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the content of each record of a summary or a chunk.

    Raises:
        ValueError: if the content of a record is cut short.
        struct.error: if the header of a record is cut short.
    """
    at = 0
    while at < len(content):
        kind, size = RECORD.unpack_from(content, at)
        at += RECORD.size
        if size > len(content) - at:
            raise ValueError("a record of its summary or of a chunk is cut short")
        yield kind, content[at : at + size]
        at += size


def parse_schema(record: bytes) -> tuple[int, str]:
    """Return the number and the name of a schema, from the content of its record.

    Raises:
        ValueError, struct.error: if the record is damaged.
    """
    (number,) = _UINT16.unpack_from(record)
    return number, text_at(record, _UINT16.size)[0]


def parse_channel(record: bytes) -> tuple[int, int, Channel]:
    """Return the number of a channel, the number of its schema, and the channel.

    The schema has the type of the messages; ``msgtype`` of the returned channel is empty.

    Args:
        record: content of the record of the channel.

    Raises:
        ValueError, struct.error: if the record is damaged.
    """
    number, schema = _CHANNEL.unpack_from(record)
    topic, at = text_at(record, _CHANNEL.size)
    return number, schema, Channel(topic, text_at(record, at)[0], "")


def _chunk(record: bytes) -> Chunk:
    begin, _, offset, _ = _CHUNK_INDEX.unpack_from(record)
    # Pairs of a channel and the offset of the index of its messages.
    pairs, at = _bytes(record, _CHUNK_INDEX.size)
    channels = np.frombuffer(pairs, dtype=[("channel", "<u2"), ("offset", "<u8")])["channel"]
    compression, _ = text_at(record, at + 8)
    return Chunk(begin, offset, frozenset(channels.tolist()), compression)


def text_at(content: bytes, at: int) -> tuple[str, int]:
    """Return the UTF-8 text with a length prefix at the offset ``at``, and the offset of its end.

    Raises:
        ValueError, struct.error: if the content ends before, or is not UTF-8.
    """
    raw, end = _bytes(content, at)
    return raw.decode(), end


def _bytes(content: bytes, at: int) -> tuple[bytes, int]:
    """Return the length-prefixed bytes at the offset ``at``, and the offset of their end."""
    (size,) = _UINT32.unpack_from(content, at)
    begin = at + _UINT32.size
    if size > len(content) - begin:
        raise ValueError("a record of its summary is cut short")
    return content[begin : begin + size], begin + size
