"""The order of the work: what is done already is kept, the rest is given to workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Protocol

from rbd_control.fleet.jobs import CalibrateJob, Job, ReplayJob
from rbd_control.fleet.keys import job_keys
from rbd_control.fleet.outcome import BAD, Outcome, Record
from rbd_control.fleet.store import Store

_EARLIEST = datetime(2000, 1, 1, tzinfo=timezone.utc).timestamp()
"""Stamps before this are not those of a clock that knows the day [s]."""


class Workers(Protocol):
    """Whatever runs jobs."""

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        """Yield the index and the outcome of each job, as they come."""


@dataclass(frozen=True)
class Entry:
    """One recording of a fleet.

    Attributes:
        job: what is done with it.
        arm: name of the arm.
        day: day of the recording as ``YYYY-MM-DD``; empty for the day of its first sample.
        free: whether it is declared free of contact.
    """

    job: ReplayJob | CalibrateJob
    arm: str
    day: str = ""
    free: bool = False

    @property
    def recording(self) -> str:
        """Absolute path of the recording."""
        return str(self.job.recording)


@dataclass(frozen=True)
class FleetRun:
    """What a run over a fleet did.

    Attributes:
        records: what became of each recording that was given.
        kept: how many of them had been done already.
    """

    records: tuple[Record, ...]
    kept: int

    @property
    def unusable(self) -> tuple[Record, ...]:
        """The recordings that are bad or have no verdict."""
        return tuple(record for record in self.records if record.outcome.reason)


def run_fleet(
    entries: Sequence[Entry],
    store: Store,
    workers: Workers,
    told: Callable[[Record, bool], None] = lambda _record, _is_new: None,
) -> FleetRun:
    """Do what is not done yet, and write the record of each recording as it comes.

    A recording is done again if it, its arguments or the package changed, or if it was bad.

    Args:
        entries: the recordings.
        store: where the results are.
        workers: what does the work.
        told: called with each record, and whether it is new.

    Raises:
        RbdControlError: for a description or parameter file that cannot be read, and if the
            workers cannot work.
        OSError: naming a result that cannot be written.
    """
    keys = job_keys([entry.job for entry in entries])
    records: dict[int, Record] = {}
    for index, (entry, key) in enumerate(zip(entries, keys, strict=True)):
        before = store.load(entry.recording)
        if before is not None and before.key == key and before.outcome.status != BAD:
            records[index] = _record(entry, store.command, key, before.outcome)
            if records[index] != before:
                store.write(records[index])  # arm or day are told otherwise now
            told(records[index], False)
    kept = len(records)
    left = [index for index in range(len(entries)) if index not in records]
    if left:
        for place, outcome in workers.run([entries[index].job for index in left]):
            index = left[place]
            records[index] = _record(entries[index], store.command, keys[index], outcome)
            store.write(records[index])
            told(records[index], True)
    return FleetRun(tuple(records[index] for index in range(len(entries))), kept)


def _record(entry: Entry, command: str, key: str, outcome: Outcome) -> Record:
    day = entry.day or _day(outcome.start)
    return Record(entry.recording, command, entry.arm, day, entry.free, key, outcome)


def _day(start: float | None) -> str | None:
    """Return the day of a stamp (UTC); None if the clock did not know it."""
    if start is None or start < _EARLIEST:
        return None
    return datetime.fromtimestamp(start, tz=timezone.utc).date().isoformat()
