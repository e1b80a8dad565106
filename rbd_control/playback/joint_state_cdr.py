"""Serialised ``sensor_msgs/JointState`` messages, decoded in blocks.

Messages of one layout (the same names, the same lengths) have the same size and, but for time,
frame, values and padding, the same bytes. So one of them, decoded by other means, tells where the
numbers stand in all.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rbd_control.joint_states import JointBlock, JointMessage
from rbd_control.playback.packed import Packed
from rbd_control.playback.parts import Part

Bytes = NDArray[np.uint8]

_LITTLE_ENDIAN = b"\x00\x01"
_HEADER = 4
"""What precedes the content [bytes]; alignment counts from its end."""

_TRAILING = 3
"""Padding that may follow the content [bytes]."""

_LAYOUTS = 32
"""Layouts of one size that are looked for in a block; a recorded topic has one to three."""

Decode = Callable[[float, bytes], JointMessage]
"""Make a message of its time of receipt [s] and its bytes."""


def decode_parts(packed: Packed, decode: Decode) -> list[Part]:
    """Return the messages as one part for each layout.

    Args:
        packed: the messages as recorded.
        decode: is called for the first message of every layout, and for each message that is not
            serialised in the usual way.
    """
    parts: list[Part] = []
    receipts = np.multiply(1e-9, packed.times, dtype=np.float64)
    sizes = packed.sizes
    starts_at = np.cumsum(sizes) - sizes
    for size in np.unique(sizes).tolist():
        left = np.flatnonzero(sizes == size)
        if len(left) == len(sizes):
            rows = packed.data.reshape(-1, size)
        else:
            rows = packed.data[starts_at[left, None] + np.arange(size)]
        parts += _decode_rows(rows, left, receipts, decode)
    return parts


def _decode_rows(
    rows: Bytes, left: NDArray[np.intp], receipts: NDArray[np.float64], decode: Decode
) -> list[Part]:
    """Return messages of one size, as rows of bytes, as one part for each layout.

    Args:
        rows: the messages (m, size).
        left: the place of each in the block (m,).
        receipts: times of receipt of the whole block (k,) [s].
        decode: as in :func:`decode_parts`.
    """
    parts: list[Part] = []
    while left.size:
        raw = rows[0].tobytes()
        message = decode(float(receipts[left[0]]), raw)
        layout = _layout(message, raw) if len(parts) < _LAYOUTS else None
        if layout is None:
            parts.append(Part(left[:1], JointBlock.of(message)))
            left, rows = left[1:], rows[1:]
            continue
        starts, fixed = layout
        other = ((rows ^ rows[0]) & fixed).any(1)
        index, same = left[~other], rows[~other] if other.any() else rows
        values = [
            _numbers(same, start, np.size(first), "<f8")
            for start, first in zip(starts, message[3:], strict=True)
        ]
        sec, nanosec = _numbers(same, _HEADER, 1, "<i4"), _numbers(same, _HEADER + 4, 1, "<u4")
        stamp = sec[:, 0] + 1e-9 * nanosec[:, 0]
        parts.append(Part(index, JointBlock(stamp, receipts[index], tuple(message.name), *values)))
        left, rows = left[other], rows[other]
    return parts


def _layout(message: JointMessage, raw: bytes) -> tuple[list[int], Bytes] | None:
    """Return where position, velocity and effort start in ``raw``, and which bytes are fixed.

    The mask of fixed bytes is 0xFF for each byte that all messages of this layout share. None when
    the message is not serialised in the usual way, little-endian CDR.
    """
    fixed = np.zeros(len(raw), np.uint8)
    end = _HEADER

    def skip(size: int, alignment: int, same: bool) -> int:
        nonlocal end
        start = end + (_HEADER - end) % alignment
        end = start + size
        fixed[start:end] = 0xFF if same else 0
        return start

    fixed[:_HEADER] = 0xFF
    skip(8, 4, same=False)
    frame = skip(4, 4, same=True)
    skip(int.from_bytes(raw[frame : frame + 4], "little"), 1, same=False)
    skip(4, 4, same=True)
    for name in message.name:
        skip(4, 4, same=True)
        skip(len(name.encode()) + 1, 1, same=True)
    starts = []
    for values in message[3:]:
        skip(4, 4, same=True)
        starts.append(skip(8 * np.size(values), 8, same=False) if np.size(values) else end)
    usual = raw[:2] == _LITTLE_ENDIAN and end <= len(raw) <= end + _TRAILING
    return (starts, fixed) if usual else None


def _numbers(rows: Bytes, start: int, count: int, kind: str) -> NDArray[np.float64]:
    """Return ``count`` numbers from byte ``start`` of each row, (k, count)."""
    size = np.dtype(kind).itemsize
    columns = np.ascontiguousarray(rows[:, start : start + size * count])
    return columns.view(kind).astype(float).reshape(len(rows), count)
