"""The sheet of a fleet: arm, day, files, and freedom from contact of each recording."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

from rbd_control.errors import RecordingError
from rbd_control.playback.csv_lines import bounded_lines, open_csv
from rbd_control.wording import listed, quoted

COLUMNS = ("recording", "arm", "day", "urdf", "config", "free")
"""Columns of a sheet, in any order; only ``recording`` must be there."""

_YES_OR_NO = {"yes": True, "no": False, "": None}


@dataclass(frozen=True)
class SheetRow:
    """A row of a sheet, for the recordings that a pattern matches.

    Attributes:
        pattern: glob pattern of their paths; ``*`` also matches slashes.
        arm: name of the arm; empty if it is not given.
        day: day of the recording as ``YYYY-MM-DD``; empty if it is not given.
        urdf: description of the arm; empty if it is not given.
        config: parameter file of the detector; None if it is not given.
        free: whether the recordings are free of contact; None if it is not given.
    """

    pattern: str
    arm: str = ""
    day: str = ""
    urdf: str = ""
    config: Path | None = None
    free: bool | None = None

    def matches(self, recording: Path) -> bool:
        """Return whether the pattern matches a recording's path, its end, or its stem."""
        path = str(recording)
        return (
            fnmatchcase(path, self.pattern)
            or fnmatchcase(path, f"*/{self.pattern}")
            or fnmatchcase(recording.stem, self.pattern)
        )


def read_sheet(path: Path) -> list[SheetRow]:
    """Return the rows of a sheet, a CSV file of :data:`COLUMNS`.

    Relative paths in it count from its folder.

    Raises:
        RecordingError: naming the file and the line, if it cannot be read, has other columns, or
            has an invalid cell.
    """
    with open_csv(path) as file:
        rows = csv.DictReader(bounded_lines(file), skipinitialspace=True)
        header = [name.strip() for name in rows.fieldnames or ()]
        if "recording" not in header or not set(header) <= set(COLUMNS):
            raise RecordingError(
                f"columns are {listed(header)}; a sheet has recording, and may have "
                f"{', '.join(COLUMNS[1:])}"
            )
        sheet = []
        for row in rows:
            if None in row or None in row.values():
                raise _refused(rows.line_num, "it has another number of columns")
            cells = {name.strip(): cell.strip() for name, cell in row.items()}
            sheet.append(_row(rows.line_num, cells, path.parent))
    return sheet


def row_of(recording: Path, sheet: Sequence[SheetRow]) -> SheetRow:
    """Return the first row that matches a recording, or an empty row."""
    return next((row for row in sheet if row.matches(recording)), SheetRow(""))


def _row(line: int, cells: dict[str, str], folder: Path) -> SheetRow:
    free, day = cells.get("free", "").lower(), cells.get("day", "")
    if free not in _YES_OR_NO:
        raise _refused(line, f"free is {quoted(free)}; give yes or no, or leave it empty")
    if day:
        try:
            date.fromisoformat(day)
        except ValueError as error:
            raise _refused(line, f"day is {quoted(day)}; give YYYY-MM-DD") from error
    urdf, config = cells.get("urdf", ""), cells.get("config", "")
    if urdf and (folder / urdf).exists():
        urdf = str(folder / urdf)
    return SheetRow(
        pattern=cells["recording"],
        arm=cells.get("arm", ""),
        day=day,
        urdf=urdf,
        config=folder / config if config else None,
        free=_YES_OR_NO[free],
    )


def _refused(line: int, problem: str) -> RecordingError:
    return RecordingError(f"line {line}: {problem}")
