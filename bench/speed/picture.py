"""Picture of the results: EW21's Figures 2 to 4, S18's comparison of algorithms for M, and ratios.

The ratios are those of our times to Pinocchio's on the robots.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from bench.speed.contest import Timing
from bench.speed.ew21 import PUBLISHED, curve, of_family, slope
from bench.speed.mechanisms import PUBLISHED_SIZE
from bench.speed.quantities import Column, Quantity

SHOWN = {Quantity.TERMS: ("C", "tab:blue"), Quantity.CHRISTOFFEL: ("Γ", "tab:red")}
STYLES = {Column.LOOP: ("ours", "-", "o"), Column.PINOCCHIO_CPP: ("Pinocchio C++", ":", ".")}

FACTS_WIDTH = 200
"""Length of a line of facts about the machine [characters]; longer lines would be cut off."""


def draw(timings: Sequence[Timing], machine: dict[str, str], path: Path) -> None:
    """Write the picture of ``timings`` as a PNG file.

    Args:
        timings: the measurements.
        machine: description of the machine, from :func:`bench.speed.machine.machine`.
        path: the PNG file.
    """
    figure = Figure(figsize=(15.0, 10.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 3)
    for ax, title, families in zip(
        axes[0],
        ("serial chains (EW21 Fig. 2)", "binary trees (EW21 Fig. 3)", "legs (EW21 Fig. 4)"),
        (["chain"], ["binary tree"], ["biped", "quadruped"]),
        strict=True,
    ):
        if any(timing.mechanism.family in families for timing in timings):
            _growth(ax, timings, families)
            ax.set_title(title)
        else:
            ax.set_axis_off()
    if any(timing.mechanism.family == "chain" for timing in timings):
        _gdahj(axes[1, 0], timings)
    else:
        axes[1, 0].set_axis_off()
    _ratios(axes[1, 1], timings, Column.FROZEN, Column.PINOCCHIO, "robots: frozen, from Python")
    _ratios(
        axes[1, 2], timings, Column.LOOP, Column.PINOCCHIO_CPP, "robots: frozen in a compiled loop"
    )
    facts = "  ·  ".join(f"{name} {value}" for name, value in machine.items())
    figure.suptitle(fill(facts, FACTS_WIDTH), fontsize=8)
    figure.savefig(path, dpi=110)


def _growth(ax: Axes, timings: Sequence[Timing], families: list[str]) -> None:
    for family, alpha in zip(families, (1.0, 0.5), strict=False):
        for quantity, (symbol, color) in SHOWN.items():
            members = of_family(timings, family, quantity)
            for column, (who, line, marker) in STYLES.items():
                points = curve(members, column)
                if points:
                    name = f"{family}: " if len(families) > 1 else ""
                    power = slope(points)
                    growth = f", $N^{{{power:.1f}}}$" if np.isfinite(power) else ""
                    label = f"{name}{symbol}, {who}{growth}"
                    style: dict[str, Any] = {
                        "color": color,
                        "alpha": alpha,
                        "marker": marker,
                        "label": label,
                    }
                    ax.plot(list(points), list(points.values()), line, **style)
            published = PUBLISHED[family][quantity]
            ax.plot(PUBLISHED_SIZE, published, "*", color=color, alpha=alpha, markersize=13)
    ax.plot([], [], "*", color="black", label="EW21 Table 1 (i7, 3.2 GHz)")
    _by_joints(ax)


def _gdahj(ax: Axes, timings: Sequence[Timing]) -> None:
    for quantity, name, color in (
        (Quantity.GDAHJ, "GDAHJ", "tab:green"),
        (Quantity.MASS, "CRBA", "tab:purple"),
    ):
        points = curve(of_family(timings, "chain", quantity), Column.BATCH)
        ax.plot(list(points), list(points.values()), "o-", color=color, label=f"{name}, ours")
    theirs = curve(of_family(timings, "chain", Quantity.MASS), Column.PINOCCHIO_CPP)
    ax.plot(list(theirs), list(theirs.values()), ".:", color="tab:purple", label="CRBA, Pinocchio")
    ax.axvline(13.0, color="gray", linewidth=0.8, label="S18: GDAHJ faster from 13 on")
    ax.set_title("M of serial chains (S18 Fig. 4)")
    _by_joints(ax)


def _by_joints(ax: Axes) -> None:
    ax.set(xscale="log", yscale="log", xlabel="number of joints", ylabel="time per state [µs]")
    ax.set_xticks([5, 10, 20, 50, 100])
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.grid(alpha=0.3)
    _legend(ax, columns=2)


def _legend(ax: Axes, columns: int) -> None:
    """Put the legend below the axes, where it hides no curve and no bar."""
    ax.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=columns, fontsize=8, frameon=False
    )


def _ratios(
    ax: Axes, timings: Sequence[Timing], column: Column, reference: Column, where: str
) -> None:
    robots = list(dict.fromkeys(t.mechanism.name for t in timings if not t.mechanism.family))
    quantities = [quantity for quantity in Quantity if quantity is not Quantity.GDAHJ]
    height = 0.8 / max(len(robots), 1)
    for i, robot in enumerate(robots):
        ratios = {
            t.quantity: t.ratio(column, reference) for t in timings if t.mechanism.name == robot
        }
        found = [
            (k + (i - (len(robots) - 1) / 2.0) * height, ratio)
            for k, quantity in enumerate(quantities)
            if (ratio := ratios.get(quantity)) is not None
        ]
        median = np.array([ratio.median for _, ratio in found])
        spread = [[r.median - r.low for _, r in found], [r.high - r.median for _, r in found]]
        ax.barh([y for y, _ in found], median, height, xerr=spread, label=robot)
    ax.axvline(1.0, color="black", linewidth=0.8)
    ax.set_yticks(range(len(quantities)), [quantity.value for quantity in quantities])
    ax.invert_yaxis()
    ax.set_xlabel("time divided by Pinocchio's time")
    ax.set_title(where)
    ax.grid(axis="x", alpha=0.3)
    _legend(ax, columns=4)
