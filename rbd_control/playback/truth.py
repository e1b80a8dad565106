"""True contacts of a recording, and the match of detected events with them.

docs/replay.md, section Scores, defines what counts as found, missed or false.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MERGE_GAP = 0.05
"""Time between two contacts below which they count as one [s]; a stiff contact bounces."""

GRACE = 0.1
"""Longest time after the end of a contact at which its event may be detected [s].

The residual is low-pass filtered, so its detection may come after the end."""

JUDGED = 0.05
"""Time before the end of the recording [s]; a contact that begins later never counts as missed."""


class Label(NamedTuple):
    """One true contact, as a recording or a file of labels states it.

    Attributes:
        start: beginning of the contact [s].
        end: end of the contact [s]; None if it lasts to the end of the recording.
        link: the link that was touched; empty if it is unknown.
        force: force on the link [N], its magnitude (1,) or x, y, z in world axes (3,); None if it
            is unknown.
    """

    start: float
    end: float | None
    link: str = ""
    force: Array | None = None


class Event(Protocol):
    """Interface of a detected contact for :func:`score`.

    Times are on the clock of the true contacts.
    """

    @property
    def onset(self) -> float:
        """Estimated start of the contact [s]."""

    @property
    def detected(self) -> float:
        """Time at which the contact was reported [s]."""

    @property
    def release(self) -> float | None:
        """End of the contact [s]; None while it lasts."""

    @property
    def link(self) -> str:
        """Link that the event names as most probable; empty without a link."""

    @property
    def candidates(self) -> tuple[str, ...]:
        """Links that may have been touched according to the event."""

    @property
    def force(self) -> Array | None:
        """Estimated force on ``link``, (3,) world axes [N]; None if it is unknown."""


def contact_intervals(
    flags: Iterable[tuple[float, bool]], gap: float = MERGE_GAP
) -> list[tuple[float, float | None]]:
    """Return ``(start, end)`` [s] of each contact in a series of contact flags.

    ``end`` is None if the last flag is true.

    Args:
        flags: time [s] and value of the flag (true in contact), in order of time, at least one for
            each change.
        gap: contacts less than this time apart are joined [s].
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
    """One true contact and the event that found it.

    Attributes:
        start: beginning of the contact [s].
        end: end of the contact [s]; None if it lasts to the end of the recording.
        event: index of the event that found the contact, from 0; None if no event found it.
        delay: time from ``start`` to the detection, the rise of the flag [s]; None if no event
            found the contact, or if it began while the event of a previous contact lasted.
        onset_error: estimated minus true beginning [s]; None where ``delay`` is None.
        link_named: whether the true link is the most probable link of the event; None if the true
            link is unknown or ``delay`` is None.
        link_among_named: whether the true link is among the candidates of the event; None where
            ``link_named`` is None.
        force_error: distance of the event's force from the true force, as a vector, or in magnitude
            if only the true magnitude is known [N]; None if one of the forces is unknown or
            ``delay`` is None.
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
    """The match of the events of a recording with the true contacts, from :func:`score`.

    Attributes:
        contacts: the true contacts, each with the event that found it.
        misses: number of contacts without an event that begin more than :data:`JUDGED` before the
            end of the recording.
        false_events: number of events that belong to no contact.
        repeated_events: number of events after the first in the same contact.
    """

    contacts: tuple[TrueContact, ...]
    misses: int
    false_events: int
    repeated_events: int

    def to_json(self) -> dict[str, Any]:
        """Return the score as plain values for ``json``."""
        return {
            "contacts": [dict(vars(contact)) for contact in self.contacts],
            "misses": self.misses,
            "false_events": self.false_events,
            "repeated_events": self.repeated_events,
        }


def score(
    contacts: Sequence[tuple[float, float | None] | Label], events: Sequence[Event], end: float
) -> Score:
    """Match events to true contacts.

    An event belongs to a contact if it was detected between the contact's start and :data:`GRACE`
    after the contact's end; if this holds for several contacts, it belongs to the latest. The first
    event of a contact finds it. A contact without an event of its own also counts as found if an
    event of another contact lasts beyond its start; otherwise it is missed, unless it begins in the
    last :data:`JUDGED` of the recording.

    Args:
        contacts: the true contacts, in order of time; a pair is start and end [s].
        events: the events, in order of detection.
        end: end of the recording, on the clock of both [s].
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
    """Return a contact with the event that found it, which has index ``k``."""
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
