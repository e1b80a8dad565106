"""Statistics of a soak: samples without answer, gaps, events and true contacts, memory.

A sample is a joint state of the arm; its answer is the message that a node publishes for it. Stamps
and source timestamps are integers in nanoseconds of this machine's clock; all other times are in
seconds unless stated otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

GRACE = 0.2
"""Longest time from the end of a contact to its event, including the observer's delay [s]."""

PATIENCE = 5_000_000_000
"""Time after which a sample without answer counts as unanswered [ns]."""

MOST_EARLY = 10_000
"""Maximum number of stored answers whose samples have not been read yet."""

MOST_KEPT = 10_000
"""Maximum number of stored times of missing answers, and of stored increases of counts."""

ACCEPTED = "accepted"
"""Key on ``/diagnostics`` of the count of messages that a node has accepted."""

REPORTED_WITHIN = 2_500_000_000
"""Longest time from the increase of a count to its report; nodes report once a second [ns]."""

APART = 50_000_000
"""Time without force after which a true contact has ended [ns]."""


@dataclass(frozen=True)
class Window:
    """Interval in which a fault excuses missing answers or torques [ns]."""

    begin: int
    end: int

    def overlaps(self, begin: int, end: int) -> bool:
        """Return whether the interval overlaps with the time from ``begin`` to ``end`` [ns]."""
        return self.begin <= end and begin <= self.end


class Windows:
    """Intervals that faults excuse [ns]; the last interval may still be open."""

    def __init__(self) -> None:
        self._closed: list[Window] = []
        self._open: int | None = None

    def open(self, now: int) -> None:
        """Begin an excused interval at ``now`` [ns], unless one is open."""
        if self._open is None:
            self._open = now

    def close(self, now: int) -> None:
        """End the open excused interval at ``now`` [ns]; do nothing if none is open."""
        if self._open is not None:
            self._closed.append(Window(self._open, now))
            self._open = None

    def cover(self, begin: int, end: int) -> bool:
        """Return whether any part of the time from ``begin`` to ``end`` [ns] is excused."""
        if self._open is not None and end >= self._open:
            return True
        return any(window.overlaps(begin, end) for window in reversed(self._closed))


class Unanswered:
    """Counts samples without answer; its memory does not grow with the run.

    Args:
        windows: intervals in which a missing answer is excused.

    Attributes:
        sent: number of samples.
        missing: number of samples without answer outside of excused intervals.
        excused: number of samples without answer in excused intervals.
        times: times at which the first :data:`MOST_KEPT` missing samples were sent [ns].
    """

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._pending: dict[int, int] = {}
        self._early: dict[int, None] = {}
        self.sent = self.missing = self.excused = 0
        self.times: list[int] = []

    def sample(self, stamp: int, now: int) -> None:
        """Record that the sample with the stamp ``stamp`` was sent at ``now`` [ns]."""
        self.sent += 1
        # Queues are read one after the other, so an answer may be read before its sample.
        if stamp in self._early:
            del self._early[stamp]
        else:
            self._pending[stamp] = now

    def answer(self, stamp: int) -> None:
        """Record that the sample with the stamp ``stamp`` [ns] was answered."""
        if self._pending.pop(stamp, None) is None:
            self._early[stamp] = None
            while len(self._early) > MOST_EARLY:
                del self._early[next(iter(self._early))]

    def settle(self, now: int) -> None:
        """Count samples as unanswered that were sent more than :data:`PATIENCE` before ``now``."""
        for stamp, sent in list(self._pending.items()):
            if sent > now - PATIENCE:
                break  # the samples are in order of time
            del self._pending[stamp]
            if self._windows.cover(sent, sent):
                self.excused += 1
                continue
            self.missing += 1
            if len(self.times) < MOST_KEPT:
                self.times.append(sent)


