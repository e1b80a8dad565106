"""True contacts of recordings, the match of detected events with them, and its statistics.

docs/replay.md, section Scores, defines what counts as found, missed or false.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rbd_control.errors import RecordingError
from rbd_control.playback.table import read_rows
from rbd_control.results import Result, plain, value
from rbd_control.wording import listed, quoted

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
        event: index of the event that found or masked the contact, from 0; None if there is none.
        delay: time from ``start`` to the detection, the rise of the flag [s]; None if no event
            found the contact.
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
    masked: bool = False
    """Whether the flag was raised when the contact began and did not rise again during it, so that
    nothing shows whether the detector would have found it."""


@dataclass(frozen=True)
class Score:
    """The match of the events of a recording with the true contacts, from :func:`score`.

    Attributes:
        contacts: the true contacts, each with the event that found it.
        misses: number of contacts that are neither found nor masked, and begin more than
            :data:`JUDGED` before the end of the recording.
        false_events: number of events that belong to no contact.
        repeated_events: number of events after the first in the same contact.
        raised_time: time for which the flag was raised outside the contacts, each of which counts
            until :data:`GRACE` after its end [s].
    """

    contacts: tuple[TrueContact, ...]
    misses: int
    false_events: int
    repeated_events: int
    raised_time: float = 0.0


def score(
    contacts: Sequence[tuple[float, float | None] | Label], events: Sequence[Event], end: float
) -> Score:
    """Match events to true contacts.

    An event belongs to a contact if it was detected between the contact's start and :data:`GRACE`
    after the contact's end; if this holds for several contacts, it belongs to the latest. The first
    event of a contact finds it. A contact without an event of its own is masked if the flag was
    raised when it began, by a false event or one of another contact; otherwise it is missed, unless
    it begins in the last :data:`JUDGED` of the recording.

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
        lasting = [k for k, event in enumerate(events) if _lasts_beyond(event, label.start)]
        if not lasting:
            misses += int(end - label.start > JUDGED)
        masked_by = lasting[-1] if lasting else None
        matched.append(TrueContact(label.start, label.end, masked_by, masked=bool(lasting)))
    repeated = len(belonging) - len(own)
    false_events = len(events) - len(belonging)
    return Score(tuple(matched), misses, false_events, repeated, _raised(labels, events, end))


def _raised(labels: Sequence[Label], events: Sequence[Event], end: float) -> float:
    """Return the time for which the flag was raised outside the contacts [s]."""
    raised, last = 0.0, 0.0
    touched = [(each.start, inf if each.end is None else each.end + GRACE) for each in labels]
    for event in events:
        begin = max(event.detected, last)
        last = max(end if event.release is None else event.release, begin)
        for start, over in (*touched, (last, inf)):
            if over > begin:
                raised += max(min(start, last) - begin, 0.0)
                begin = max(begin, over)
    return raised


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


CONFIDENCE = 0.95
"""Confidence level of the interval for a rate of false alarms."""


