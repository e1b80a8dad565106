"""Recordings as CSV: one row per sample, one column per quantity and joint."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from math import nan
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from rbd_control.errors import RecordingError
from rbd_control.joint_states import JointBlock
from rbd_control.playback.parts import Part

Array = NDArray[np.float64]

LAYOUT = "time,position/<joint>,velocity/<joint>,effort/<joint>"
"""The columns: time [s], then for each joint its position [rad or m] and, as far as there are
any, velocity [rad/s or m/s] and effort [N·m or N], in any order. An empty cell is missing."""

_QUANTITIES = ("position", "velocity", "effort")


class Table:
    """A CSV file of :data:`LAYOUT`. Every iteration opens the file anew and streams it.

    Raises:
        RecordingError: from the constructor when the header is another, and from the iteration
            when a row does not fit; the message names the line and the column.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as file:
            header = next(csv.reader(file), [])
        names = [name.strip() for name in header]
        self._columns = self._layout(names)
        self._width, self._time = len(names), names.index("time")
        self.joint_names = tuple(self._columns["position"])
        with path.open("rb") as raw:
            lines = sum(block.count(b"\n") for block in iter(lambda: raw.read(1 << 20), b""))
        self.count = max(lines - 1, 0)

    def joint_parts(self, size: int) -> Iterator[list[Part]]:
        """The rows as joint states, received when they are stamped, ``size`` at a time."""
        joints = self.joint_names
        columns = [
            [self._columns[quantity][joint] for joint in joints if self._columns[quantity]]
            for quantity in _QUANTITIES
        ]
        with self._open() as file:
            next(csv.reader(file))
            line = 1
            while lines := list(islice(file, size)):
                if any(map(str.strip, lines)):
                    rows = self._numbers(lines, line)
                    time = np.ascontiguousarray(rows[:, self._time])
                    values = (np.ascontiguousarray(rows[:, column]) for column in columns)
                    yield [Part(np.arange(len(rows)), JointBlock(time, time, joints, *values))]
                line += len(lines)

    def _numbers(self, lines: list[str], before: int) -> Array:
        """The rows in ``lines``, which follow ``before`` others; (k, width)."""
        try:
            rows = np.loadtxt(lines, delimiter=",", comments=None, ndmin=2)
        except ValueError:
            rows = np.empty((0, 0))
        if rows.shape[1] == self._width:
            return rows
        # Cells that are empty or quoted, or something to complain of.
        return np.array(list(self._rows(lines, before)))

    def _rows(self, lines: list[str], before: int) -> Iterator[list[float]]:
        rows = csv.reader(lines)
        for row in rows:
            if not row:
                continue
            line = before + rows.line_num
            if len(row) != self._width:
                raise RecordingError(
                    f"{self.path} line {line} has {len(row)} columns, its header {self._width}"
                )
            try:
                yield [float(cell) if cell.strip() else nan for cell in row]
            except ValueError as error:
                raise RecordingError(f"{self.path} line {line}: {error}") from error

    def _layout(self, header: list[str]) -> dict[str, dict[str, int]]:
        """``{quantity: {joint: column}}`` of the header."""
        columns: dict[str, dict[str, int]] = {quantity: {} for quantity in _QUANTITIES}
        for i, name in enumerate(header):
            quantity, _, joint = name.partition("/")
            if name == "time":
                continue
            if quantity not in columns or not joint:
                raise self._refused(f"column {i + 1} is {name!r}")
            columns[quantity][joint] = i
        if not header:
            raise self._refused("it is empty")
        if header.count("time") != 1:
            raise self._refused(f"it has {header.count('time')} columns 'time'")
        if len(set(header)) != len(header):
            raise self._refused("two columns have one name")
        joints = columns["position"]
        if not joints:
            raise self._refused("it has no position")
        for quantity in ("velocity", "effort"):
            if columns[quantity] and set(columns[quantity]) != set(joints):
                odd = sorted(set(columns[quantity]) ^ set(joints))[0]
                raise self._refused(f"joint {odd!r} lacks a position or {quantity}")
        return columns

    def _refused(self, reason: str) -> RecordingError:
        return RecordingError(f"{self.path}: {reason}; a CSV recording has the columns {LAYOUT}")

    @contextmanager
    def _open(self) -> Iterator[TextIO]:
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                yield file
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise RecordingError(f"{self.path} cannot be read as CSV: {error}") from error
