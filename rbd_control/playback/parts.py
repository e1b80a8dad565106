"""Division of a block of messages into parts of one layout each, and their original order.

Messages of one layout have the same names and array lengths, see
:mod:`rbd_control.joint_states.cdr`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.joint_states import JointBlock
from rbd_control.joint_states.cdr import Bytes, CdrScan, Decode, decode_and_learn

_LAYOUTS = 32
"""Number of parts of one message size from which every further message is a part alone.

A recorded topic has one to three layouts.
"""


class Part(NamedTuple):
    """The messages of one layout in a block of recorded messages.

    Attributes:
        place: index of each message in the order of receipt of the whole block, from 0 (k,).
        block: the messages, k of them.
    """

    place: NDArray[np.intp]
    block: JointBlock


def decode_parts(
    times: Sequence[int],
    raws: Sequence[bytes],
    decode: Decode,
    kind: type[CdrScan] = CdrScan,
) -> list[Part]:
    """Decode serialized joint states; return one part for each layout.

    Args:
        times: time of receipt of each message, at least one [ns].
        raws: the bytes of each message as recorded.
        decode: called for the first message of each layout, and for each message that has no usable
            layout (not little-endian CDR, for example); such a message is a part alone.
        kind: parser of the serialization.

    Raises:
        Exception: what ``decode`` raises for damaged bytes.
    """
    receipts = np.multiply(1e-9, np.array(times, dtype=np.int64), dtype=np.float64)
    sizes = np.fromiter(map(len, raws), np.intp, len(raws))
    data = np.frombuffer(b"".join(raws), dtype=np.uint8)
    if (sizes == sizes[0]).all():
        rows = data.reshape(len(sizes), -1)
        return _decode_rows(rows, np.arange(len(sizes)), receipts, decode, kind)
    parts: list[Part] = []
    starts_at = np.cumsum(sizes) - sizes
    for size in np.unique(sizes).tolist():
        left = np.flatnonzero(sizes == size)
        rows = data[starts_at[left, None] + np.arange(size)]
        parts += _decode_rows(rows, left, receipts, decode, kind)
    return parts


def _decode_rows(
    rows: Bytes,
    left: NDArray[np.intp],
    receipts: NDArray[np.float64],
    decode: Decode,
    kind: type[CdrScan],
) -> list[Part]:
    """Decode messages of one size, given as rows of bytes; return one part for each layout.

    Args:
        rows: the messages (m, size).
        left: index of each message in the block (m,).
        receipts: times of receipt of the whole block (k,) [s].
        decode, kind: as in :func:`decode_parts`.
    """
    parts: list[Part] = []
    while left.size:
        receipt = float(receipts[left[0]])
        message, layout = decode_and_learn(rows[0].tobytes(), receipt, decode, kind)
        if layout is None or len(parts) >= _LAYOUTS:
            parts.append(Part(left[:1], JointBlock.of(message)))
            left, rows = left[1:], rows[1:]
            continue
        if _is_one_layout(rows, layout.fixed):
            parts.append(Part(left, layout.block(rows, receipts[left])))
            break
        other = ((rows ^ rows[0]) & layout.fixed).any(1)
        parts.append(Part(left[~other], layout.block(rows[~other], receipts[left[~other]])))
        left, rows = left[other], rows[other]
    return parts


def _is_one_layout(rows: Bytes, fixed: Bytes) -> bool:
    """Return whether all rows of bytes (m, size) agree in the bytes that ``fixed`` (size,) marks.

    This creates no array of the size of ``rows``, unlike a comparison row by row.
    """
    changed = np.bitwise_or.reduce(rows) ^ np.bitwise_and.reduce(rows)
    return not (changed & fixed).any()


def in_order(parts: Sequence[Part]) -> Iterator[JointBlock]:
    """Yield the messages of a block that is divided into parts, in order of receipt.

    Args:
        parts: all parts of the block, as from :func:`decode_parts`; in order of receipt, messages
            of different parts may alternate.

    Yields:
        Blocks of successive messages of the same part.
    """
    if len(parts) < 2:
        yield from (part.block for part in parts)
        return
    place = np.concatenate([part.place for part in parts])
    owner = np.repeat(np.arange(len(parts)), [len(part.place) for part in parts])
    owner = owner[np.argsort(place)]
    taken = [0] * len(parts)
    for begin, end in pairwise(np.flatnonzero(np.diff(owner, prepend=-1, append=-1)).tolist()):
        k = int(owner[begin])
        yield parts[k].block.part(taken[k], taken[k] + end - begin)
        taken[k] += end - begin
