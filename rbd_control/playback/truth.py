"""The truth about contact, and how well the events found agree with it.

What counts as found, missed or false is said in docs/replay.md, section Scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MERGE_GAP = 0.05
"""Contacts less than this apart [s] are one: a stiff contact bounces."""

GRACE = 0.1
"""An event may be detected this long after its contact ended [s]: the residual is a low-pass."""

JUDGED = 0.05
"""A contact that begins this close to the end of the recording [s] may go unseen unpunished."""


class Label(NamedTuple):
    """One contact of the truth.

    ``start`` and ``end`` [s], ``end`` None when it lasts to the end of the recording; ``link`` the
    touched one, empty when it is not known; ``force`` [N] what was exerted on it: its magnitude
    (1,), or x, y, z in world axes (3,); None when it is not known.
    """

    start: float
    end: float | None
    link: str = ""
    force: Array | None = None


class Event(Protocol):
    """What scoring needs of an event; times [s] on the clock of the contacts."""

    @property
    def onset(self) -> float: ...
    @property
    def detected(self) -> float: ...
    @property
    def release(self) -> float | None: ...
    @property
    def link(self) -> str: ...
    @property
    def candidates(self) -> tuple[str, ...]: ...
    @property
    def force(self) -> Array | None: ...


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
    the index of the event that found it, None when it was missed. ``delay`` is the time from
    ``start`` to the rise of the flag [s], ``onset_error`` the estimated less the true start [s];
    None when it was missed or began while the flag was still up for the contact before.
    ``link_named`` and ``link_among_named`` say whether the event named the true link, alone or
    with others, and ``force_error`` [N] is how far its force is off; None when the truth or the
    event does not tell.
    """

    start: float
    end: float | None
    event: int | None
    delay: float | None = None
    onset_error: float | None = None
    link_named: bool | None = None
    link_among_named: bool | None = None
    force_error: float | None = None


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
    contacts: Sequence[tuple[float, float | None] | Label], events: Sequence[Event], end: float
) -> Score:
    """Match events to true contacts; all times [s] on one clock that stops at ``end``.

    An event belongs to a contact when it was detected between its start and :data:`GRACE` after
    its end, and to the later one of two. A contact without an event of its own is found all the
    same by an event of another contact that lasts beyond its start.
    """
    labels = [Label(*contact) for contact in contacts]
    own: dict[int, list[int]] = {}
    for k, event in enumerate(events):
        owners = [
            i
            for i, label in enumerate(labels)
            if label.start <= event.detected
            and (label.end is None or event.detected <= label.end + GRACE)
        ]
        if owners:
            own.setdefault(owners[-1], []).append(k)
    belonging = sorted(k for indices in own.values() for k in indices)
    matched = []
    misses = 0
    for i, label in enumerate(labels):
        if i in own:
            matched.append(_compare(label, own[i][0], events[own[i][0]]))
            continue
        lasting = [k for k in belonging if _lasts_beyond(events[k], label.start)]
        if not lasting:
            misses += int(end - label.start > JUDGED)
        matched.append(TrueContact(label.start, label.end, lasting[-1] if lasting else None))
    repeated = len(belonging) - len(own)
    return Score(tuple(matched), misses, len(events) - len(belonging), repeated)


def _lasts_beyond(event: Event, time: float) -> bool:
    return event.detected <= time and (event.release is None or event.release > time)


def _compare(label: Label, k: int, event: Event) -> TrueContact:
    """A contact beside its own event, the k-th."""
    named = among = error = None
    if label.link:
        named = event.link == label.link
        among = named or label.link in event.candidates
    if label.force is not None and event.force is not None:
        force = np.asarray(event.force)
        found = force if len(label.force) == 3 else np.linalg.norm(force)
        error = float(np.linalg.norm(found - label.force))
    return TrueContact(
        start=label.start,
        end=label.end,
        event=k,
        delay=event.detected - label.start,
        onset_error=event.onset - label.start,
        link_named=named,
        link_among_named=among,
        force_error=error,
    )
