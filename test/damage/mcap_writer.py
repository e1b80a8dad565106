"""MCAP files written record by record, so that any of them can lie."""

from __future__ import annotations

import struct
from binascii import crc32
from collections.abc import Callable, Sequence
from typing import Any

MAGIC = b"\x89MCAP0\r\n"

Lies = dict[str, Any]
"""Wrong values that replace the correct ones, by name of the field."""


# Long: the records of the file in their order, each with the field that a test may falsify.
def mcap(
    messages: Sequence[tuple[int, bytes]], lies: Lies | None = None, chunk: int = 100
) -> bytes:
    """Return an MCAP file with joint states on ``/joint_states``.

    Args:
        messages: time of receipt [ns] and bytes of each.
        lies: fields that are written otherwise: ``magic``, ``msgtype``, ``encoding``, ``topic``,
            ``compression``, ``compress`` (a function), ``uncompressed_size``, ``chunk_size``,
            ``crc``, ``chunk_offset``, ``chunk_channels``, ``message_size``, ``message_channel``,
            ``published`` (time of publication [ns]), ``count``, ``summary_start``,
            ``without_chunks``.
        chunk: messages in a chunk.
    """
    lie = dict(lies or {})
    compress: Callable[[bytes], bytes] = lie.get("compress", lambda raw: raw)
    compression = lie.get("compression", b"")
    head = lie.get("magic", MAGIC) + _record(0x01, _text(b"ros2") + _text(b""))
    schema = _record(
        0x03,
        struct.pack("<H", 1)
        + _text(lie.get("msgtype", b"sensor_msgs/msg/JointState"))
        + _text(b"ros2msg")
        + _text(b""),
    )
    channel = _record(
        0x04,
        struct.pack("<HH", 1, 1)
        + _text(lie.get("topic", b"/joint_states"))
        + _text(lie.get("encoding", b"cdr"))
        + _text(b""),
    )
    out, index = bytearray(head), b""
    chunks = 0
    for first in range(0, len(messages), chunk):
        part = messages[first : first + chunk]
        records = schema + channel if first == 0 else b""
        records += b"".join(_message(time, raw, lie) for time, raw in part)
        if lie.get("without_chunks"):
            out += records
            continue
        packed = compress(records)
        begin, end = part[0][0], part[-1][0]
        content = (
            struct.pack(
                "<QQQI",
                begin,
                end,
                lie.get("uncompressed_size", len(records)),
                lie.get("crc", crc32(records)),
            )
            + _text(compression)
            + struct.pack("<Q", len(packed))
            + packed
        )
        offset = len(out)
        out += _record(0x06, content, lie.get("chunk_size"))
        chunks += 1
        index += _record(
            0x08,
            struct.pack(
                "<QQQQ",
                begin,
                end,
                lie.get("chunk_offset", offset),
                len(content) + 9,
            )
            + _text(b"".join(struct.pack("<HQ", c, 0) for c in lie.get("chunk_channels", (1,))))
            + struct.pack("<Q", 0)
            + _text(compression)
            + struct.pack("<QQ", len(packed), len(records)),
        )
    start = len(out)
    out += schema + channel + index
    out += _record(
        0x0B,
        struct.pack("<QHIIIIQQ", len(messages), 1, 1, 0, 0, chunks, 0, 0)
        + _text(struct.pack("<HQ", 1, lie.get("count", len(messages)))),
    )
    footer = struct.pack("<QQI", lie.get("summary_start", start), 0, 0)
    out += _record(0x02, footer)
    return bytes(out + MAGIC)


def _message(time: int, raw: bytes, lie: Lies) -> bytes:
    times = time % 2**64, lie.get("published", time) % 2**64
    content = struct.pack("<HIQQ", lie.get("message_channel", 1), 0, *times)
    return _record(0x05, content + raw, lie.get("message_size"))


def _record(kind: int, content: bytes, size: int | None = None) -> bytes:
    return struct.pack("<BQ", kind, len(content) if size is None else size) + content


def _text(raw: bytes) -> bytes:
    return struct.pack("<I", len(raw)) + raw
