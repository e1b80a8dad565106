"""Serialised messages one after another in one array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Packed(NamedTuple):
    """Messages as recorded: ``times`` of receipt (k,) [ns], their bytes, and how many each has."""

    times: NDArray[np.int64]
    data: NDArray[np.uint8]
    sizes: NDArray[np.intp]

    @classmethod
    def of(cls, times: Sequence[int], raws: Sequence[bytes]) -> Packed:
        """Messages that come one by one."""
        return cls(
            np.array(times, dtype=np.int64),
            np.frombuffer(b"".join(raws), dtype=np.uint8),
            np.fromiter(map(len, raws), np.intp, len(raws)),
        )


def at_least(size: int, pieces: Iterable[Packed]) -> Iterator[Packed]:
    """The same messages, at least ``size`` at a time as long as there are so many."""
    waiting: list[Packed] = []
    for piece in pieces:
        waiting.append(piece)
        if sum(len(each.times) for each in waiting) >= size:
            yield joined(waiting)
            waiting = []
    if waiting:
        yield joined(waiting)


def joined(pieces: list[Packed]) -> Packed:
    """One after the other."""
    if len(pieces) == 1:
        return pieces[0]
    return Packed(*(np.concatenate(column) for column in zip(*pieces, strict=True)))
