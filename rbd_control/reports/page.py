"""Content of a report: verdict, warnings, facts, tables and plots, without any markup."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rbd_control.reports.plots import PanelGrid, TimePlots

Level = Literal["good", "doubtful", "bad"]

WORDS: dict[Level, str] = {"good": "GOOD", "doubtful": "LOOK", "bad": "WRONG"}
"""Label of each level."""

MOST_ROWS = 500
"""Maximum number of rows of a table; further rows are left out."""


@dataclass(frozen=True)
class Bar:
    """A cell with a bar behind its text.

    Attributes:
        text: the text.
        share: length of the bar, in [0, 1].
    """

    text: str
    share: float


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        cells: texts, the first one names the row.
        level: marks the row as good, doubtful or bad; empty for no mark.
        moment: begin and end [s] of the time that the plots show when the row is clicked.
    """

    cells: tuple[str | Bar, ...]
    level: Level | Literal[""] = ""
    moment: tuple[float, float] | None = None


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        title: title of the table, which describes the rows.
        headings: headings of the columns, with units.
        rows: the rows.
        note: text below the table.
        is_text: whether the columns hold text, which is aligned to the left.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""
    is_text: bool = False


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


Part = Table | Text | TimePlots | PanelGrid


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a page under one heading; rows with a moment move the time plots beside them."""

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, eq=False)
class Page:
    """A report.

    Attributes:
        title: analysis and input, such as ``replay of push_1``.
        level: level of the verdict.
        verdict: the outcome in one sentence.
        warnings: reasons to doubt the outcome, the most serious first.
        notes: further information for the reader.
        facts: names and values of the input and the settings.
        sections: the sections of the page.
    """

    title: str
    level: Level
    verdict: str
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]


def number(value: float | None, digits: int = 2, unit: str = "", scale: float = 1.0) -> str:
    """Return a number of a report as text; ``-`` for None and NaN.

    Args:
        value: the number.
        digits: number of decimal places.
        unit: text after the number, with a space before it if needed.
        scale: factor of the number, for example 1000 to show seconds as milliseconds.
    """
    if value is None or math.isnan(value):
        return "-"
    shown = f"{scale * value:.{digits}f}"
    # No minus sign before a zero.
    return f"{shown.lstrip('-') if not float(shown) else shown}{unit}"


def vector(values: Sequence[float] | None) -> str:
    """Return a vector as text."""
    return "not observable" if values is None else " ".join(f"{value:.1f}" for value in values)


def count(number: int, what: str) -> str:
    """Return a count as text: ``1 contact``, ``2 contacts``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def bounded(rows: Iterable[Row], where: str) -> tuple[tuple[Row, ...], str]:
    """Return at most :data:`MOST_ROWS` rows, and a note about the omitted rows.

    Args:
        rows: all rows.
        where: name of the output with all rows, such as ``the JSON``.
    """
    every = tuple(rows)
    left = len(every) - MOST_ROWS
    return every[:MOST_ROWS], f"… and {left} more; {where} has all." if left > 0 else ""
