"""Serialised messages of one topic, concatenated in one array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_MESSAGE = 1 << 18
"""Maximum size of a message [bytes]; a joint state of a thousand joints takes a fifth of it."""

_MOST = 1 << 22
"""Approximate maximum size of the pieces in which messages are passed on [bytes]."""


class Packed(NamedTuple):
    """Serialised messages as recorded, one after another.

    Attributes:
        times: time of receipt of each message, (k,) [ns].
        data: the bytes of all messages.
        sizes: size of each message, (k,) [bytes].
    """

    times: NDArray[np.int64]
    data: NDArray[np.uint8]
    sizes: NDArray[np.intp]

    @classmethod
    def of(cls, times: Sequence[int], raws: Sequence[bytes | memoryview]) -> Packed:
        """Pack messages.

        Args:
            times: time of receipt of each message [ns].
            raws: the bytes of each message.
        """
        return cls(
            np.array(times, dtype=np.int64),
            np.frombuffer(b"".join(raws), dtype=np.uint8),
            np.fromiter(map(len, raws), np.intp, len(raws)),
        )

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """Yield the time of receipt [ns] and the bytes of each message."""
        ends = np.cumsum(self.sizes).tolist()
        begins = [0, *ends]
        for time, begin, end in zip(self.times.tolist(), begins, ends, strict=False):
            yield time, self.data[begin:end].tobytes()

    def pieces(self) -> Iterator[Packed]:
        """Yield the same messages in pieces of at most 4 MiB; a larger message is a piece alone."""
        if self.data.size <= _MOST:
            yield self
            return
        ends = np.cumsum(self.sizes)
        first = 0
        while first < len(ends):
            start = int(ends[first] - self.sizes[first])
            last = max(int(np.searchsorted(ends, start + _MOST, side="right")), first + 1)
            yield Packed(
                self.times[first:last], self.data[start : ends[last - 1]], self.sizes[first:last]
            )
            first = last


def blocks(size: int, pieces: Iterable[Packed]) -> Iterator[Packed]:
    """Yield the same messages in blocks of at least ``size`` messages.

    The last block, and a block of 4 MiB or more, may have fewer messages.

    Raises:
        ValueError: if a message is empty or longer than :data:`MAX_MESSAGE`.
    """
    waiting: list[Packed] = []
    for whole in pieces:
        if not whole.sizes.all():
            raise ValueError("a message is empty")
        longest = int(whole.sizes.max(initial=0))
        if longest > MAX_MESSAGE:
            raise ValueError(f"a message has {longest} bytes; at most {MAX_MESSAGE} are read")
        for piece in whole.pieces():
            waiting.append(piece)
            count = sum(len(each.times) for each in waiting)
            if count >= size or sum(each.data.size for each in waiting) >= _MOST:
                yield joined(waiting)
                waiting = []
    if waiting:
        yield joined(waiting)


def joined(pieces: list[Packed]) -> Packed:
    """Return the concatenated messages of all pieces."""
    if len(pieces) == 1:
        return pieces[0]
    return Packed(*(np.concatenate(column) for column in zip(*pieces, strict=True)))
