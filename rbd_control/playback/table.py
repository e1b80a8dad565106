"""CSV files: lines with limits, and recordings with one row per sample."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from math import isfinite, nan
from pathlib import Path
from typing import TextIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from rbd_control.errors import RecordingError
from rbd_control.files.input_files import reading, refuse_special
from rbd_control.joint_states import JointBlock
from rbd_control.playback.parts import Part
from rbd_control.wording import listed, quoted

MAX_LINE = 1 << 20
"""Maximum length of a line [characters], enough for ten thousand columns."""

_MOST = 1 << 23
"""Number of characters at which a list of lines is yielded even if it has fewer lines."""

_STEP = 64
"""Number of lines that are read before their lengths are checked."""

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@contextmanager
def open_csv(path: Path) -> Iterator[TextIO]:
    """Open a CSV file in UTF-8 for a ``with`` block; every error raised inside names the file.

    Raises:
        RecordingError: if the file cannot be read or is not UTF-8 text; any other exception raised
            inside is converted to it.
    """
    with reading(path, RecordingError, "is not a CSV file", "save it as comma-separated UTF-8"):
        with path.open("rb") as file:
            if file.read(2) in _UTF16:
                raise RecordingError("is in UTF-16; save it as UTF-8")
        with path.open(encoding="utf-8-sig", newline="") as text:
            yield text


def bounded_lines(file: TextIO) -> Iterator[str]:
    """Yield the lines of a file, from its first line on.

    Raises:
        RecordingError: when a line is longer than :data:`MAX_LINE`.
    """
    for block in line_blocks(file, 1, 0):
        yield from block


def line_blocks(file: TextIO, size: int, before: int) -> Iterator[list[str]]:
    """Yield the lines of a file in lists of at least ``size`` lines.

    The last list, and lists of more than 8 million characters, may have fewer.

    Args:
        file: the open file.
        size: desired number of lines in a list.
        before: number of lines that were read from the file already, for the line in an error.

    Raises:
        RecordingError: when a line is longer than :data:`MAX_LINE`.
    """
    lines = iter(partial(file.readline, MAX_LINE + 1), "")
    step = min(size, _STEP)
    block: list[str] = []
    characters = 0
    while part := list(islice(lines, step)):
        lengths = list(map(len, part))
        if max(lengths) > MAX_LINE:
            number = (
                before
                + len(block)
                + 1
                + next(k for k, length in enumerate(lengths) if length > MAX_LINE)
            )
            raise RecordingError(
                f"line {number} is longer than {MAX_LINE} characters; is this a CSV file?"
            )
        block += part
        characters += sum(lengths)
        if len(block) >= size or characters >= _MOST:
            yield block
            before += len(block)
            block, characters = [], 0
    if block:
        yield block


Array = NDArray[np.float64]
T = TypeVar("T")


def read_rows(
    path: Path,
    columns: Sequence[str],
    required: Sequence[str],
    convert: Callable[[dict[str, str]], T],
    most: int = 1_000_000,
) -> list[T]:
    """Return what ``convert`` makes of the cells, by column, of each row of a CSV file.

    Args:
        path: the file; its columns may be in any order.
        columns: names of all columns, each once.
        required: names of those that must be there.
        convert: called for each row; a ``RecordingError`` that it raises gets the line.
        most: maximum number of rows.

    Raises:
        RecordingError: naming the file, if it cannot be read, has other columns or more rows;
            naming also the line, for a row of another length, or that ``convert`` refuses.
    """
    with open_csv(path) as file:
        rows = csv.DictReader(bounded_lines(file), skipinitialspace=True)
        found = [name.strip() for name in rows.fieldnames or ()]
        if not set(required) <= set(found) <= set(columns) or len(set(found)) != len(found):
            others = [name for name in columns if name not in required]
            raise RecordingError(
                f"columns are {listed(found)}; give {' and '.join(required)}, and if needed "
                f"{', '.join(others)}, each once"
            )
        result: list[T] = []
        for row in rows:
            if len(result) >= most:
                raise RecordingError(f"has more than {most} rows, which is the limit")
            try:
                if None in row or None in row.values():
                    raise RecordingError("it has another number of columns")
                cells = {name.strip(): cell.strip() for name, cell in row.items()}
                result.append(convert(cells))
            except RecordingError as error:
                raise RecordingError(f"line {rows.line_num}: {error.message}") from error
    return result


COLUMNS = "time,position/<joint>,velocity/<joint>,effort/<joint>"
"""The columns: time [s], then for each joint its position [rad or m] and, if recorded, velocity
[rad/s or m/s] and effort [N·m or N], in any order. An empty cell is a missing value."""

LATEST = 1e11
"""Latest accepted time [s], which is in the year 5138 if it counts from 1970."""

_QUANTITIES = ("position", "velocity", "effort")

_LOOKED_AT = 100
"""Number of rows for the check of the unit of the times."""

LONGEST_PERIOD = 200.0
"""Median time between rows from which a file is refused, as its times are not in seconds [s].

