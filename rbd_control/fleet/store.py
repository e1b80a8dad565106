"""The folder with the results of a fleet: per command one JSON file per recording and one table.

::

    FOLDER/replay/NAME-DIGEST.json     one recording; DIGEST is computed from its absolute path
    FOLDER/replay.csv (or .parquet)    one row per recording
    FOLDER/calibrate/…, calibrate.csv  results of calibrate in the same form
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rbd_control.errors import RbdControlError, RecordingError
from rbd_control.files.input_files import reading
from rbd_control.files.output_files import prepare_output, write_whole
from rbd_control.playback.result import JointResidual
from rbd_control.playback.truth import Summary
from rbd_control.results import figures

DONE = "done"
NO_VERDICT = "no verdict"
BAD = "bad"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a job, the processing of one recording.

    Attributes:
        status: :data:`DONE`; :data:`NO_VERDICT` if the detector never had a verdict; or
            :data:`BAD` if the recording could not be used.
        reason: reason of a status other than :data:`DONE`; empty otherwise.
        start: stamp of the first sample [s]; None if it is unknown.
        result: the result of the job as plain values that ``json`` can write; None if the status is
            :data:`BAD`.
        warnings: warnings about the robot description and the recording.
    """

    status: str
    reason: str = ""
    start: float | None = None
    result: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def bad(cls, reason: str) -> Outcome:
        """Return the outcome of a recording that could not be used, for a reason as text."""
        return cls(BAD, reason)


@dataclass(frozen=True)
class Record:
    """Stored entry of one recording of a fleet: its properties and the outcome of its job.

    Attributes:
        recording: absolute path of the recording.
        command: ``replay`` or ``calibrate``.
        arm: name of the arm.
        day: day of the recording as ``YYYY-MM-DD``; None if it is unknown.
        free: whether the recording was declared free of contact.
        key: digest from :func:`~rbd_control.fleet.jobs.job_keys`; the outcome is up to date while
            the digest does not change.
        outcome: the outcome of the job.
    """

    recording: str
    command: str
    arm: str
    day: str | None
    free: bool
    key: str
    outcome: Outcome

    @property
    def result(self) -> Mapping[str, Any]:
        """The result of replay or calibration; empty if the recording could not be used."""
        return self.outcome.result or {}

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain values that ``json`` can write.

        The keys are the names of the fields of the record and of its outcome, on one level.
        """
        own = {name: value for name, value in vars(self).items() if name != "outcome"}
        return {**own, **asdict(self.outcome)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Record:
        """Return the record from the result of :meth:`to_json`; ignore further keys.

        Raises:
            KeyError: if a key is missing.
        """
        of_outcome = {item.name: content[item.name] for item in fields(Outcome)}
        of_outcome["warnings"] = tuple(of_outcome["warnings"])
        own = {item.name: content[item.name] for item in fields(cls) if item.name != "outcome"}
        return cls(**own, outcome=Outcome(**of_outcome))


_NAME_LENGTH = 60


class Store:
    """Stored records of one command over a fleet.

    Args:
        folder: the folder with the results of the fleet.
        command: ``replay`` or ``calibrate``.

    Attributes:
        folder, command: as given.
    """

    def __init__(self, folder: Path, command: str) -> None:
        self.command = command
        self.folder = folder
        self._records = folder / command

    def prepare(self) -> None:
        """Create the folders, and check that this process may write to them.

        Raises:
            OSError: naming the path that cannot be created or written.
        """
        for folder in (self._records, self.folder):
            prepare_output(folder / "x.json")

    def path(self, recording: str) -> Path:
        """Return the path of the JSON file for a recording.

        Args:
            recording: absolute path of the recording.
        """
        digest = hashlib.sha256(recording.encode("utf-8", "surrogateescape")).hexdigest()[:10]
        stem = Path(recording).stem.encode("utf-8", "replace").decode()[:_NAME_LENGTH]
        return self._records / f"{stem}-{digest}.json"

    def load(self, recording: str) -> Record | None:
        """Return the stored record of a recording; None if it is missing, unreadable or damaged.

        Args:
            recording: absolute path of the recording.
        """
        try:
            return _read(self.path(recording))
        except RecordingError:
            return None

    def write(self, record: Record) -> None:
        """Write a record to the file of its recording, completely or not at all.

        Raises:
            OSError: naming the file that cannot be written.
            ValueError: if the result contains NaN or infinity.
        """
        text = json.dumps(record.to_json(), indent=1, allow_nan=False, ensure_ascii=False)
        write_whole(
            self.path(record.recording), (text + "\n").encode("utf-8", errors="backslashreplace")
        )

    def records(self) -> list[Record]:
        """Return all records of the command in the folder, sorted by the paths of the recordings.

        Records of earlier runs are included.

        Raises:
            RecordingError: naming a ``.json`` file of the folder that is not a record, or the
                folder if it exists and cannot be read.
        """
        with reading(self._records, RecordingError, "cannot be read"):
            try:
                names = os.listdir(self._records)
            except (FileNotFoundError, NotADirectoryError):
                return []
            found = [_read(self._records / name) for name in names if name.endswith(".json")]
        return sorted(found, key=lambda record: record.recording)


def _read(path: Path) -> Record:
    with reading(path, RecordingError, "is not the result of a fleet", "remove it"):
        return Record.from_json(json.loads(path.read_text(encoding="utf-8")))


Row = dict[str, Any]

CSV = "csv"
PARQUET = "parquet"
FORMATS = (CSV, PARQUET)

REPORT_TABLES = ("arms", "days", "joints", "drifts")
"""Names of the tables of ``fleet-report``, without suffix."""

TABLES = ("replay", "calibrate", *REPORT_TABLES)
"""Names of all tables in the folder of a fleet, without suffix."""

_FIRST_COLUMNS = (b"recording", b"arm", b"")
"""First columns of all tables; a table without rows has no column."""


def refuse_format(name: str) -> None:
    """Raise an error for a format that cannot be written in this environment.

    Args:
        name: one of :data:`FORMATS`.

    Raises:
        RbdControlError: if the format is ``parquet`` and pyarrow is not installed.
    """
    if name == PARQUET:
        _pyarrow()


def write_table(rows: Sequence[Row], folder: Path, name: str, kind: str) -> Path:
    """Write rows as one table, completely or not at all, and return its path.

    The table has the columns of all rows, in order of appearance; missing values are empty.

    Args:
        rows: the rows; they may have different columns.
        folder: folder in which the table is written.
        name: file name of the table without suffix.
        kind: format and suffix of the table, one of :data:`FORMATS`.

    Raises:
        RbdControlError: when the format is ``parquet`` and pyarrow is not installed.
        OSError: naming the file that cannot be written.
    """
    columns = list(dict.fromkeys(column for row in rows for column in row))
    path = folder / f"{name}.{kind}"
    write_whole(path, _parquet(rows, columns) if kind == PARQUET else _csv(rows, columns))
    return path


def is_table(path: Path) -> bool:
    """Return whether a CSV file is a table of a fleet, by its first column.

    False for a file that does not exist or cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.readline(100).split(b",")[0].strip() in _FIRST_COLUMNS
    except OSError:
        return False


