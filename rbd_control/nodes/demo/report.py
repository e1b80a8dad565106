"""The result of the demo as a table and a picture."""

from __future__ import annotations

from io import BytesIO
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rbd_control.files.output_files import write_whole
from rbd_control.nodes.demo.result import RMS_LIMIT, DemoResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from rbd_control.estimation import ContactEvent

_TRUE, _FOUND = "tab:green", "tab:orange"


def print_demo(result: DemoResult, console: Console) -> None:
    """Print a table of detected and true contacts, the tracking error, and the failures."""
    table = Table(title="contacts, detected and true", title_justify="left")
    table.add_column("staged")
    for heading in ("onset [s]", "true [s]", "flag after [ms]"):
        table.add_column(escape(heading), justify="right")
    table.add_column("level")
    for heading in ("link", "true link"):
        table.add_column(escape(heading))
    for heading in ("force [N]", "true [N]"):
        table.add_column(escape(heading), justify="right")
    for contact, found in zip(result.contacts, result.score.contacts, strict=True):
        event = contact.event
        table.add_row(
            escape(contact.what),
            "missed" if event is None else f"{event.onset:.3f}",
            f"{contact.start:.3f}",
            "-" if found.delay is None else f"{1e3 * found.delay:.0f}",
            "-" if event is None else event.level,
            "-" if event is None else escape(_links(event)),
            escape(contact.link),
            "-" if event is None else _size(event.force),
            _size(contact.force),
        )
    console.print(table)
    rms = result.tracking_rms
    error = "unknown" if isnan(rms) else f"{1e3 * rms:.1f} mrad RMS over all joints"
    console.print(f"tracking error without contact: {error} (limit {1e3 * RMS_LIMIT:.0f} mrad)")
    console.print(
        f"{result.samples} samples in {result.duration:.1f} s of simulated time, verdict valid "
        f"for {result.log.valid_fraction:.1%}; {len(result.events)} contacts reported, "
        f"{result.score.false_events + result.score.repeated_events} of them wrongly"
    )
    for failure in result.failures:
        console.print(f"[bold red]failed:[/] {escape(failure)}")
    if not result.failures:
        console.print("[bold green]passed[/]")


def draw_demo(result: DemoResult, path: Path) -> None:
    """Write a PNG with tracking error, residual over threshold, and true and detected contacts."""
    # Imported here because this import takes longer than all others together.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 8.5), layout="constrained")
    tracking, residual, contacts = figure.subplots(3, 1, sharex=True, height_ratios=(2, 3, 1))
    figure.suptitle("simulated arm: tracking error, and contacts detected from joint torques alone")
    log = result.log
    lines = _draw_lines(
        tracking, log.tracking_error.times - result.first, 1e3 * log.tracking_error.values
    )
    tracking.set_ylabel("tracking error\n[mrad]")
    scaled = log.residual.values / log.thresholds
    _draw_lines(residual, log.residual.times - result.first, scaled)
    # Linear near the thresholds, logarithmic for the collision.
    residual.set_yscale("symlog", linthresh=2.0)
    residual.yaxis.set_major_formatter("{x:g}")
    residual.set_ylabel("estimated external torque\n/ contact threshold")
    residual.axhspan(-1.0, 1.0, color="0.93", zorder=0)
    for limit in (-1.0, 1.0):
        residual.axhline(limit, color="0.4", linewidth=0.9, linestyle="--")
    for axes in (tracking, residual):
        axes.margins(y=0.1)
        axes.grid(alpha=0.25)
        for contact in result.contacts:
            axes.axvspan(contact.start, contact.end, color=_TRUE, alpha=0.15, linewidth=0)
    _draw_contacts(contacts, result)
    figure.legend(lines, log.joints, loc="outside right upper", fontsize=8)
    contacts.set_xlabel("simulated time [s]")
    contacts.set_xlim(0.0, max(result.duration, 1e-3))
    figure.align_ylabels((tracking, residual))
    content = BytesIO()
    figure.savefig(content, dpi=110, format="png")
    write_whole(path, content.getvalue())


def _draw_lines(
    axes: Axes, times: NDArray[np.float64], values: NDArray[np.float64]
) -> list[Line2D]:
    lines = axes.plot(times, values, linewidth=0.8)
    for line, colour in zip(lines, _colours(len(lines)), strict=True):
        line.set_color(colour)
    return lines


def _draw_contacts(axes: Axes, result: DemoResult) -> None:
    def tell(start: float, end: float, row: float, colour: str, text: str) -> None:
        axes.broken_barh([(start, end - start)], (row - 0.35, 0.7), color=colour)
        late = start > 0.8 * result.duration
        axes.annotate(
            text,
            (end if late else start, row + (0.45 if row else -0.45)),
            fontsize=8,
            horizontalalignment="right" if late else "left",
            verticalalignment="top" if row else "bottom",
        )

    for contact in result.contacts:
        text = f"{contact.what}\n{_size(contact.force)} N"
        tell(contact.start, contact.end, 0, _TRUE, text)
    for event in result.events:
        end = result.duration if event.release is None else event.release
        text = f"{event.level} at {_links(event)}\n{_size(event.force)} N"
        tell(event.detected, end, 1, _FOUND, text)
    axes.set_ylim(2.3, -1.3)
    axes.set_yticks((0, 1), ("true", "detected"))
    axes.tick_params(axis="y", length=0)


def _colours(n: int) -> list[str]:
    palette = ("tab:blue", "tab:red", "tab:purple", "tab:brown", "tab:pink", "0.5", "tab:cyan")
    return [palette[i % len(palette)] for i in range(n)]


def _links(event: ContactEvent) -> str:
    return " or ".join(event.candidates)


def _size(force: NDArray[np.float64] | None) -> str:
    return "?" if force is None else f"{float(np.linalg.norm(force)):.1f}"
