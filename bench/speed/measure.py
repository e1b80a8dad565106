"""Times taken side by side: all contestants in turn, over and over, so that all see the same noise.

A machine's clock drifts and its other users come and go, so absolute times are worth little and
ratios within one round a lot. Of the rounds the median counts; the quartiles say how far to trust
it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

ROUNDS = 15
DURATION = 1.5e-3
"""Of one measurement [s]: long beside its overhead, short beside the noise that comes and goes."""

CALLED_STATES = 64
"""States that calls from Python go through; each is a tuple of arrays made beforehand."""

Run = Callable[[int], float]
Key = TypeVar("Key")


@dataclass(frozen=True)
class Spread:
    """Median and quartiles over the rounds."""

    median: float
    low: float
    high: float


def spread(values: np.ndarray) -> Spread:
    """Return the median and quartiles of ``values``."""
    low, median, high = np.percentile(values, [25.0, 50.0, 75.0]).tolist()
    return Spread(median, low, high)


def from_python(
    function: Callable[..., Any],
    before: tuple[Any, ...],
    inputs: Sequence[Sequence[Any] | np.ndarray],
    after: tuple[Any, ...] = (),
) -> Run:
    """Return a run that calls ``function`` from Python with each row of ``inputs`` in turn."""
    states = zip(*(array[:CALLED_STATES] for array in inputs), strict=True)
    arguments = [(*before, *state, *after) for state in states]

    def run(calls: int) -> float:
        chosen = list(islice(cycle(arguments), calls))
        start = perf_counter()
        for these in chosen:
            function(*these)
        return perf_counter() - start

    return run


def measure(
    runs: Mapping[Key, Run], rounds: int = ROUNDS, duration: float = DURATION
) -> dict[Key, np.ndarray]:
    """Return the seconds of one call for each of ``runs``, one number a round."""
    calls = {key: _calls(run, duration) for key, run in runs.items()}
    keys = list(runs)
    seconds = {key: np.empty(rounds) for key in keys}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for i in range(rounds):
            first = i % len(keys)
            for key in keys[first:] + keys[:first]:
                seconds[key][i] = runs[key](calls[key]) / calls[key]
    finally:
        if collecting:
            gc.enable()
    return seconds


def _calls(run: Run, duration: float) -> int:
    """Return the number of calls that fill ``duration``."""
    calls = 1
    while (taken := run(calls)) < duration / 4.0:
        calls *= 4
    return max(1, round(calls * duration / taken))
