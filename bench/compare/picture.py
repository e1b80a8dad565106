"""Picture of the tracking errors: by law and joint, while a payload is learned, and at rest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, ScalarFormatter

from bench.compare.laws import DESIRED, FIXED, FRICTION_AT
from bench.compare.study import PAYLOAD, WINDOW, Learning, Tracking

COLORS = dict(zip(FIXED, ("tab:orange", "tab:green", "tab:blue"), strict=True))


def draw(results: Sequence[Tracking], learned: Sequence[Learning], path: Path) -> None:
    """Write the picture as a PNG file with one row per arm.

    Args:
        results: tracking errors of each law on each specimen.
        learned: results with an unknown payload, one per arm.
        path: the PNG file.
    """
    arms = list(dict.fromkeys(result.arm for result in results))
    figure = Figure(figsize=(15.0, 4.2 * len(arms)), layout="constrained")
    FigureCanvasAgg(figure)
    rows = figure.subplots(len(arms), 3, squeeze=False)
    cases = {case.arm: case for case in learned}
    for (left, middle, right), arm in zip(rows, arms, strict=True):
        _joints(left, [result for result in results if result.arm == arm])
        left.set_title(f"{arm}: tracking, mean over specimens")
        _learning(middle, cases[arm])
        middle.set_title(f"{arm}: unknown payload of {PAYLOAD:g} kg, Slotine-Li")
        _rest(right, cases[arm])
        right.set_title(f"{arm}: then at rest, learning on")
    bars = rows[0, 0].get_legend_handles_labels()
    figure.legend(*bars, loc="outside upper left", ncols=6, fontsize=9)
    figure.savefig(path, dpi=110)


def _joints(ax: Axes, results: Sequence[Tracking]) -> None:
    """Draw bars by joint: solid with friction compensation at v_d, hatched at v_r."""
    count = len(results[0].joints)
    x, width = np.arange(count + 1), 0.8 / (len(FIXED) * len(FRICTION_AT))
    for i, law in enumerate(FIXED):
        for j, friction_at in enumerate(FRICTION_AT):
            mine = [r for r in results if (r.law, r.friction_at) == (law, friction_at)]
            each = np.mean([r.joints for r in mine], axis=0)
            heights = 1e3 * np.append(each, np.mean([r.error for r in mine]))
            shift = (len(FRICTION_AT) * i + j - 2.5) * width
            style = {"alpha": 1.0} if friction_at == DESIRED else {"alpha": 0.45, "hatch": "//"}
            label = f"{law}, {friction_at}"
            ax.bar(x + shift, heights, width, color=COLORS[law], label=label, **style)
    ax.set_xticks(x, [*(f"joint {k + 1}" for k in range(count)), "all"], fontsize=8)
    ax.set(yscale="log", ylabel="RMS error [mrad]")
    ax.yaxis.set_major_formatter(ScalarFormatter())
    ax.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))  # more labels overlap
    ax.yaxis.set_minor_formatter(ScalarFormatter())
    ax.tick_params(axis="y", which="minor", labelsize=7)
    ax.grid(axis="y", alpha=0.3)


def _learning(ax: Axes, case: Learning) -> None:
    t = WINDOW * (np.arange(len(case.fixed)) + 0.5)
    ax.plot(t, 1e3 * np.array(case.fixed), "o-", color="tab:gray", label="fixed: error")
    ax.plot(t, 1e3 * np.array(case.adaptive), "o-", color="tab:blue", label="adaptive: error")
    ax.set(xlabel=f"time [s], windows of {WINDOW:g} s", ylabel="RMS error [mrad]", ylim=(0.0, None))
    ax.grid(alpha=0.3)
    masses = ax.twinx()
    masses.plot(t + WINDOW / 2.0, case.mass, ".:", color="tab:red", label="learned mass")
    masses.axhline(PAYLOAD, color="tab:red", linewidth=0.8, alpha=0.5)
    masses.set_ylabel("mass [kg]", color="tab:red")
    masses.set_ylim(0.0, 1.5 * PAYLOAD)
    lines = [*ax.get_lines(), masses.get_lines()[0]]
    ax.legend(lines, [str(line.get_label()) for line in lines], fontsize=7, loc="center right")


def _rest(ax: Axes, case: Learning) -> None:
    if not case.rest_error:
        ax.set_axis_off()
        return
    minutes = np.arange(1, len(case.rest_error) + 1)
    errors = 1e3 * np.array(case.rest_error)
    ax.plot(minutes, errors, color="tab:blue")
    ax.set(xlabel="time [min]", ylabel="RMS error [mrad]", ylim=(0.0, 1.5 * errors.max()))
    ax.grid(alpha=0.3)
    masses = ax.twinx()
    masses.plot(minutes, case.rest_mass, ":", color="tab:red")
    masses.set_ylabel("mass [kg]", color="tab:red")
    masses.set_ylim(0.0, 1.5 * PAYLOAD)
