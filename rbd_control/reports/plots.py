"""Content of the plots of a report, independent of the library that draws them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

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
