"""Picture of the results of a soak: memory, gaps between torques, and contacts over time."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.soak.run import TIMEOUT, Soak
from bench.soak.verdict import SETTLING

CONFIGURING = 20.0
"""Time after the start of a process in which its memory is not drawn [s]."""


def draw(soak: Soak, path: Path) -> None:
    """Write the picture of a soak as a PNG file."""
    figure = Figure(figsize=(12.0, 9.0), layout="constrained")
    FigureCanvasAgg(figure)
    memory, gaps, contacts = figure.subplots(3, 1, sharex=True)
    _memory(memory, soak)
    _gaps(gaps, soak)
    _contacts(contacts, soak)
    contacts.set_xlabel("time [min]")
    contacts.set_xlim(0.0, soak.seconds / 60.0)
    figure.suptitle(f"soak of {soak.seconds / 60.0:.1f} min, seed {soak.seed}")
    figure.savefig(path, dpi=110)


def _memory(ax: Axes, soak: Soak) -> None:
    for name, process in soak.processes.items():
        color = None
        for life in process.lives:
            # A process that is still being configured would stretch the scale to 200 MB.
            configured = [each for each in life if each[0] >= life[0][0] + CONFIGURING]
            t = [at / 60.0 for at, _ in configured]
            above = [(used - configured[0][1]) / 1024.0 for _, used in configured]
            (drawn,) = ax.plot(t, above, color=color, label=None if color else name)
            color = drawn.get_color()
    ax.axvline(SETTLING / 60.0, color="k", lw=0.8, ls=":")
    ax.set_ylabel(f"memory since {CONFIGURING:g} s after\nthe start of a process [MB]")
    ax.legend(fontsize=8)


def _gaps(ax: Axes, soak: Soak) -> None:
    for excused, color, label in (
        (True, "tab:gray", "during an injected fault"),
        (False, "tab:red", "otherwise"),
    ):
        some = [
            (at / 60.0, 1e3 * gap) for at, gap, is_excused in soak.gaps if is_excused == excused
        ]
        ax.plot(
            [at for at, _ in some], [gap for _, gap in some], "o", ms=4, color=color, label=label
        )
    ax.axhline(1e3 * TIMEOUT, color="k", lw=0.8, ls=":")
    ax.set_ylabel("torque gaps over\nthe timeout [ms]")
    ax.legend(fontsize=8)


def _contacts(ax: Axes, soak: Soak) -> None:
    rows = (
        ("found", [at for at, found in soak.contacts if found], "tab:green"),
        ("not found", [at for at, found in soak.contacts if not found], "tab:red"),
        ("false", soak.false, "tab:orange"),
    )
    for height, (_, times, color) in enumerate(rows):
        ax.plot([at / 60.0 for at in times], [height] * len(times), "|", ms=14, color=color)
    ax.set_yticks(range(len(rows)), [f"{name}: {len(times)}" for name, times, _ in rows])
    ax.set_ylim(-0.5, len(rows) - 0.5)
    ax.set_ylabel("contacts")