def record_row(record: Record) -> Row:
    """Return the row of a recording in the table of its command.

    It has the properties of the recording, its status and reason, and if there is a result, numbers
    from it: of ``replay`` duration, rate, gaps, events, scores, thresholds and residuals, of
    ``calibrate`` duration, friction, corrections, gains, thresholds and residuals. Columns about
    one joint are named ``quantity/joint``. Units are as in the JSON of the command.
    """
    outcome = record.outcome
    row: Row = {
        "recording": record.recording,
        "arm": record.arm,
        "day": record.day,
        "status": outcome.status,
        "reason": outcome.reason,
        "free": record.free,
        "start": outcome.start,
    }
    if record.result:
        row |= (_calibrate_row if record.command == "calibrate" else _replay_row)(record.result)
    return row


_REPLAY = ("duration", "samples", "rate", "gaps", "largest_gap", "valid_fraction")


def _replay_row(result: Mapping[str, Any]) -> Row:
    row = {name: result[name] for name in _REPLAY}
    row |= {"warnings": len(result["warnings"]), "events": len(result["events"])}
    score = result["truth"]["summary"] if result["truth"] else {}
    row |= {key: score.get(key) for key in (*(k for _, k, _ in figures(Summary)), "free_time")}
    return row | {
        f"{quantity}/{joint}": value
        for _, quantity, _ in figures(JointResidual)
        for joint, value in result[quantity].items()
    }


def _calibrate_row(result: Mapping[str, Any]) -> Row:
    row = {name: result[name] for name in ("duration", "false_alarms_per_hour")}
    row["warnings"] = len(result["warnings"])
    return row | {
        f"{quantity}/{joint}": value
        for joint, quantities in result["joints"].items()
        for quantity, value in quantities.items()
    }


def _csv(rows: Sequence[Row], columns: Sequence[str]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode("utf-8", errors="backslashreplace")


def _parquet(rows: Sequence[Row], columns: Sequence[str]) -> bytes:
    arrow, parquet = _pyarrow()
    table = arrow.table({name: [_printable(row.get(name)) for row in rows] for name in columns})
    content = io.BytesIO()
    parquet.write_table(table, content)
    return content.getvalue()


def _printable(value: Any) -> Any:
    """Return a value that Parquet can store, because file names may not be valid UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", errors="backslashreplace").decode()
    return value


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise RbdControlError(
            "Parquet needs pyarrow, which is not installed: pip install '.[fleet]' in a clone of "
            "rbd_control, or give --format csv"
        ) from error
    return arrow, parquet
