"""Content of a report without any markup: outcome, warnings, facts, tables and plots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rbd_control import __version__
from rbd_control.parameters import Parameters
from rbd_control.reports.console import ConsoleTable

Array = NDArray[np.float64]

Colour = Literal["residual", "before", "true", "found", "limit"]
Style = Literal["line", "points", "dashed"]
SpanKind = Literal["contact", "collision", "true", "recording"]

COLOURS: dict[str, str] = {
    "residual": "#3d85d6",
    "before": "#9aa0a8",
    "true": "#2fa36b",
    "found": "#e07b2a",
    "limit": "#80868f",
    "contact": "#e07b2a",
    "collision": "#d8345f",
    "recording": "#9aa0a8",
}
"""CSS colours of curves and spans (shaded intervals) by kind, legible on white and on black."""

PALETTE = ("#3d85d6", "#d8345f", "#9367c9", "#a9713f", "#2fa36b", "#e07b2a", "#1fa6b5", "#c25fa8")
"""CSS colours for curves of several joints in one panel, in the order of the joints."""


@dataclass(frozen=True, eq=False)
class Curve:
    """One curve; NaN in ``y`` interrupts it.

    Attributes:
        label: entry in the legend; curves with equal labels share one entry; empty for none.
        x, y: points of the curve, (k,) each. Curves that share the array ``x`` store it once.
        colour: a key of :data:`COLOURS`, or a CSS colour.
        style: style of the line or the points.
    """

    label: str
    x: Array
    y: Array
    colour: str = "residual"
    style: Style = "line"


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes with its curves.

    Attributes:
        title: the joint or quantity.
        curves: the curves.
        x_label, y_label: labels of the axes with their units.
        band: lower and upper limit of the range of y below the threshold, which is shaded; None if
            nothing is shaded.
    """

    title: str
    curves: tuple[Curve, ...]
    x_label: str = ""
    y_label: str = ""
    band: tuple[float, float] | None = None


@dataclass(frozen=True)
class Span:
    """An interval of time that is shaded in all panels.

    Attributes:
        begin, end: the interval [s].
        kind: reason for the shading: a detected ``contact`` or ``collision``, a ``true`` contact,
            or ``recording`` for every second continuous motion of a calibration; the motions
            follow each other on one axis of time.
    """

    begin: float
    end: float
    kind: SpanKind


@dataclass(frozen=True, eq=False)
class TimePlots:
    """Panels below each other that share one axis of time.

    A click on a row of a table with a ``moment`` shows the row's interval of time on this axis.

    Attributes:
        panels: the panels, the first on top.
        end: end of the axis [s]; it begins at 0.
        spans: shaded intervals.
        note: text below the panels.
    """

    panels: tuple[Panel, ...]
    end: float
    spans: tuple[Span, ...] = ()
    note: str = ""


@dataclass(frozen=True, eq=False)
class PanelGrid:
    """Panels side by side, each with axes of its own.

    Attributes:
        panels: the panels.
        note: text below the panels.
    """

    panels: tuple[Panel, ...]
    note: str = ""


Level = Literal["good", "doubtful", "bad"]

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

    def __str__(self) -> str:
        return self.text


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
        left: headings of single columns of text, which a console aligns to the left.
        no_wrap: headings of columns whose texts a console never wraps.
        is_marked: whether the label of the row's level stands before each row.
        keys: number of columns at the left that name the row; a console repeats them.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""
    is_text: bool = False
    left: tuple[str, ...] = ()
    no_wrap: tuple[str, ...] = ()
    is_marked: bool = False
    keys: int = 1

    def shown(self, most: int = MOST_ROWS, where: str = "the JSON") -> Table:
        """Return the table with at most ``most`` rows and a note about the others.

        Args:
            most: maximum number of rows.
            where: name of the output with all rows, for the note.
        """
        left = len(self.rows) - most
        more = f"… and {left} more; {where} has all" if left > 0 else ""
        return replace(self, rows=self.rows[:most], note=f"{self.note} {more}".strip())

    def on_console(self, names: Iterable[str] = ()) -> ConsoleTable:
        """Return the table for a console; the header is left out if all headings are empty.

        Args:
            names: names of the joints, see :class:`~rbd_control.reports.console.ConsoleTable`.
        """
        return ConsoleTable(self, tuple(names))


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


def of_units(title: str, units: Iterable[str]) -> str:
    """Return the title of a table of joints, with a remark if a unit is that of a prismatic one."""
    return f"{title} (prismatic joints: N and m)" if "N" in set(units) else title


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


_LISTED = 10
"""Maximum number of recordings that are listed by name."""


@dataclass(frozen=True)
class Analysed:
    """The input of the analysis that a report describes.

    Attributes:
        recordings: paths of the recordings; empty for a run of the demo.
        robot: path or name of the robot description, or path of an arm file; empty if the parameter
            file names it, or if it is unknown.
        config: path of the parameter file; empty for an arm file or defaults.
        made: date and time of the report.
    """

    recordings: tuple[str, ...]
    robot: str
    config: str
    made: datetime

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return the input as pairs of name and value for the report.

        At most ten recordings are listed; the others are counted.
        """
        facts = [("recording", recording) for recording in self.recordings[:_LISTED]]
        left = len(self.recordings) - _LISTED
        if left > 0:
            facts.append(("", f"and {left} more recordings"))
        if self.robot or self.config:
            facts.append(
                ("robot description", self.robot or "of the parameter file or the recording")
            )
            arm_file = self.robot if self.robot.endswith((".yaml", ".yml")) else ""
            facts.append(("parameters", self.config or arm_file or "defaults"))
        facts.append(
            ("made", f"{self.made:%Y-%m-%d %H:%M %Z}".strip() + f" by rbd-control {__version__}")
        )
        return tuple(facts)


def changed(parameters: Parameters) -> tuple[tuple[str, str], ...]:
    """Return name and value, as text with its unit, of each parameter that is not a default."""
    found = []
    for item in fields(parameters):
        value = getattr(parameters, item.name)
        if value != item.default:
            several = isinstance(value, tuple)
            shown = ", ".join(map(_shown, value)) if several else _shown(value)
            found.append((item.name, f"{shown} {item.metadata.get('unit', '')}".strip()))
    return tuple(found)


def _shown(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
