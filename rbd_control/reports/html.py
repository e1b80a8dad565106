"""Conversion of a report to one HTML file that needs neither network nor other files.

All texts are escaped in this module only. A content-security policy in the file prevents the
browser from loading anything. Bokeh draws the plots: it is well maintained, has the licence
BSD-3-Clause, and stores series as compressed binary arrays. Its package on PyPI includes its
JavaScript of 1.3 MB (Plotly: 4.8 MB). The extra ``report`` installs it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from rbd_control.errors import RbdControlError
from rbd_control.files.output_files import prepare_output, write_whole
from rbd_control.reports.console import WORDS
from rbd_control.reports.page import (
    COLOURS,
    Analysed,
    Bar,
    Curve,
    Page,
    Panel,
    PanelGrid,
    Row,
    Section,
    SpanKind,
    Table,
    Text,
    TimePlots,
)
from rbd_control.wording import printable, shortened

if TYPE_CHECKING:
    from bokeh.models import ColumnDataSource
    from bokeh.plotting import figure as axes

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
)
_SPANS = {
    "contact": "contact found",
    "collision": "collision found",
    "true": "true contact",
    "recording": "every other stretch of motion",
}
_LEFT_OUT = (
    "The plots are left out because bokeh is not installed: <code>pip install '.[report]'</code> "
    "in a clone of rbd_control."
)
_STEPS = (
    '<button type="button" data-order="previous">previous</button>'
    '<button type="button" data-order="next">next</button>'
)
_CLICK = "Click a row to see it at full resolution. "
_HINT = "Drag across a plot to zoom in; the vertical axes follow."


def html_of(page: Page, library: PlotLibrary | None) -> str:
    """Return a report as the text of an HTML file.

    Args:
        page: the content.
        library: the library that draws the plots; if None, a text in place of each group of plots
            says what to install.
    """
    renderer = _Renderer(library)
    body = "\n".join(renderer.section(section) for section in page.sections)
    warnings = _list("warnings", "Warning: ", page.warnings)
    notes = _list("notes", "Note: ", page.notes)
    facts = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in page.facts)
    scripts = renderer.scripts()
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{_text(page.title)}</title>
<style>
{_asset("report.css")}</style>
</head>
<body>
<h1>{_text(page.title)}</h1>
<p class="verdict {page.level}"><b>{WORDS[page.level]}</b> {_text(page.verdict)}</p>
{warnings}{notes}<dl>{facts}</dl>
{body}
{_footer(library)}
{scripts}</body>
</html>
"""


class _Renderer:
    """Renders the parts of one page; the data of all plots follows at the end of the file."""

    def __init__(self, library: PlotLibrary | None) -> None:
        self._library = library
        self._numbers = count(1)
        self._data: list[tuple[str, str]] = []
        self._has_moments = False

    def section(self, section: Section) -> str:
        self._has_moments = any(
            row.moment is not None
            for part in section.parts
            if isinstance(part, Table)
            for row in part.rows
        )
        parts = "\n".join(part for each in section.parts for part in self._part(each))
        heading = f"<h2>{_text(section.title)}</h2>" if section.title else ""
        return f"<section>{heading}\n{parts}\n</section>"

    def scripts(self) -> str:
        """Return the data of the plots, the library and the program of the page."""
        if self._library is None or not self._data:
            return ""
        data = "\n".join(
            f'<script type="application/json" id="{name}-data">{_script_data(text)}</script>'
            for name, text in self._data
        )
        library = (
            f"<!--\n{_comment(self._library.licence)}\n-->\n<script>{self._library.code}</script>"
        )
        return f"{data}\n{library}\n<script>\n{_asset('report.js')}</script>\n"

    def _part(self, part: Table | Text | TimePlots | PanelGrid) -> Iterator[str]:
        if isinstance(part, Text):
            yield f"<p>{_text(part.text)}</p>"
        elif isinstance(part, Table):
            yield _table(part)
        elif self._library is None:
            yield f'<p class="note">{_LEFT_OUT}</p>'
        elif isinstance(part, TimePlots):
            yield from self._time_plots(part, self._library)
        else:
            yield from self._grid(part, self._library)

    def _time_plots(self, plots: TimePlots, library: PlotLibrary) -> Iterator[str]:
        name = self._keep(library.time_plots(plots))
        yield (
            '<div class="controls">'
            '<button type="button" data-order="whole">whole time</button>'
            f"{_STEPS if self._has_moments else ''}"
            f'<span class="hint">{_CLICK if self._has_moments else ""}{_HINT}</span></div>'
        )
        yield _legend(plots)
        yield f'<div class="plots time" id="{name}" data-length="{plots.end:.6g}"></div>'
        yield f'<p class="note">{_text(plots.note)}</p>' if plots.note else ""

    def _grid(self, grid: PanelGrid, library: PlotLibrary) -> Iterator[str]:
        names = [self._keep(library.panel(panel)) for panel in grid.panels]
        yield _legend(grid)
        holders = "".join(f'<div class="plots" id="{name}"></div>' for name in names)
        yield f'<div class="grid">{holders}</div>'
        yield f'<p class="note">{_text(grid.note)}</p>' if grid.note else ""

    def _keep(self, data: str) -> str:
        """Store the JSON data of a plot for the page's end; return the id of its HTML element."""
        name = f"plot-{next(self._numbers)}"
        self._data.append((name, data))
        return name


