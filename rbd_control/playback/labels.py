"""Labelled contacts from CSV files, for recordings without true contacts."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from math import isfinite
from pathlib import Path

import numpy as np

from rbd_control.errors import RecordingError
from rbd_control.playback.csv_lines import bounded_lines, open_csv
from rbd_control.playback.truth import Label
from rbd_control.wording import listed, quoted

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
    path = Path(path)
    names = _names(recordings)
    paths = [str(recording) for recording in recordings]
    labels: list[list[Label]] = [[] for _ in recordings]
    with open_csv(path) as file:
        rows = csv.DictReader(bounded_lines(file), skipinitialspace=True)
        _check_columns(rows.fieldnames or ())
        for k, row in enumerate(rows):
            if k >= MAX_LABELS:
                raise RecordingError(f"has more than {MAX_LABELS} labels, which is the limit")
            if None in row or None in row.values():
                raise _refused(rows.line_num, "it has another number of columns")
            cells = {name.strip(): cell.strip() for name, cell in row.items()}
            labels[_recording(rows.line_num, cells, names, paths)].append(
                _label(rows.line_num, cells)
            )
    for each in labels:
        each.sort(key=lambda label: label.start)
    return labels


def _check_columns(header: Sequence[str]) -> None:
    found = [name.strip() for name in header]
    odd = [name for name in found if name not in COLUMNS]
    odd += [name for name in ("begin", "end") if found.count(name) != 1]
    if odd or len(set(found)) != len(found):
        raise RecordingError(
            f"columns are {listed(found)}; labels have begin and end, and may have recording, "
            "link and force, each once"
        )


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


def _recording(
    line: int, cells: dict[str, str], names: dict[str, list[int]], paths: Sequence[str]
) -> int:
    """Return the index of the recording that a label belongs to."""
    name = cells.get("recording", "")
    if len(names.get(name, ())) > 1:
        if len({paths[k] for k in names[name]}) == 1:
            raise _refused(line, f"{quoted(name)} is given twice; give each recording once")
        several = listed(paths[k] for k in names[name])
        raise _refused(
            line, f"{quoted(name)} fits several recordings ({several}); name one by its path"
        )
    if name in names:
        return names[name][0]
    if name:
        raise _refused(line, f"{quoted(name)} is none of the recordings {listed(names)}")
    if len(paths) != 1:
        raise _refused(line, "it does not name its recording")
    return 0


def _label(line: int, cells: dict[str, str]) -> Label:
    begin = _number(line, "begin", cells["begin"])
    end = _number(line, "end", cells["end"]) if cells["end"] else None
    force = [_number(line, "force", part) for part in cells.get("force", "").split()[:4]]
    if begin < 0.0:
        raise _refused(line, f"begin is {begin:g} s; it must not be negative")
    if end is not None and end <= begin:
        raise _refused(line, f"end {end:g} s is not after begin {begin:g} s")
    if len(force) not in (0, 1, 3):
        raise _refused(line, f"force has {len(force)} numbers; give its size or x y z [N]")
    return Label(begin, end, cells.get("link", ""), np.array(force) if force else None)


def _number(line: int, column: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError as error:
        raise _refused(line, f"{column} is {quoted(cell)}, not a number") from error
    if not isfinite(value):
        raise _refused(line, f"{column} is {quoted(cell)}, not a finite number")
    return value


def _refused(line: int, problem: str) -> RecordingError:
    return RecordingError(f"line {line}: {problem}")
