"""Results of a soak as tables for the terminal and as plain values."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import Any

from rich.markup import escape
from rich.table import Table

from bench.soak.run import Soak
from bench.soak.schedule import FAULTS


def verdict_table(soak: Soak) -> Table:
    """Return the table of the verdict, with a row for each requirement."""
    title = f"verdict after {soak.seconds / 60.0:.1f} min, seed {soak.seed}"
    table = Table(title=title, title_justify="left")
    table.add_column("what")
    table.add_column("measured", justify="right")
    table.add_column("at most", justify="right")
    table.add_column("")
    table.add_column("remark", overflow="fold")
    for line in soak.lines:
        met = "met" if line.met else "missed" if line.missed else "not judged"
        remark = "; ".join(filter(None, (line.doubt, line.remark)))
        measured = f"{line.measured:.3g}" if isfinite(line.measured) else ""
        table.add_row(escape(line.text), measured, f"{line.limit:g}", met, escape(remark))
    return table


def processes_table(soak: Soak) -> Table:
    """Return the table of processor time and memory of each node."""
    table = Table(title=f"processes, real-time priority {soak.priority}", title_justify="left")
    table.add_column("node")
    for heading in ("starts", "cores", r"memory \[MB]"):
        table.add_column(heading, justify="right")
    for name, process in soak.processes.items():
        last = next((life for life in reversed(process.lives) if life), [(0.0, 0)])
        megabytes = f"{last[-1][1] / 1024.0:.1f}"
        table.add_row(escape(name), str(process.starts), f"{process.cores:.2f}", megabytes)
    return table


def items_table(soak: Soak) -> Table:
    """Return the table of the number of executed items by kind."""
    table = Table(title="items", title_justify="left")
    table.add_column("kind")
    table.add_column("carried out", justify="right")
    for kind in ("push", "motion", *FAULTS):
        table.add_row(escape(kind), str(soak.items.get(kind, 0)))
    return table


def figures_table(soak: Soak) -> Table:
    """Return the table of further numbers (``Soak.figures``)."""
    table = Table(title="figures", title_justify="left")
    table.add_column("what")
    table.add_column("value", justify="right")
    for name, value in soak.figures.items():
        table.add_row(escape(name), f"{value:.6g}")
    return table


def as_json(soak: Soak, machine: dict[str, str]) -> dict[str, Any]:
    """Return all results as plain values for ``json``; None for missing numbers.

    Args:
        soak: the results.
        machine: description of the machine, from :func:`bench.speed.machine.machine`.
    """
    plain = asdict(soak)
    plain["lines"] = [
        {**asdict(line), "met": line.met, "missed": line.missed} for line in soak.lines
    ]
    finite: dict[str, Any] = _finite({**plain, "passed": soak.passed, "machine": machine})
    return finite


def _finite(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {key: _finite(value) for key, value in plain.items()}
    if isinstance(plain, (list, tuple)):
        return [_finite(value) for value in plain]
    return None if isinstance(plain, float) and not isfinite(plain) else plain
