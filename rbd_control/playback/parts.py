"""Messages of several layouts that are read at a time, and their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.joint_states import JointBlock


class Part(NamedTuple):
    """The messages of one layout among those that were read at a time.

    Attributes:
        place: position of each of them in the order of receipt, from 0 (k,).
        block: the messages.
    """

    place: NDArray[np.intp]
    block: JointBlock


def in_order(parts: Sequence[Part]) -> Iterator[JointBlock]:
    """Yield the messages of all parts as blocks, in the order in which they were received."""
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