@dataclass(frozen=True)
class Summary(Result):
    """Statistics of the scores of one or several recordings; NaN where there are no data.

    The terms are those of :class:`TrueContact`. Fields with a heading are columns of the tables of
    a fleet.
    """

    contacts: int = value("number of true contacts", heading="contacts")
    found: int = value(
        "number of true contacts in which the flag rose; those that are neither found nor masked "
        "nor missed begin too late in their recording",
        heading="found",
    )
    masked: int = value("number of true contacts that are masked", heading="masked")
    misses: int = value("number of true contacts that were not found", heading="missed")
    repeated_events: int = value(
        "number of events after the first in the same contact", heading="repeated"
    )
    delay_median: float = value(
        "delay after which half of the contacts that are found or missed were found [s]; infinite "
        "if fewer were found",
        heading="delay: median [s]",
    )
    delay_p95: float = value(
        "delay after which 95 % of the contacts that are found or missed were found [s]",
        heading="95 % [s]",
    )
    onset_error_median: float = value("median magnitude of the onset error [s]")
    links: int = value("number of contacts with a known true link and an event that found them")
    link_named: float = value(
        "share of these contacts whose event has the true link as the most probable"
    )
    link_among_named: float = value(
        "share of these contacts whose event has the true link among its candidates"
    )
    forces: int = value("number of contacts with a known true force and an estimate")
    force_error_median: float = value("median force error of these contacts [N]")
    false_alarms: int = value(
        "number of events that belong to no true contact", heading="false alarms"
    )
    raised_time: float = value(
        "time for which the flag was raised outside the true contacts [s]",
        heading="flag raised outside [s]",
    )
    free_time: float = value("time with a valid verdict and without true contact [s]")

    @property
    def false_alarms_per_hour(self) -> float:
        """Rate ``false_alarms / free_time`` of false alarms [1/h]; NaN if ``free_time`` is zero."""
        return self.false_alarms * 3600.0 / self.free_time if self.free_time > 0.0 else nan

    @property
    def false_alarms_interval(self) -> tuple[float, float]:
        """Lower and upper end of the confidence interval for the true rate of false alarms [1/h].

        Its level is :data:`CONFIDENCE`. The interval is exact for independent false alarms (Poisson
        distribution; Garwood 1936). It is 0 to infinity if ``free_time`` is zero.
        """
        from scipy.special import gammaincinv

        if not self.free_time > 0.0:
            return 0.0, inf
        tail = (1.0 - CONFIDENCE) / 2.0
        fewest = gammaincinv(self.false_alarms, tail) if self.false_alarms else 0.0
        most = gammaincinv(self.false_alarms + 1, 1.0 - tail)
        return float(fewest) * 3600.0 / self.free_time, float(most) * 3600.0 / self.free_time

    def to_json(self) -> dict[str, Any]:
        """Return the scores as plain values for ``json``; NaN and infinite values are None."""
        low, high = self.false_alarms_interval
        values = {
            **vars(self),
            "false_alarms_per_hour": self.false_alarms_per_hour,
            "false_alarms_per_hour_low": low,
            "false_alarms_per_hour_high": high,
        }
        content: dict[str, Any] = plain(values)
        return content


def summarise(scores: Sequence[Score], free_time: float) -> Summary:
    """Return statistics over the scores of one or several recordings.

    Args:
        scores: the score of each recording.
        free_time: time with a valid verdict and without true contact, all recordings together [s].
    """
    contacts = [contact for each in scores for contact in each.contacts]
    misses = sum(each.misses for each in scores)
    delays = np.append(_known(contacts, "delay"), [inf] * misses)
    named = _known(contacts, "link_named")
    forces = _known(contacts, "force_error")
    return Summary(
        contacts=len(contacts),
        found=len(delays) - misses,
        masked=sum(contact.masked for contact in contacts),
        misses=misses,
        repeated_events=sum(each.repeated_events for each in scores),
        delay_median=_within(0.5, delays),
        delay_p95=_within(0.95, delays),
        onset_error_median=_of(np.median, np.abs(_known(contacts, "onset_error"))),
        links=len(named),
        link_named=_of(np.mean, named),
        link_among_named=_of(np.mean, _known(contacts, "link_among_named")),
        forces=len(forces),
        force_error_median=_of(np.median, forces),
        false_alarms=sum(each.false_events for each in scores),
        raised_time=sum(each.raised_time for each in scores),
        free_time=free_time,
    )


def _known(contacts: Iterable[TrueContact], what: str) -> np.ndarray:
    values = (getattr(contact, what) for contact in contacts)
    return np.array([value for value in values if value is not None], dtype=float)


def _within(part: float, delays: np.ndarray) -> float:
    """Return the delay within which the share ``part`` of the contacts was found."""
    return _of(lambda values: np.quantile(values, part, method="inverted_cdf"), delays)


