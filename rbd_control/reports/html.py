"""Conversion of a report to one HTML file that needs neither network nor other files.

All texts are escaped in this module only. A content-security policy in the file prevents the
browser from loading anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files
from itertools import count

from rbd_control.reports.library import PlotLibrary
from rbd_control.reports.page import WORDS, Bar, Page, Row, Section, Table, Text
from rbd_control.reports.plots import COLOURS, PanelGrid, TimePlots
from rbd_control.wording import printable

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
    headings = "".join(f'<th scope="col">{_text(heading)}</th>' for heading in table.headings)
    rows = "\n".join(_row(row) for row in table.rows)
    kind = ' class="text"' if table.is_text else ""
    note = f'<p class="note">{_text(table.note)}</p>' if table.note else ""
    return (
        f'<h3>{_text(table.title)}</h3><div class="scroll"><table{kind}>'
        f"<thead><tr>{headings}</tr></thead><tbody>\n{rows}\n</tbody></table></div>{note}"
    )


def _row(row: Row) -> str:
    classes: list[str] = [row.level] if row.level else []
    data = ""
    if row.moment is not None:
        classes.append("jump")
        data = f' data-begin="{row.moment[0]:.6g}" data-end="{row.moment[1]:.6g}"'
    kind = f' class="{" ".join(classes)}"' if classes else ""
    cells = "".join(_cell(cell, row, k == 0) for k, cell in enumerate(row.cells))
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