class Told:
    """Counts that a node publishes on ``/diagnostics``, summed over its restarts.

    A restart resets the counts of the node. It is recognised by a count that has fallen: the node's
    count of accepted messages, or one of those to follow.

    Args:
        keys: keys of the counts to follow; all others are ignored.

    Attributes:
        reported: time of receipt of the last report [ns]; 0 before the first.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        self.reported = 0
        self._accepted = 0
        self._newest: dict[str, int] = {}
        self._before: Counter[str] = Counter()
        self._rises: list[tuple[int, str, int]] = []

    def report(self, now: int, values: Mapping[str, str]) -> None:
        """Update the counts with a report that was received at ``now`` [ns]."""
        accepted = int(values.get(ACCEPTED, self._accepted))
        is_restarted, self._accepted = accepted < self._accepted, accepted
        self.reported = now
        for key in self._keys:
            count, last = int(values.get(key, 0)), self._newest.get(key, 0)
            if is_restarted or count < last:
                self._before[key] += last
                last = 0
            if count > last:
                self._rises.append((now, key, count - last))
                del self._rises[:-MOST_KEPT]
            self._newest[key] = count

    def total(self, keys: Iterable[str]) -> int:
        """Return the sum of the counts with these keys."""
        return sum(self._before[key] + self._newest.get(key, 0) for key in keys)

    def near(self, times: Iterable[int]) -> dict[str, int]:
        """Return the increases of the counts shortly after some times, by key.

        Args:
            times: the times [ns]; an increase counts if it was reported less than
                :data:`REPORTED_WITHIN` after one of them.
        """
        marks = tuple(times)
        found: Counter[str] = Counter()
        for at, key, count in self._rises:
            if any(0 <= at - mark < REPORTED_WITHIN for mark in marks):
                found[key] += count
        return dict(found)


class Unheard:
    """Counts answers that a node published and that this process did not receive.

    A sample whose answer is lost on the way to this process was answered all the same.

    Attributes:
        count: number of missing sequence numbers of each publisher, summed.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last: dict[bytes, int] = {}

    def message(self, info: Mapping[str, Any]) -> int:
        """Record an answer; return the number of answers that were lost just before it.

        Args:
            info: information of the middleware on the message, perhaps with
                ``publication_sequence_number`` and ``publisher_gid``.
        """
        number = info.get("publication_sequence_number")
        if number is None:
            return 0
        publisher = bytes((info.get("publisher_gid") or {}).get("data", b""))
        last = self._last.get(publisher)
        lost = 0 if last is None else max(int(number) - last - 1, 0)
        self.count += lost
        self._last[publisher] = int(number)
        return lost


class Event(NamedTuple):
    """An event of the detector."""

    text: str
    """Torque, joint and link of the contact."""
    sent: int
    """Time at which the event was sent [ns]."""


class Gap(NamedTuple):
    """A gap between two received messages of a topic that is longer than allowed."""

    end: int
    """Time at which the message after the gap was sent [ns]."""
    length: float
    """Length of the gap [s]."""
    excused: bool
    """Whether a fault excuses it."""
    unheard: bool
    """Whether lost messages explain the gap: the sender may have had no gap at all.

    At the normal period, the messages that were sent and did not arrive here would fill at least
    half of the gap.
    """


class Gaps:
    """Finds the gaps between the messages of a topic.

    Args:
        windows: intervals in which a gap is excused.
        limit: length above which a gap is stored [s].
        period: normal period of the messages [s].

    Attributes:
        largest: length of the longest gap that is neither excused nor unheard [s].
        over: the gaps over the limit.
    """

    def __init__(self, windows: Windows, limit: float, period: float) -> None:
        self._windows, self._limit, self._period = windows, limit, period
        self._last: int | None = None
        self.largest = 0.0
        self.over: list[Gap] = []

    def message(self, sent: int, lost: int) -> None:
        """Record that a message was sent at the time ``sent`` [ns].

        Args:
            sent: the time [ns].
            lost: number of messages that the same publisher sent just before this one and that were
                not received.
        """
        last, self._last = self._last, sent
        if last is None:
            return
        length = 1e-9 * (sent - last)
        if length <= self.largest and length <= self._limit:
            return
        gap = Gap(
            sent, length, self._windows.cover(last, sent), lost * self._period >= 0.5 * length
        )
        if length > self._limit:
            self.over.append(gap)
        if not gap.excused and not gap.unheard:
            self.largest = max(self.largest, length)


class Played:
    """Counts the messages of a recording that the player omitted, and lost messages.

    A message lost by the middleware leaves a gap in stamps and sequence numbers. A message omitted
    by the player leaves a gap in the stamps only.

    Args:
        period: period of the recording [ns].

    Attributes:
        heard: number of received messages.
        left_out: number of messages that the player did not send.
        unheard: number of messages that the player sent and that were not received.
    """

    def __init__(self, period: int) -> None:
        self._period = period
        self._last: tuple[int, int] | None = None
        self.heard = self.left_out = self.unheard = 0

    def message(self, number: int, stamp: int) -> None:
        """Record that a message was received.

        Args:
            number: sequence number from the middleware of the publisher.
            stamp: stamp of the joint state [ns].
        """
        self.heard += 1
        if self._last is not None:
            unheard = max(number - self._last[0] - 1, 0)
            absent = round((stamp - self._last[1]) / self._period) - 1
            self.unheard += unheard
            self.left_out += max(absent - unheard, 0)
        self._last = number, stamp


