"""Many states at once: kernels over the leading axes, on all cores when it pays."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

STATES_PER_THREAD = 2048
"""Below this a thread costs more than it saves."""


def over_states(kernel: Any, shared: tuple[Any, ...], *batched: np.ndarray) -> None:
    """Call ``kernel(*shared, *batched)``, where ``batched`` arrays have one row for each state.

    Compiled kernels let go of Python's lock, so threads work on parts of a large batch side by
    side. The result does not depend on how it is split: states know nothing of each other.
    """
    count = batched[0].shape[0]
    if count < 2 * STATES_PER_THREAD:  # first of all, as single states are in a hurry
        kernel(*shared, *batched)
        return
    threads = min(os.cpu_count() or 1, count // STATES_PER_THREAD)
    if threads < 2:
        kernel(*shared, *batched)
        return
    edges = np.linspace(0, count, threads + 1).astype(int)
    parts = [
        [array[start:stop] for array in batched]
        for start, stop in zip(edges[:-1], edges[1:], strict=True)
    ]
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(lambda part: kernel(*shared, *part), parts):
            pass
