"""The recordings of a fleet, and the sheet, a CSV file with the properties of each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from glob import glob, has_magic
from pathlib import Path

from rbd_control.errors import InputError, RecordingError
from rbd_control.files.xacro_files import file_of, with_file
from rbd_control.playback.bag import METADATA, ROS1_SUFFIX, is_storage
from rbd_control.playback.table import read_rows
from rbd_control.playback.truth import has_labels
from rbd_control.wording import quoted

_CSV = ".csv"


def find_recordings(given: Sequence[Path], besides: Sequence[Path] = ()) -> list[Path]:
    """Return the absolute paths of all recordings in the given files and folders, each once.

    A folder with ``metadata.yaml`` is one recording. Any other folder is searched: each folder with
    ``metadata.yaml`` in it, and each other ``.mcap``, ``.db3``, ``.bag`` or ``.csv`` file, is a
    recording, also a compressed ``.mcap.zstd`` or ``.db3.zstd`` file. Hidden files and folders, and
    CSV files with the columns of labels, are left out, and links to folders are not followed.

    The paths have the order of ``given``. Matches of a pattern are sorted; the files of a searched
    folder, sorted by name, precede its sub-folders, also sorted.

    Args:
        given: files, folders and glob patterns (``**`` for any folders). A file that is named, or
            that matches a pattern, is kept with any suffix. A path that does not exist is kept as
            well, so that a later error names it.
        besides: files to leave out because they are not recordings, such as labels.

    Raises:
        InputError: when an element of ``given`` yields no recording.
    """
    found: dict[str, Path] = {}
    left_out = {os.path.realpath(path) for path in besides}
    for path in given:
        each = [
            recording
            for match in _matches(path)
            for recording in _below(match)
            if os.path.realpath(recording) not in left_out
        ]
        if not each:
            raise InputError(
                f"no recording in {path}; give recordings, folders of them or patterns"
            )
        for recording in each:
            found.setdefault(os.path.realpath(recording), Path(os.path.abspath(recording)))
    return list(found.values())


def _matches(path: Path) -> list[Path]:
    """Return the matches of a pattern; a path that is not a pattern is returned unchanged."""
    if path.exists() or not has_magic(str(path)):
        return [path]
    return [Path(match) for match in sorted(glob(str(path), recursive=True))]


def _below(path: Path) -> Iterator[Path]:
    """Yield the recordings in a folder that is not a recording; yield any other path unchanged."""
    if not path.is_dir() or (path / METADATA).exists():
        yield path
        return
    for folder, folders, files in os.walk(path):
        if METADATA in files:
            folders.clear()
            yield Path(folder)
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and _is_recording(path := Path(folder, name)):
                yield path


def _is_recording(path: Path) -> bool:
    if path.suffix.lower() == _CSV:
        return not (path.is_file() and has_labels(path))
    return is_storage(path) or path.suffix == ROS1_SUFFIX


COLUMNS = ("recording", "arm", "day", "urdf", "config", "free")
"""Columns of a sheet, in any order; all but ``recording`` may be missing."""

_YES_OR_NO = {"yes": True, "no": False, "": None}


@dataclass(frozen=True)
class SheetRow:
    """A row of a sheet: the properties of all recordings that its pattern matches.

    Attributes:
        pattern: glob pattern of the paths, see :meth:`matches`; ``*`` also matches slashes.
        arm: name of the arm; empty if it is not given.
        day: day of the recording as ``YYYY-MM-DD``; empty if it is not given.
        urdf: path of the arm's description, or of a parameter file that names it; empty if it is
            not given.
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
        """Return whether the pattern matches the path of a recording.

        It may match the whole path, the end of the path after a slash, or the file name without its
        last suffix. Upper and lower case differ.
        """
        path = str(recording)
        return (
            fnmatchcase(path, self.pattern)
            or fnmatchcase(path, f"*/{self.pattern}")
            or fnmatchcase(recording.stem, self.pattern)
        )


def read_sheet(path: Path) -> list[SheetRow]:
    """Return the rows of a sheet, a CSV file with the columns :data:`COLUMNS`.

    A relative path in the column ``config`` starts at the folder of the sheet, as does a path in
    ``urdf`` if it exists there; otherwise the text in ``urdf`` is returned unchanged. In the column
    ``free``, ``yes``, ``no`` and an empty cell are valid.

    Args:
        path: the CSV file.

    Raises:
        RecordingError: naming the file, and the line of an invalid row, if the file cannot be read,
            has other columns, or has an invalid cell.
    """
    return read_rows(path, COLUMNS, COLUMNS[:1], lambda cells: _row(cells, path.parent))


def row_of(recording: Path, sheet: Sequence[SheetRow]) -> SheetRow:
    """Return the first row that matches a recording; without a match, a row that gives nothing."""
    return next((row for row in sheet if row.matches(recording)), SheetRow(""))


def _row(cells: dict[str, str], folder: Path) -> SheetRow:
    free, day = cells.get("free", "").lower(), cells.get("day", "")
    if free not in _YES_OR_NO:
        raise RecordingError(f"free is {quoted(free)}; give yes or no, or leave it empty")
    if day:
        try:
            date.fromisoformat(day)
        except ValueError as error:
            raise RecordingError(f"day is {quoted(day)}; give YYYY-MM-DD") from error
    urdf, config = cells.get("urdf", ""), cells.get("config", "")
    if urdf and (folder / file_of(urdf)).exists():
        urdf = with_file(urdf, lambda path: folder / path)
    return SheetRow(
        pattern=cells["recording"],
        arm=cells.get("arm", ""),
        day=day,
        urdf=urdf,
        config=folder / config if config else None,
        free=_YES_OR_NO[free],
    )