def _table(table: Table) -> str:
    marked = ("level",) if table.is_marked else ()
    headings = "".join(
        f'<th scope="col">{_text(heading)}</th>' for heading in (*marked, *table.headings)
    )
    rows = "\n".join(_row(row, table.is_marked) for row in table.rows)
    kind = ' class="text"' if table.is_text else ""
    note = f'<p class="note">{_text(table.note)}</p>' if table.note else ""
    return (
        f'<h3>{_text(table.title)}</h3><div class="scroll"><table{kind}>'
        f"<thead><tr>{headings}</tr></thead><tbody>\n{rows}\n</tbody></table></div>{note}"
    )


def _row(row: Row, is_marked: bool) -> str:
    classes: list[str] = [row.level] if row.level else []
    data = ""
    if row.moment is not None:
        classes.append("jump")
        data = f' data-begin="{row.moment[0]:.6g}" data-end="{row.moment[1]:.6g}"'
    kind = f' class="{" ".join(classes)}"' if classes else ""
    marks = (WORDS[row.level],) if is_marked and row.level else ()
    cells = "".join(_cell(cell, row, k == 0) for k, cell in enumerate((*marks, *row.cells)))
    return f"<tr{kind}{data}>{cells}</tr>"


def _cell(cell: str | Bar, row: Row, is_first: bool) -> str:
    if isinstance(cell, Bar):
        share = min(max(cell.share, 0.0), 1.0)
        return f'<td class="bar" style="--share: {100.0 * share:.1f}%">{_text(cell.text)}</td>'
    if is_first and row.moment is not None:
        return f'<td><button type="button">{_text(cell)}</button></td>'
    return f"<td>{_text(cell)}</td>"


def _legend(plots: TimePlots | PanelGrid) -> str:
    """Return the legend of the plots as HTML, with one entry for each meaning of a colour."""
    entries = {
        curve.label: (COLOURS.get(curve.colour, curve.colour), "")
        for panel in plots.panels
        for curve in panel.curves
        if curve.label
    }
    for span in plots.spans if isinstance(plots, TimePlots) else ():
        colour = COLOURS[span.kind]
        kind = "true" if span.kind == "true" else "span"
        entries[_SPANS[span.kind]] = (colour, f' class="{kind}"')
    if any(panel.band for panel in plots.panels):
        entries["below the threshold"] = (COLOURS["limit"], ' class="span"')
    shown = "".join(
        f'<span><i{kind} style="--colour: {colour}"></i>{_text(label)}</span>'
        for label, (colour, kind) in entries.items()
    )
    return f'<div class="legend">{shown}</div>'


def _list(kind: str, word: str, texts: tuple[str, ...]) -> str:
    if not texts:
        return ""
    items = "".join(f"<li><b>{word}</b>{_text(text)}</li>" for text in texts)
    return f'<ul class="{kind}">{items}</ul>\n'


def _footer(library: PlotLibrary | None) -> str:
    drawn = f" Plots: {_text(library.name)}, licence in this file." if library else ""
    script = "<noscript> The plots need JavaScript.</noscript>" if library else ""
    return (
        "<footer>Times count from the first sample [s]. An external torque is what the environment "
        f"applies to the robot.{drawn}{script}</footer>"
    )


def _text(text: str) -> str:
    """Return text for HTML: escaped, without control characters."""
    return escape(printable(text))


def _script_data(text: str) -> str:
    """Return JSON such that it cannot end the script element it stands in."""
    return text.replace("<", "\\u003c")


def _comment(text: str) -> str:
    """Return text such that it cannot end the comment it stands in."""
    return text.replace("--", "- -").replace(">", "")


def _asset(name: str) -> str:
    return (files("rbd_control.reports") / "assets" / name).read_text(encoding="utf-8")


MISSING = (
    "the plots of an HTML report need bokeh, which is not installed: pip install '.[report]' in a "
    "clone of rbd_control"
)
"""Error message if the extra ``report`` is not installed."""

_INK = "#757c86"
"""Colour of axes and text, legible on white and on black."""

_TITLE = 60
"""Maximum length of the title of a panel [characters]."""

_LICENCE = """\
The following script is BokehJS {version} (https://bokeh.org), licence BSD-3-Clause, whose text
stands at its beginning. The rest of this file was made by rbd_control, licence Apache-2.0."""