def _of(statistic: Any, values: np.ndarray) -> float:
    return float(statistic(values)) if values.size else nan


COLUMNS = ("recording", "begin", "end", "link", "force")
"""The columns of a file of labels, in any order; only ``begin`` and ``end`` are required."""

MAX_LABELS = 10_000
"""Maximum number of labels in one file."""


def read_labels(path: str | Path, recordings: Sequence[Path]) -> list[list[Label]]:
    """Return the labelled contacts of each recording, in order of time.

    Args:
        path: a CSV file of :data:`COLUMNS`; docs/replay.md describes it. Times [s], in the file and
            in the result, count from the first sample of the recording.
        recordings: the recordings that are replayed; a label names a recording by its path, by
            the name of its file, or by this name without suffix; with a single recording the name
            may be left out. A recording that the file does not mention has no contact.

    Raises:
        RecordingError: naming the file, if it cannot be read, has other columns or more than
            :data:`MAX_LABELS` labels; naming also the line, for an invalid label, or a label whose
            name fits no or several recordings.
    """
    names = _names(recordings)
    paths = [str(recording) for recording in recordings]
    labels: list[list[Label]] = [[] for _ in recordings]

    def add(cells: dict[str, str]) -> None:
        labels[_recording(cells.get("recording", ""), names, paths)].append(_label(cells))

    read_rows(Path(path), COLUMNS, ("begin", "end"), add, MAX_LABELS)
    for each in labels:
        each.sort(key=lambda label: label.start)
    return labels


def has_labels(path: Path) -> bool:
    """Return whether the first line of a CSV file has the columns of labels."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            found = {name.strip() for name in file.readline(200).split(",")}
    except OSError:
        return False
    return {"begin", "end"} <= found <= set(COLUMNS)


def _names(recordings: Sequence[Path]) -> dict[str, list[int]]:
    """Return the indices of the recordings that each name stands for.

    A path takes precedence over equal names of other files.
    """
    paths: dict[str, list[int]] = {}
    names: dict[str, list[int]] = {}
    for k, recording in enumerate(recordings):
        paths.setdefault(str(recording), []).append(k)
        for name in dict.fromkeys((recording.name, recording.stem)):
            names.setdefault(name, []).append(k)
    return {**paths, **names, **paths}


def _recording(name: str, names: dict[str, list[int]], paths: Sequence[str]) -> int:
    """Return the index of the recording that a label names."""
    if len(names.get(name, ())) > 1:
        if len({paths[k] for k in names[name]}) == 1:
            raise RecordingError(f"{quoted(name)} is given twice; give each recording once")
        several = listed(paths[k] for k in names[name])
        raise RecordingError(
            f"{quoted(name)} fits several recordings ({several}); name one by its path"
        )
    if name in names:
        return names[name][0]
    if name:
        raise RecordingError(f"{quoted(name)} is none of the recordings {listed(names)}")
    if len(paths) != 1:
        raise RecordingError("it does not name its recording")
    return 0


def _label(cells: dict[str, str]) -> Label:
    begin = _number("begin", cells["begin"])
    end = _number("end", cells["end"]) if cells["end"] else None
    force = [_number("force", part) for part in cells.get("force", "").split()[:4]]
    if begin < 0.0:
        raise RecordingError(f"begin is {begin:g} s; it must not be negative")
    if end is not None and end <= begin:
        raise RecordingError(f"end {end:g} s is not after begin {begin:g} s")
    if len(force) not in (0, 1, 3):
        raise RecordingError(f"force has {len(force)} numbers; give its size or x y z [N]")
    return Label(begin, end, cells.get("link", ""), np.array(force) if force else None)


def _number(column: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError as error:
        raise RecordingError(f"{column} is {quoted(cell)}, not a number") from error
    if not isfinite(value):
        raise RecordingError(f"{column} is {quoted(cell)}, not a finite number")
    return value
