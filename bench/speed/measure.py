"""Timing in rounds: every round times all contestants in turn, under the same load of the machine.

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
"""Number of different states for calls from Python; each is a tuple of prepared arrays."""

Run = Callable[[int], float]
Key = TypeVar("Key")


@dataclass(frozen=True)
class Spread:
    """Median, lower and upper quartile over the rounds, in any unit."""

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
    """Return a run that calls a function from Python with different states in turn.

    Args:
        function: the function.
        before: first arguments of each call, such as the model.
        inputs: arrays with one state per row; a call gets the rows of one state. Only the first
            :data:`CALLED_STATES` states are used.
        after: last arguments of each call, such as arrays for the results.

    Returns:
        A function that calls ``function`` as often as its argument says, and returns the time [s].
    """
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
    """Time several runs in rounds, and return the time of one call of each run [s].

    Args:
        runs: functions that make as many calls as their argument says and return the time [s], such
            as from :func:`from_python`.
        rounds: number of rounds.
        duration: duration of one measurement [s], which determines its number of calls.

    Returns:
        For each run an array with one number per round, (rounds,).
    """
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