@dataclass(frozen=True, eq=False)
class PlotLibrary:
    """The installed version of Bokeh.

    Attributes:
        name: name, version and licence, for the foot of the page.
        licence: text of the notice before the script.
        code: JavaScript of Bokeh, in a form that can stand in a ``<script>`` element.
    """

    name: str
    licence: str
    code: str

    @classmethod
    def load(cls) -> PlotLibrary:
        """Return the installed library.

        Raises:
            RbdControlError: if Bokeh is not installed; the message says what to install.
        """
        try:
            import bokeh
            from bokeh.resources import Resources
        except ImportError as error:
            raise RbdControlError(MISSING) from error
        code = "\n".join(Resources(mode="inline", components=["bokeh"]).js_raw)
        version = bokeh.__version__
        code = code.replace("</script", "<\\/script")
        return cls(f"BokehJS {version} (BSD-3-Clause)", _LICENCE.format(version=version), code)

    def time_plots(self, plots: TimePlots) -> str:
        """Return panels that share an axis of time, as JSON for ``Bokeh.embed.embed_item``.

        The curves are invisible at first; ``report.js`` reduces their points and shows them.
        """
        from bokeh.layouts import column
        from bokeh.models import Range1d

        shared = Range1d(0.0, max(plots.end, 1e-3), bounds=(0.0, max(plots.end, 1e-3)))
        sources: dict[int, ColumnDataSource] = {}
        figures = []
        for k, panel in enumerate(plots.panels):
            is_last = k == len(plots.panels) - 1
            figure = _figure(panel, 150 if is_last else 118, x_range=shared)
            figure.xaxis.visible = is_last
            for kind in dict.fromkeys(span.kind for span in plots.spans):
                chosen = [span for span in plots.spans if span.kind == kind]
                figure.vstrip(
                    x0=[span.begin for span in chosen],
                    x1=[span.end for span in chosen],
                    line_color=COLOURS[kind],
                    line_alpha=0.5,
                    **_filling(kind),
                )
            _draw(figure, panel, sources, time_axis=True)
            figures.append(figure)
        return _json(column(figures, sizing_mode="stretch_width"))

    def panel(self, panel: Panel) -> str:
        """Return one panel with axes of its own, as JSON for ``Bokeh.embed.embed_item``."""
        figure = _figure(panel, 240)
        _draw(figure, panel, {}, time_axis=False)
        return _json(figure)


def _figure(panel: Panel, height: int, x_range: Any = None) -> axes:
    """Return empty axes of one panel."""
    from bokeh.models import BoxAnnotation, BoxZoomTool, PlainText, Range1d, ResetTool, Span
    from bokeh.plotting import figure

    zoom = BoxZoomTool(dimensions="width" if x_range is not None else "both")
    made = figure(
        height=height,
        sizing_mode="stretch_width",
        min_width=200,
        tools=[zoom, ResetTool()],
        toolbar_location=None,
        output_backend="canvas",
        tags=["threshold"] if panel.band else [],
        **({} if x_range is None else {"x_range": x_range}),
    )
    if x_range is not None:
        made.y_range = Range1d(-1.0, 1.0)
    # Plain text, because Bokeh interprets text between dollar signs as a formula.
    made.title.text = PlainText(text=shortened(panel.title, _TITLE))
    made.xaxis.axis_label = PlainText(text=panel.x_label)
    made.yaxis.axis_label = PlainText(text=panel.y_label)
    made.title.text_color = _INK
    made.title.text_font_size = "12px"
    made.background_fill_color = made.border_fill_color = None
    made.outline_line_color = _INK
    made.outline_line_alpha = 0.35
    made.grid.grid_line_color = _INK
    made.grid.grid_line_alpha = 0.22
    made.yaxis.fixed_location = None
    for axis in made.axis:
        axis.axis_label_text_color = axis.major_label_text_color = _INK
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_font_size = axis.major_label_text_font_size = "11px"
        axis.axis_line_color = axis.major_tick_line_color = _INK
        axis.minor_tick_line_color = None
    made.yaxis.ticker.desired_num_ticks = 4 if x_range is not None else 6
    made.min_border_left = 62
    if panel.band:
        low, high = panel.band
        made.add_layout(
            BoxAnnotation(bottom=low, top=high, fill_color=_INK, fill_alpha=0.12, line_color=None)
        )
        for limit in panel.band:
            made.add_layout(
                Span(location=limit, dimension="width", line_color=_INK, line_dash="dashed")
            )
    return made