If the times were in milliseconds, this step would be a rate of 5 Hz, below which no contact can be
detected; if they were in microseconds, a rate of 5 kHz.
"""

_PERIODS = ((1e5, "nanoseconds", "1e9"), (LONGEST_PERIOD, "microseconds", "1e6"))
"""Median times between rows [s] from which another unit is probable, this unit, its divisor."""

_EPOCHS = (
    (1e17, "nanoseconds", "1e9"),
    (1e14, "microseconds", "1e6"),
    (LATEST, "milliseconds", "1e3"),
)
"""Times since 1970 [s] from which another unit is probable, this unit, and its divisor."""


class Table:
    """A CSV file of :data:`COLUMNS`. Every iteration opens the file anew and streams it.

    Attributes:
        path: the file.
        joint_names: the joints, in the order of their ``position`` columns.
        count: number of lines after the header, blank lines included.

    Raises:
        RecordingError: naming the file; from the constructor if the header is invalid or the times
            are not in seconds; from the iteration, and for one of the first 100 rows from the
            constructor, for an invalid row, whose line and content are then in the message.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        refuse_special(path, RecordingError)
        with open_csv(path) as file:
            header = next(csv.reader(bounded_lines(file)), [])
            names = [name.strip() for name in header]
            self._columns = self._column_of(names)
        self._width, self._time = len(names), names.index("time")
        self.joint_names = tuple(self._columns["position"])
        with reading(path, RecordingError, "is not a CSV file"), path.open("rb") as raw:
            ends, last = 0, b"\n"
            for block in iter(lambda: raw.read(1 << 20), b""):
                ends, last = ends + block.count(b"\n"), block[-1:]
        self.count = max(ends + (last != b"\n") - 1, 0)
        self._refuse_other_units()

    def joint_parts(self, size: int) -> Iterator[list[Part]]:
        """Yield the rows as joint states, in lists of one part of at least ``size`` rows.

        The last part, and parts with very long lines, have fewer. The time of receipt equals the
        stamp.
        """
        joints = self.joint_names
        columns = [
            [self._columns[quantity][joint] for joint in joints if self._columns[quantity]]
            for quantity in _QUANTITIES
        ]
        for rows in self._blocks(size):
            time = np.ascontiguousarray(rows[:, self._time])
            values = (np.ascontiguousarray(rows[:, column]) for column in columns)
            yield [Part(np.arange(len(rows)), JointBlock(time, time, joints, *values))]

    def _blocks(self, size: int) -> Iterator[Array]:
        """Yield the rows of numbers, (k, width), missing cells as NaN."""
        with open_csv(self.path) as file:
            header = csv.reader(bounded_lines(file))
            next(header)
            before = header.line_num
            for block in line_blocks(file, size, before):
                if any(map(str.strip, block)):
                    rows = self._numbers(block, before)
                    self._refuse_times(rows, before)
                    yield rows
                before += len(block)

    def _numbers(self, lines: list[str], before: int) -> Array:
        """Return the rows in ``lines``, which follow ``before`` others; (k, width)."""
        try:
            rows = np.loadtxt(lines, delimiter=",", comments=None, ndmin=2)
        except ValueError:
            rows = np.empty((0, 0))
        if rows.shape[1] == self._width:
            return rows
        # The lines have empty or quoted cells, or an invalid cell, which is searched below.
        found = list(self._rows(lines, before))
        return np.array(found).reshape(len(found), self._width)

    def _rows(self, lines: list[str], before: int) -> Iterator[list[float]]:
        rows = csv.reader(lines)
        for row in self._read(rows, before):
            line = before + rows.line_num
            if len(row) != self._width:
                hint = "; is the decimal mark a comma?" if len(row) > self._width else ""
                raise RecordingError(
                    f"line {line} has {len(row)} columns, the header has {self._width}{hint}"
                )
            numbers: list[float] = []
            for k, cell in enumerate(row):
                try:
                    numbers.append(float(cell) if cell.strip() else nan)
                except ValueError as error:
                    raise RecordingError(
                        f"line {line}, column {k + 1}: {quoted(cell)} is not a number"
                    ) from error
            yield numbers

    @staticmethod
    def _read(rows: Iterator[list[str]], before: int) -> Iterator[list[str]]:
        """Yield the rows that are not blank; ``before`` lines precede them, for line numbers."""
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                line = before + rows.line_num  # type: ignore[attr-defined]
                raise RecordingError(f"line {line} is not CSV ({error})") from error
            if len(row) > 1 or (row and row[0].strip()):
                yield row

    def _refuse_times(self, rows: Array, before: int) -> None:
        """Raise an error for times after :data:`LATEST`; the intake drops rows without a time."""
        time = np.abs(rows[:, self._time])
        late = np.flatnonzero((time > LATEST) & np.isfinite(time))
        if late.size:
            latest = float(time[late[0]])
            raise RecordingError(
                f"near line {before + 1 + int(late[0])} the time is {latest:g}; times are in "
                f"seconds, at most {LATEST:g}{_unit_hint(latest, _EPOCHS)}"
            )

    def _refuse_other_units(self) -> None:
        """Raise an error for times that increase like microseconds or nanoseconds."""
        with reading(self.path, RecordingError, "is not a CSV file"):
            times = [
                float(time)
                for rows in islice(self._blocks(_LOOKED_AT), 1)
                for time in rows[:, self._time]
                if isfinite(time)
            ]
        period = float(np.median(np.abs(np.diff(times)))) if len(times) > 2 else 0.0
        if period >= LONGEST_PERIOD:
            error = RecordingError(
                f"times go up by {period:g} a row; times are in seconds"
                f"{_unit_hint(period, _PERIODS)}"
            )
            error.path = str(self.path)
            raise error

    def _column_of(self, header: list[str]) -> dict[str, dict[str, int]]:
        """Return ``{quantity: {joint: column}}`` of the header."""
        columns: dict[str, dict[str, int]] = {quantity: {} for quantity in _QUANTITIES}
        if not header or header == [""]:
            raise self._refused("its first line is empty")
        if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
            raise self._refused("its columns are not separated by commas")
        if all(map(_is_number, header)):
            raise self._refused("its first line holds numbers, not the names of columns")
        for i, name in enumerate(header):
            quantity, _, joint = name.partition("/")
            if name == "time":
                continue
            if quantity not in columns or not joint:
                raise self._refused(f"column {i + 1} is {quoted(name)}")
            columns[quantity][joint] = i
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
                raise self._refused(f"joint {quoted(odd)} lacks a position or {quantity}")
        return columns

    def _refused(self, problem: str) -> RecordingError:
        return RecordingError(f"{problem}; a CSV recording has the columns {COLUMNS}")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _unit_hint(value: float, units: Sequence[tuple[float, str, str]]) -> str:
    """Return a hint at the probable unit of a time, with the remedy; empty if no unit fits."""
    for least, unit, factor in units:
        if least <= value < 1e3 * units[0][0]:
            return f": these look like {unit}, divide them by {factor}"
    return ""
