"""The arithmetic of the loop: from stamps and times of receipt to latency, losses and growth.

All times are whole nanoseconds of this machine's clock, as stamps are; latencies are in ms.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

Answer = tuple[int, int]
"""The stamp of a joint state, and when what it led to was received [ns]."""


class Command(NamedTuple):
    """A torque as it came: when [ns], and its bytes. It carries no stamp."""

    received: int
    torque: bytes


class TrackingError(NamedTuple):
    """What the controller says of a sample: its stamp [ns], and the bytes of the torque sent."""

    stamp: int
    torque: bytes


@dataclass(frozen=True)
class Latency:
    """How long answers took [ms]."""

    count: int
    median: float
    p99: float
    p999: float
    worst: float


@dataclass(frozen=True)
class Answers:
    """What became of the joint states sent in the time that counts.

    ``sent`` joint states, of which ``unanswered`` got no answer; ``late`` answers took longer than
    a period.
    """

    sent: int
    unanswered: int
    late: int
    latency: Latency
    milliseconds: Sequence[float] = ()
    """Every latency, in the order of the joint states."""


def latency(milliseconds: Sequence[float]) -> Latency:
    """Return percentiles of some latencies; NaN when there are none."""
    values = np.asarray(milliseconds, dtype=float)
    if not values.size:
        return Latency(0, *[float("nan")] * 4)
    median, p99, p999 = np.percentile(values, (50.0, 99.0, 99.9))
    return Latency(values.size, float(median), float(p99), float(p999), float(values.max()))


def answers(sent: Sequence[int], answered: Iterable[Answer], period: float) -> Answers:
    """Match answers with the joint states ``sent`` (stamps); ``period`` [s] makes one late.

    Answers to other joint states do not count, and of two to the same the first does.
    """
    first: dict[int, int] = {}
    for stamp, received in answered:
        first.setdefault(stamp, received)
    took = [(first[stamp] - stamp) / 1e6 for stamp in sent if stamp in first]
    late = sum(x > 1e3 * period for x in took)
    return Answers(len(sent), len(sent) - len(took), late, latency(took), took)


def stamped(commands: Iterable[Command], errors: Iterable[TrackingError]) -> list[Answer]:
    """Return commands with the stamps of their joint states, matched by the torque in both topics.

    Equal torques are paired in order; a command that no tracking error tells of is left out.
    """
    told: defaultdict[bytes, deque[int]] = defaultdict(deque)
    for error in errors:
        told[error.torque].append(error.stamp)
    return [(told[c.torque].popleft(), c.received) for c in commands if told[c.torque]]


def raised(flags: Iterable[tuple[int, bool]], detected: Sequence[int]) -> list[Answer]:
    """Return the times at which the flag rose; ``detected`` are the stamps of these samples.

    ``flags`` are (received, flag), repeated ones included; a flag that rose without its event, or
    an event whose flag was not heard, is left out.
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
    """Return the growth of memory in the second half of the time [kB/min], by least squares."""
    t, y = np.asarray(seconds, dtype=float), np.asarray(kilobytes, dtype=float)
    half = t >= 0.5 * (t[0] + t[-1])
    if half.sum() < 2:
        return float("nan")
    return float(np.polyfit(t[half], y[half], 1)[0]) * 60.0