def _draw(
    figure: axes, panel: Panel, sources: dict[int, ColumnDataSource], time_axis: bool
) -> None:
    """Add the curves of a panel to its axes.

    Args:
        figure: the axes.
        panel: the panel.
        sources: data sources by ``id`` of their array x; curves with the same array share one.
        time_axis: whether x is the shared time, so that ``report.js`` reduces and shows the curves.
    """
    from bokeh.models import ColumnDataSource

    for curve in panel.curves:
        source = sources.setdefault(id(curve.x), ColumnDataSource({"x": np.asarray(curve.x)}))
        name = f"y{len(source.data)}"
        source.data[name] = _compact(curve)
        colour = COLOURS.get(curve.colour, curve.colour)
        if curve.style == "points":
            figure.scatter(
                "x", name, source=source, size=3, color=colour, alpha=0.45, line_color=None
            )
        else:
            dash = "dashed" if curve.style == "dashed" else "solid"
            width = 1.1 if time_axis else 1.8
            # The page draws only as many points of a curve over time as are distinguishable.
            figure.line(
                "x",
                name,
                source=source,
                color=colour,
                line_width=width,
                line_dash=dash,
                visible=not time_axis,
            )


def _compact(curve: Curve) -> NDArray[np.float32]:
    return np.asarray(curve.y, dtype=np.float32)


def _filling(kind: SpanKind) -> dict[str, Any]:
    """Return the fill of a span; true contacts are hatched, to be visible below detected ones."""
    if kind == "true":
        return {
            "fill_color": None,
            "hatch_pattern": "right_diagonal_line",
            "hatch_color": COLOURS[kind],
            "hatch_alpha": 0.7,
            "hatch_scale": 9.0,
        }
    return {"fill_color": COLOURS[kind], "fill_alpha": 0.2}


def _json(model: Any) -> str:
    """Return a model with its data as JSON."""
    from bokeh.embed import json_item

    return json.dumps(json_item(model), ensure_ascii=True, separators=(",", ":"))


@dataclass(frozen=True)
class HtmlOutput:
    """The HTML files that one command writes.

    Attributes:
        file: the file of ``--html``; None without this option.
        beside: the HTML file in the folder of ``--report``; None without this option.
    """

    file: Path | None
    beside: Path | None

    @classmethod
    def of(cls, file: Path | None, folder: Path | None, name: str) -> HtmlOutput:
        """Return the requested files of a command, checked before its work begins.

        The folder of ``file`` is created; ``folder`` is neither checked nor created.

        Args:
            file: value of ``--html``, or None.
            folder: value of ``--report``, or None.
            name: name of the HTML file in ``folder``.

        Raises:
            RbdControlError: for ``--html`` if the extra ``report`` (Bokeh) is not installed.
            OSError: naming ``file``, if it cannot be written.
        """
        if file is not None:
            PlotLibrary.load()
            prepare_output(file)
        return cls(file, None if folder is None else folder / name)

    @classmethod
    def of_command(cls, arguments: argparse.Namespace, name: str, result: str) -> HtmlOutput:
        """Return the requested HTML files, after checking all outputs before the work begins.

        The folders of ``--json``, ``--report`` and ``--html`` are created.

        Args:
            arguments: parsed arguments of the command, with ``json``, ``report`` and ``html``.
            name: name of the HTML file in the folder of ``--report``.
            result: name of another file that the command writes into that folder; it stands for all
                of them in the check.

        Raises:
            RbdControlError: for ``--html`` if the extra ``report`` (Bokeh) is not installed.
            OSError: naming a file that cannot be written.
        """
        if arguments.json:
            prepare_output(arguments.json)
        if arguments.report:
            prepare_output(arguments.report / result)
        return cls.of(arguments.html, arguments.report, name)

    @property
    def is_wanted(self) -> bool:
        """Whether any file is to be written."""
        return self.file is not None or self.beside is not None

    def write(self, page: Page, console: Console) -> None:
        """Write the report to each requested file, and print the names of the files.

        If the extra ``report`` (Bokeh) is not installed, the report has no plots, and a note is
        printed.

        Raises:
            OSError: naming a file that cannot be written.
        """
        if not self.is_wanted:
            return
        try:
            library: PlotLibrary | None = PlotLibrary.load()
        except RbdControlError as error:
            library = None
            note = f"note: {self.beside} has no plots: {error.message}"
            console.print(note, markup=False, soft_wrap=True)
        content = html_of(page, library).encode("utf-8", errors="backslashreplace")
        for path in (self.file, self.beside):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, content)
                console.print(f"HTML in {path}", markup=False, soft_wrap=True)


def analysed_now(
    recordings: Sequence[Path], robot: str = "", config: Path | None = None
) -> Analysed:
    """Return the input of an analysis for its report, with the present date and time.

    Args:
        recordings: paths of the recordings.
        robot: path or name of the robot description; empty if the parameter file names it, or if it
            is unknown.
        config: parameter file; None for defaults.
    """
    made = datetime.now().astimezone()
    return Analysed(tuple(map(str, recordings)), robot, str(config) if config else "", made)