class Contacts:
    """Converts the stamps at which the arm is in contact to intervals.

    A contact ends if no stamp follows within :data:`APART`.

    Args:
        period: time between two stamps of a contact [ns].

    Attributes:
        intervals: begin and end of each contact that has ended, by the stamps [ns].
        sent: time at which the first message of each contact was sent, by its begin [ns]; an arm
            that falls behind the clock has earlier stamps.
    """

    def __init__(self, period: int) -> None:
        self._period = period
        self.intervals: list[tuple[int, int]] = []
        self.sent: dict[int, int] = {}
        self._begin: int | None = None
        self._last = 0

    def force(self, stamp: int, sent: int, lost: int = 0) -> None:
        """Record that the arm is in contact.

        Args:
            stamp: time of the contact [ns].
            sent: time at which the message was sent [ns].
            lost: number of messages about a contact that were sent just before this one and did not
                arrive. The contact may have begun with the first of them.
        """
        if self._begin is None or stamp - self._last > APART:
            self.finish()
            self._begin = min(max(stamp - lost * self._period, self._last + 1), stamp)
            self.sent[self._begin] = sent
        self._last = stamp

    def finish(self) -> None:
        """End the open contact; do nothing without an open contact."""
        if self._begin is not None:
            self.intervals.append((self._begin, self._last))
            self._begin = None


def overlaps(interval: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    """Return whether an interval shares a time with one of the others, ends included."""
    return any(begin <= interval[1] and interval[0] <= end for begin, end in others)


@dataclass(frozen=True)
class Match:
    """Match of detected events with true contacts.

    Attributes:
        delays: time from the begin of each detected contact to its detection [s].
        missed: contacts without an event, (begin, end) [ns].
        false: times of detection of events without contact [ns].
    """

    delays: tuple[float, ...]
    missed: tuple[tuple[int, int], ...]
    false: tuple[int, ...]


def matched(
    contacts: Sequence[tuple[int, int]],
    detected: Sequence[int],
    others: Sequence[tuple[int, int]] = (),
) -> Match:
    """Match detected events with true contacts.

    An event belongs to a contact if it is detected between the begin of the contact and
    :data:`GRACE` after its end.

    Args:
        contacts: begin and end of each true contact [ns].
        detected: times of detection of the events [ns].
        others: begin and end of other external torques, such as those of the arm's own stops [ns].
            An event in them is not false, and they need no event.
    """
    grace = round(GRACE * 1e9)
    delays, missed = [], []
    explained = {at for begin, end in others for at in detected if begin <= at <= end + grace}
    for begin, end in contacts:
        own = [at for at in detected if begin <= at <= end + grace]
        explained.update(own)
        if own:
            delays.append(1e-9 * (min(own) - begin))
        else:
            missed.append((begin, end))
    return Match(tuple(delays), tuple(missed), tuple(at for at in detected if at not in explained))


@dataclass(frozen=True)
class Growth:
    """Growth of the memory of one node, summed over its processes.

    Attributes:
        megabytes: growth after the settling time [MB]; NaN without enough samples.
        slope: slope of a least-squares line [kB/min]; NaN without enough samples.
        observed: duration of the measurement [s].
    """

    megabytes: float
    slope: float
    observed: float


def growth(lives: Sequence[Sequence[tuple[float, int]]], settling: float) -> Growth:
    """Return the growth of the memory of a node.

    Args:
        lives: for each process of the node, the successive values of time [s] and resident memory
            [kB].
        settling: time after the first value of a process in which its memory does not count [s].
    """
    total, observed = 0.0, 0.0
    slopes: list[tuple[float, float]] = []
    for life in lives:
        settled = [(t, used) for t, used in life if t >= life[0][0] + settling]
        if len(settled) < 4:
            continue
        t, used = (np.array(column, dtype=float) for column in zip(*settled, strict=True))
        few = max(len(used) // 10, 1)
        total += float(np.median(used[-few:]) - np.median(used[:few])) / 1024.0
        span = float(t[-1] - t[0])
        observed += span
        slopes.append((float(np.polyfit(t, used, 1)[0]) * 60.0, span))
    if not slopes:
        return Growth(float("nan"), float("nan"), 0.0)
    return Growth(total, sum(s * w for s, w in slopes) / sum(w for _, w in slopes), observed)
