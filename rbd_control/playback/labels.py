"""Contacts that somebody has labelled, read from CSV: the truth where the recording has none."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from math import isfinite
from pathlib import Path

import numpy as np

from rbd_control.errors import RecordingError
from rbd_control.playback.truth import Label

COLUMNS = ("recording", "begin", "end", "link", "force")
"""The columns of a file of labels, in any order; all but ``begin`` and ``end`` may be left out."""


def read_labels(path: str | Path, recordings: Sequence[Path]) -> list[list[Label]]:
    """The labelled contacts of each recording, in order of time, from its first sample on.

    Args:
        path: a CSV file of :data:`COLUMNS`; docs/replay.md describes it.
        recordings: those that are replayed. One that the file does not mention has no contact.

    Raises:
        RecordingError: when the file cannot be read, has other columns or makes no sense; the
            message names the line.
    """
    path = Path(path)
    names: dict[str, int] = {}
    for k, recording in enumerate(recordings):
        for name in (str(recording), recording.name, recording.stem):
            names.setdefault(name, k)
    labels: list[list[Label]] = [[] for _ in recordings]
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, skipinitialspace=True)
            _check_columns(path, rows.fieldnames or ())
            for row in rows:
                if None in row or None in row.values():
                    raise _refused(path, rows.line_num, "it has another number of columns")
                cells = {name.strip(): cell.strip() for name, cell in row.items()}
                labels[_recording(path, rows.line_num, cells, names, len(recordings))].append(
                    _label(path, rows.line_num, cells)
                )
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RecordingError(f"{path} cannot be read as CSV: {error}") from error
    for each in labels:
        each.sort(key=lambda label: label.start)
    return labels


def _check_columns(path: Path, header: Sequence[str]) -> None:
    found = [name.strip() for name in header]
    odd = [name for name in found if name not in COLUMNS]
    odd += [name for name in ("begin", "end") if found.count(name) != 1]
    if odd or len(set(found)) != len(found):
        raise RecordingError(
            f"{path}: columns are {', '.join(found) or 'none'}; labels have begin, end and "
            "perhaps recording, link and force, each once"
        )


def _recording(
    path: Path, line: int, cells: dict[str, str], names: dict[str, int], count: int
) -> int:
    name = cells.get("recording", "")
    if name in names:
        return names[name]
    if name:
        raise _refused(path, line, f"{name!r} is none of the recordings {', '.join(names)}")
    if count != 1:
        raise _refused(path, line, "it does not say of which recording it is")
    return 0


def _label(path: Path, line: int, cells: dict[str, str]) -> Label:
    try:
        begin = float(cells["begin"])
        end = float(cells["end"]) if cells["end"] else None
        force = [float(part) for part in cells.get("force", "").split()]
    except ValueError as error:
        raise _refused(path, line, str(error)) from error
    if not all(map(isfinite, (begin, end or 0.0, *force))) or begin < 0.0:
        raise _refused(path, line, "a number in it is not finite, or begin is negative")
    if end is not None and end <= begin:
        raise _refused(path, line, f"end {end:g} s does not lie after begin {begin:g} s")
    if len(force) not in (0, 1, 3):
        raise _refused(path, line, f"force has {len(force)} numbers; give its size or x y z")
    return Label(begin, end, cells.get("link", ""), np.array(force) if force else None)


def _refused(path: Path, line: int, reason: str) -> RecordingError:
    return RecordingError(f"{path} line {line}: {reason}")
