"""Timing in rounds: every round times all contestants in turn, so that they see the same noise.

The clock rate and the load of a machine change, so ratios within one round are more reliable than
absolute times. The result is the median over the rounds; the quartiles show its uncertainty.
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
"""Duration of one measurement [s]: long compared with its overhead, short compared with noise."""

CALLED_STATES = 64
"""Number of states for calls from Python; each is a tuple of prepared arrays."""

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
    """Return the time of one call [s] of each of ``runs``, one number per round."""
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
    """Return the number of calls that take ``duration``."""
    calls = 1
    while (taken := run(calls)) < duration / 4.0:
        calls *= 4
    return max(1, round(calls * duration / taken))
