"""Run over a fleet: workers process all recordings that have no up-to-date result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from rbd_control.fleet.jobs import CalibrateJob, ReplayJob, job_keys
from rbd_control.fleet.store import BAD, Outcome, Record, Store
from rbd_control.fleet.workers import Workers

_EARLIEST = datetime(2000, 1, 1, tzinfo=timezone.utc).timestamp()
"""Stamps before this time [s] are from a clock that does not show the date."""


@dataclass(frozen=True)
class Entry:
    """One recording of a fleet, with the job that processes it.

    Attributes:
        job: the processing of the recording.
        arm: name of the arm.
        day: day of the recording as ``YYYY-MM-DD``; empty for the day (UTC) of its first sample.
        free: whether the recording is declared free of contact; the study counts each of its events
            as a false alarm.
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
    """Result of a run over a fleet.

    Attributes:
        records: the record of each given recording, in the given order.
        kept: number of recordings whose earlier result was up to date and was kept.
    """

    records: tuple[Record, ...]
    kept: int

    @property
    def unusable(self) -> tuple[Record, ...]:
        """Records with the status ``bad`` or ``no verdict``."""
        return tuple(record for record in self.records if record.outcome.reason)


def run_fleet(
    entries: Sequence[Entry],
    store: Store,
    workers: Workers,
    told: Callable[[Record, bool], None] = lambda _record, _is_new: None,
) -> FleetRun:
    """Process the recordings without an up-to-date result; store each record when it is complete.

    A recording is processed again if the digest of its job has changed (see
    :func:`~rbd_control.fleet.jobs.job_keys`), or if it was bad. An interrupted run continues in the
    next call with the same arguments.

    Args:
        entries: the recordings and their jobs.
        store: the folder of the results.
        workers: runs the jobs.
        told: called with the record of each recording, and whether it was processed in this run.

    Raises:
        RbdControlError: for a description or parameter file that cannot be read, and if the workers
            cannot run.
        OSError: naming a folder or a result file that cannot be written.
    """
    store.prepare()
    keys = job_keys([entry.job for entry in entries])
    records: dict[int, Record] = {}
    for index, (entry, key) in enumerate(zip(entries, keys, strict=True)):
        before = store.load(entry.recording)
        if before is not None and before.key == key and before.outcome.status != BAD:
            records[index] = _record(entry, store.command, key, before.outcome)
            if records[index] != before:
                store.write(records[index])  # with the present arm and day
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
    """Return the day of a stamp (UTC); None if its clock does not show the date."""
    if start is None or start < _EARLIEST:
        return None
    return datetime.fromtimestamp(start, tz=timezone.utc).date().isoformat()
