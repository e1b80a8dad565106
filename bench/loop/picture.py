"""Picture of the results of the loop: distribution of the latencies, and memory over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.loop.run import Loop
from bench.loop.sheet import P99

COLORS = {"one hop": "tab:gray", "torque": "tab:blue", "external torque": "tab:red"}


def draw(loops: Sequence[Loop], machine: dict[str, str], path: Path) -> None:
    """Write the picture as a PNG file with one row per run.

    Args:
        loops: results of the runs.
        machine: description of the machine, from :func:`bench.speed.machine.machine`.
        path: the PNG file.
    """
    figure = Figure(figsize=(12.0, 4.0 * len(loops) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(loops), 2, squeeze=False)
    for (left, right), loop in zip(axes, loops, strict=True):
        _latencies(left, loop)
        _memory(right, loop)
    about = [machine["processor"], f"load {machine['load']}", machine["system"]]
    figure.suptitle("  ·  ".join(about), fontsize=8)
    figure.savefig(path, dpi=110)


def _latencies(ax: Axes, loop: Loop) -> None:
    series = zip(COLORS, (loop.one_hop, loop.torque, loop.residual), strict=True)
    for what, answers in series:
        took = np.sort(answers.milliseconds)
        if took.size:
            longer = 1.0 - np.arange(took.size) / took.size
            ax.loglog(took, longer, color=COLORS[what], label=f"joint state to {what}")
    ax.axvline(P99, color="k", lw=0.8, ls=":")
    ax.axhline(0.01, color="k", lw=0.8, ls=":")
    ax.set_title(f"{loop.achieved:.0f} joint states per second, {loop.setup}")
    ax.set_xlabel("latency [ms]")
    ax.set_ylabel("share that takes longer")
    ax.legend(fontsize=8)


def _memory(ax: Axes, loop: Loop) -> None:
    for name, used in loop.usage.items():
        if name != "bench" and used.kilobytes:  # this process stores all messages
            above = (np.array(used.kilobytes) - used.kilobytes[0]) / 1024.0
            ax.plot(used.seconds, above, label=f"{name}, {used.core:.2f} cores")
    ax.set_title("memory since the beginning")
    ax.set_xlabel("time [s]")
    ax.set_ylabel("[MB]")
    ax.legend(fontsize=8)
