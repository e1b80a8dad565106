"""Recordings as CSV: one row per sample, one column per quantity and joint."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from math import nan
from pathlib import Path
from typing import TextIO

from rbd_control.errors import RecordingError
from rbd_control.joint_states import JointMessage

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
        self._columns = self._layout([name.strip() for name in header])
        self.joint_names = tuple(self._columns["position"])
        with path.open("rb") as raw:
            lines = sum(block.count(b"\n") for block in iter(lambda: raw.read(1 << 20), b""))
        self.count = max(lines - 1, 0)

    def joint_messages(self) -> Iterator[JointMessage]:
        """The rows as joint states, received when they are stamped."""
        width = 1 + sum(len(columns) for columns in self._columns.values())
        names = list(self.joint_names)
        with self._open() as file:
            rows = csv.reader(file)
            header = next(rows)
            time = [name.strip() for name in header].index("time")
            order = {
                quantity: [columns[joint] for joint in names if joint in columns]
                for quantity, columns in self._columns.items()
            }
            for row in rows:
                if not row:
                    continue
                if len(row) != width:
                    raise RecordingError(
                        f"{self.path} line {rows.line_num} has {len(row)} columns, "
                        f"its header {width}"
                    )
                try:
                    values = [float(cell) if cell.strip() else nan for cell in row]
                except ValueError as error:
                    raise RecordingError(f"{self.path} line {rows.line_num}: {error}") from error
                yield JointMessage(
                    values[time],
                    values[time],
                    names,
                    *([values[i] for i in order[quantity]] for quantity in _QUANTITIES),
                )

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
