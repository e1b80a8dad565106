"""The library that draws the plots of a report: Bokeh, whose JavaScript is part of the HTML file.

Bokeh is well maintained, has the licence BSD-3-Clause, and stores series as compressed binary
arrays. Its package on PyPI includes its JavaScript of 1.3 MB (Plotly: 4.8 MB). The extra ``report``
installs it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.errors import RbdControlError
from rbd_control.reports.plots import COLOURS, Curve, Panel, SpanKind, TimePlots
from rbd_control.wording import shortened

if TYPE_CHECKING:
    from bokeh.models import ColumnDataSource
    from bokeh.plotting import figure as axes

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
