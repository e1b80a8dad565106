"""The truth some recordings carry about contact, and how well the events found agree with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

MERGE_GAP = 0.05
"""Contacts less than this apart [s] are one: a stiff contact bounces."""

GRACE = 0.1
"""An event may be detected this long after its contact ended [s]: the residual is a low-pass."""

JUDGED = 0.05
"""A contact that begins this close to the end of the recording [s] may go unseen unpunished."""


class Event(Protocol):
    """What scoring needs of an event; times [s] on the clock of the contacts."""

    @property
    def onset(self) -> float: ...
    @property
    def detected(self) -> float: ...


def contact_intervals(
    flags: Iterable[tuple[float, bool]], gap: float = MERGE_GAP
) -> list[tuple[float, float | None]]:
    """``(start, end)`` [s] of each contact in a flag told on change; ``end`` None: still on.

    Contacts less than ``gap`` apart are joined.
    """
    intervals: list[tuple[float, float | None]] = []
    for time, on in flags:
        touching = bool(intervals) and intervals[-1][1] is None
        if on and not touching:
            last = intervals[-1] if intervals else None
            if last is not None and last[1] is not None and time - last[1] < gap:
                intervals[-1] = (last[0], None)
            else:
                intervals.append((time, None))
        elif touching and not on:
            intervals[-1] = (intervals[-1][0], time)
    return intervals


@dataclass(frozen=True)
class TrueContact:
    """One contact of the truth and the event that found it.

    ``start`` and ``end`` [s], ``end`` None when it lasts to the end of the recording; ``event``
    the index of the first event detected in it, None when it was missed; ``delay`` the time from
    ``start`` to the rise of the flag [s]; ``onset_error`` the estimated less the true start [s].
    """

    start: float
    end: float | None
    event: int | None
    delay: float | None
    onset_error: float | None


@dataclass(frozen=True)
class Score:
    """Events against the truth.

    ``misses`` counts contacts without an event, ``false_events`` the events outside every
    contact, ``repeated_events`` those after the first in the same contact.
    """

    contacts: tuple[TrueContact, ...]
    misses: int
    false_events: int
    repeated_events: int

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "contacts": [dict(vars(contact)) for contact in self.contacts],
            "misses": self.misses,
            "false_events": self.false_events,
            "repeated_events": self.repeated_events,
        }


def score(
    intervals: Sequence[tuple[float, float | None]], events: Sequence[Event], end: float
) -> Score:
    """Match events to true contacts; all times [s] on one clock that stops at ``end``.

    An event belongs to a contact when it was detected between its start and :data:`GRACE` after
    its end, and to the later one of two.
    """
    found: dict[int, list[int]] = {}
    outside = 0
    for k, event in enumerate(events):
        owners = [
            i
            for i, (start, stop) in enumerate(intervals)
            if start <= event.detected and (stop is None or event.detected <= stop + GRACE)
        ]
        if owners:
            found.setdefault(owners[-1], []).append(k)
        else:
            outside += 1
    contacts = []
    misses = 0
    for i, (start, stop) in enumerate(intervals):
        if i not in found:
            misses += int(end - start > JUDGED)
            contacts.append(TrueContact(start, stop, None, None, None))
            continue
        k = found[i][0]
        delay, error = events[k].detected - start, events[k].onset - start
        contacts.append(TrueContact(start, stop, k, delay, error))
    repeated = sum(len(indices) - 1 for indices in found.values())
    return Score(tuple(contacts), misses, outside, repeated)
