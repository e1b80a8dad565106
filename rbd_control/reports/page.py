"""Content of a report without any markup: outcome, warnings, facts, tables and plots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rbd_control.reports.plots import PanelGrid, TimePlots

Level = Literal["good", "doubtful", "bad"]

WORDS: dict[Level, str] = {"good": "GOOD", "doubtful": "LOOK", "bad": "WRONG"}
"""Label of each level on the page."""

MOST_ROWS = 500
"""Maximum number of rows of a table; further rows are left out."""


@dataclass(frozen=True)
class Bar:
    """A cell of a table with a bar behind its text, for a comparison of values.

    Attributes:
        text: the text.
        share: length of the bar as a fraction of the cell, in [0, 1].
    """

    text: str
    share: float


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        cells: texts, the first one names the row.
        level: marks the row as good, doubtful or bad; empty for no mark.
        moment: begin and end [s] of the time interval that the plots show when the row is clicked;
            None if the row cannot be clicked.
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
        is_text: whether the columns hold text, which is aligned to the left, and not numbers.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""
    is_text: bool = False


@dataclass(frozen=True)
class Text:
    """A paragraph of plain text."""

    text: str


Part = Table | Text | TimePlots | PanelGrid


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a page under one heading.

    A click on a row with a ``moment`` moves the axis of time of the first time plots in the same
    section.

    Attributes:
        title: the heading; empty for none.
        parts: tables, paragraphs and plots, from top to bottom.
    """

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, eq=False)
class Page:
    """The content of a report.

    Attributes:
        title: analysis and input, such as ``Check of push_1``.
        level: level of the outcome.
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
        value: the number, before scaling.
        digits: number of decimal places.
        unit: text directly after the number; begin it with a space if needed, as in ``" ms"``.
        scale: factor of the number, for example 1000 to show seconds as milliseconds.
    """
    if value is None or math.isnan(value):
        return "-"
    shown = f"{scale * value:.{digits}f}"
    # No minus sign before a zero.
    return f"{shown.lstrip('-') if not float(shown) else shown}{unit}"


def vector(values: Sequence[float] | None) -> str:
    """Return a vector as text with one decimal place; ``not observable`` for None."""
    return "not observable" if values is None else " ".join(f"{value:.1f}" for value in values)


def count(number: int, what: str) -> str:
    """Return a number with its noun, given in the singular: ``1 contact``, ``2 contacts``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def bounded(rows: Iterable[Row], where: str) -> tuple[tuple[Row, ...], str]:
    """Return at most :data:`MOST_ROWS` rows, and a note about the omitted rows.

    Args:
        rows: all rows.
        where: name of the output with all rows, for the note, such as ``the JSON``.

    Returns:
        The rows, and the note; it is empty if no row is omitted.
    """
    every = tuple(rows)
    left = len(every) - MOST_ROWS
    return every[:MOST_ROWS], f"… and {left} more; {where} has all." if left > 0 else ""
