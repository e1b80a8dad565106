"""Tables about the recordings of a fleet, written as CSV or Parquet.

A row is a dictionary from column names to plain values.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rbd_control.errors import RbdControlError
from rbd_control.files.output_files import write_whole
from rbd_control.fleet.outcome import Record

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
_SCORE = (
    "contacts",
    "misses",
    "repeated_events",
    "delay_median",
    "delay_p95",
    "false_alarms",
    "free_time",
)
_OF_JOINTS = ("threshold", "residual_max", "residual_rms", "residual_over_threshold")


def _replay_row(result: Mapping[str, Any]) -> Row:
    row = {name: result[name] for name in _REPLAY}
    row |= {"warnings": len(result["warnings"]), "events": len(result["events"])}
    score = result["truth"]["summary"] if result["truth"] else {}
    row |= {name: score.get(name) for name in _SCORE}
    return row | {
        f"{quantity}/{joint}": value
        for quantity in _OF_JOINTS
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
