"""Latency, losses and memory growth of the loop, from stamps and times of receipt.

Times are integers in nanoseconds of this machine's clock, like stamps; latencies are in ms.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

Answer = tuple[int, int]
"""Stamp of a joint state, and time of receipt of a message that a node sends for it [ns]."""


class Command(NamedTuple):
    """Time of receipt [ns] and bytes of a torque command, which has no stamp."""

    received: int
    torque: bytes


class TrackingError(NamedTuple):
    """Stamp [ns] and torque bytes of a message on ``~/tracking_error``.

    The controller publishes it for each joint state, with the commanded torque as effort.
    """

    stamp: int
    torque: bytes


@dataclass(frozen=True)
class Latency:
    """Number of answers, and percentiles of their latency [ms]; NaN without answers."""

    count: int
    median: float
    p99: float
    p999: float
    worst: float


@dataclass(frozen=True)
class Answers:
    """Answers to the joint states that were sent in the evaluated time.

    Of ``sent`` joint states ``unanswered`` had no answer; ``late`` answers took longer than a
    period.
    """

    sent: int
    unanswered: int
    late: int
    latency: Latency
    milliseconds: Sequence[float] = ()
    """Latency of every answer, in the order of the joint states."""


def latency(milliseconds: Sequence[float]) -> Latency:
    """Return the percentiles of latencies [ms]; NaN without latencies."""
    values = np.asarray(milliseconds, dtype=float)
    if not values.size:
        return Latency(0, *[float("nan")] * 4)
    median, p99, p999 = np.percentile(values, (50.0, 99.0, 99.9))
    return Latency(values.size, float(median), float(p99), float(p999), float(values.max()))


def answers(sent: Sequence[int], answered: Iterable[Answer], period: float) -> Answers:
    """Match answers with joint states, and return their latencies and losses.

    Answers to other joint states are ignored. If a joint state has two answers, the first counts.

    Args:
        sent: stamps of the joint states [ns].
        answered: the answers, in the order of receipt.
        period: latency above which an answer is late [s].
    """
    first: dict[int, int] = {}
    for stamp, received in answered:
        first.setdefault(stamp, received)
    took = [(first[stamp] - stamp) / 1e6 for stamp in sent if stamp in first]
    late = sum(x > 1e3 * period for x in took)
    return Answers(len(sent), len(sent) - len(took), late, latency(took), took)


def stamped(commands: Iterable[Command], errors: Iterable[TrackingError]) -> list[Answer]:
    """Return the commands as answers, with the stamps of their joint states.

    A command has no stamp. It is matched with the tracking error that contains the same torque;
    equal torques are paired in order. Commands without a tracking error are ignored.
    """
    told: defaultdict[bytes, deque[int]] = defaultdict(deque)
    for error in errors:
        told[error.torque].append(error.stamp)
    return [(told[c.torque].popleft(), c.received) for c in commands if told[c.torque]]


def raised(flags: Iterable[tuple[int, bool]], detected: Sequence[int]) -> list[Answer]:
    """Return the rises of the contact flag as answers to the joint states that caused them.

    A rise without an event and an event without a received flag are ignored.

    Args:
        flags: time of receipt [ns] and value of all messages of the flag, repetitions included.
        detected: stamps of the joint states at which events were detected, increasing [ns].
    """
    rises = []
    before = False
    for received, flag in flags:
        if flag and not before:
            rises.append(received)
        before = flag
    pairs = []
    for stamp, following in zip_longest(detected, detected[1:]):
        for received in rises:
            if received >= stamp and (following is None or received < following):
                pairs.append((stamp, received))
                break
    return pairs


def growth(seconds: Sequence[float], kilobytes: Sequence[float]) -> float:
    """Return the growth of memory in the second half of a run [kB/min], by least squares.

    It is NaN with fewer than two values in the second half.

    Args:
        seconds: times of the values [s], at least one.
        kilobytes: memory at these times [kB].
    """
    t, y = np.asarray(seconds, dtype=float), np.asarray(kilobytes, dtype=float)
    half = t >= 0.5 * (t[0] + t[-1])
    if half.sum() < 2:
        return float("nan")
    return float(np.polyfit(t[half], y[half], 1)[0]) * 60.0
