"""Results of the fuzzer as tables for the terminal and as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import nan
from typing import Any

from rich.markup import escape
from rich.table import Table

from bench.fuzz.result import Failure, FileResult, NodeCount, WireResult

Show = Callable[[str], None]

DETAIL = 110
"""Number of characters of a failure that the table shows; the report contains the full text."""


def inputs_table(result: WireResult) -> Table:
    """Return the table of the inputs by kind."""
    table = Table(title=f"inputs over the wire, seed {result.seed}", title_justify="left")
    table.add_column("kind")
    for heading in ("sent", "received", "skipped", "failures"):
        table.add_column(heading, justify="right")
    failures = Counter(failure.kind for failure in result.failures)
    for kind, row in sorted(result.kinds.items()):
        numbers = (row.sent, row.received, row.skipped, failures.pop(kind, 0))
        table.add_row(escape(kind), *map(str, numbers))
    for kind, count in failures.items():
        table.add_row(escape(kind), "", "", "", str(count))
    total = [sum(getattr(row, name) for row in result.kinds.values()) for name in _COLUMNS]
    table.add_section()
    table.add_row("all", *map(str, total), str(len(result.failures)))
    return table


def nodes_table(result: WireResult) -> Table:
    """Return the table of the counts and the memory of the nodes."""
    table = Table(title="nodes", title_justify="left")
    table.add_column("node")
    for heading in (
        "starts", "joint states used", "messages dropped", "trajectories refused",
        "lines of output", r"memory \[MB]", r"growth \[MB]",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for name, node in result.nodes.items():
        memory, growth = memory_of(node), growth_of(node)
        table.add_row(
            escape(name),
            str(node.starts),
            *(str(number) if number else "" for number in (node.counted["accepted"], node.dropped)),
            str(node.counted["trajectories refused"] or ""),
            str(node.lines),
            f"{memory:.0f}",
            f"{growth:.1f}",
        )
    return table


def failures_table(failures: Sequence[Failure]) -> Table:
    """Return the table of the failures, with one row for each cause."""
    table = Table(title="failures", title_justify="left")
    for heading in ("what", "where", "detail", "times", "inputs"):
        table.add_column(heading, overflow="fold")
    times = Counter(failure.signature for failure in failures)
    for failure in failures:
        count = times.pop(failure.signature, 0)
        if count:
            cells = (failure.what, failure.where, failure.detail[:DETAIL], str(count))
            table.add_row(*map(escape, cells), escape(failure.saved))
    return table


def files_table(result: FileResult) -> Table:
    """Return the table of the files by kind."""
    table = Table(title=f"files for the command line, seed {result.seed}", title_justify="left")
    table.add_column("kind")
    table.add_column("command")
    for heading in ("files", "accepted", "refused", "failures", r"longest \[s]"):
        table.add_column(heading, justify="right")
    for (kind, command), row in sorted(result.kinds.items()):
        numbers = (row.files, row.accepted, row.refused, row.failures)
        table.add_row(escape(kind), command, *map(str, numbers), f"{row.longest:.1f}")
    return table


def summary(result: WireResult) -> str:
    """Return a summary as text: inputs, failures, torques, and bursts with an active controller."""
    controller = result.orders
    return (
        f"{result.sent} inputs in {result.seconds:.0f} s; {len(result.failures)} failures; "
        f"{result.torques} torques on the wire, the largest {100.0 * result.largest_torque:.0f} % "
        f"of its limit; a controller was in charge at {controller['in charge']} of "
        f"{controller.total()} bursts"
        + (f"; not installed: {', '.join(result.unavailable)}" if result.unavailable else "")
    )


def memory_of(node: NodeCount) -> float:
    """Return the last resident memory of the last process of a node [MB]; NaN if unknown."""
    last = next((series for series in reversed(node.kilobytes) if series), None)
    return last[-1][1] / 1024.0 if last else nan


def growth_of(node: NodeCount) -> float:
    """Return the largest growth of a process of a node after its first tenth of inputs [MB]."""
    grown = [0.0]
    for series in node.kilobytes:
        if len(series) < 2:
            continue
        first, last = series[0][0], series[-1][0]
        settled = [used for sent, used in series if sent >= first + 0.1 * (last - first)]
        grown.append((settled[-1] - settled[0]) / 1024.0)
    return max(grown)


def wire_json(result: WireResult) -> dict[str, Any]:
    """Return all results of a run over the wire as plain values for ``json``."""
    # Counters and default dictionaries are made plain first: asdict cannot copy them.
    nodes = {
        name: vars(node) | {"counted": dict(node.counted)} for name, node in result.nodes.items()
    }
    plain = {
        **vars(result),
        "nodes": nodes,
        "kinds": {kind: vars(row) for kind, row in result.kinds.items()},
        "failures": [asdict(failure) for failure in result.failures],
    }
    plain["sent"] = result.sent
    plain["orders"] = dict(result.orders)
    plain["largest_torque_share"] = plain.pop("largest_torque")
    for name, node in result.nodes.items():
        nodes[name]["growth"] = growth_of(node)
    return plain


def files_json(result: FileResult) -> dict[str, Any]:
    """Return all results of a run with files as plain values for ``json``."""
    rows = sorted(result.kinds.items())
    return {
        "seed": result.seed,
        "seconds": result.seconds,
        "files": result.files,
        "growth": result.growth,
        "kinds": [
            {"kind": kind, "command": command, **asdict(row)} for (kind, command), row in rows
        ],
        "failures": [asdict(failure) for failure in result.failures],
    }


_COLUMNS = ("sent", "received", "skipped")
