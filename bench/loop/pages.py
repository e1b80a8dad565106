"""Tables of docs/speed.md from the results of ``make bench-loop``, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan

from bench.loop.figures import Latency
from bench.loop.run import CONTROLLER, NODES, ONE, TWO, Loop, Usage
from bench.loop.sheet import CORE, LEAST_RATE, P99, TARGET_RATE, losses
from bench.loop.watching import VIEW
from bench.speed.sheets import Sheet

DETECTOR = "contact_detector"

WAYS: dict[str, Callable[[Loop], Latency]] = {
    "torque": lambda loop: loop.torque.latency,
    "external torque": lambda loop: loop.residual.latency,
    "contact flag": lambda loop: loop.flag,
}
"""Answers to a joint state, and functions that return their latencies from a run."""


def page(loops: Sequence[Loop], facts: str, staged: Sequence[Loop] = ()) -> str:
    """Return the tables as one Markdown file.

    Args:
        loops: results of the runs: one for each rate and arrangement, without and with the view.
        facts: description of the machine, a list in Markdown.
        staged: results of the runs that measure the stages, one for each rate.
    """
    sheets = [_readme(loop) for loop in loops if _is_in_readme(loop)]
    sheets += [_latencies(loops), _processes(loops), *map(_stages, staged)]
    title = "# Tables of docs/speed.md, from `python -m bench.loop`\n"
    return "\n".join([title, facts, "", *(sheet.markdown() for sheet in sheets)])


def _is_in_readme(loop: Loop) -> bool:
    """Return whether controller and detector ran as two processes, without the view."""
    return (loop.rate, loop.setup) == (TARGET_RATE, TWO.name)


def _readme(loop: Loop) -> Sheet:
    """Return latencies, load and losses at 1 kHz beside the targets."""
    rows = [
        [
            f"joint state to {what}, p50 and p99 [ms]",
            f"{_ms(latency(loop).median)}, {_ms(latency(loop).p99)}",
            f"-, {P99:g}",
        ]
        for what, latency in WAYS.items()
    ]
    rows += [
        [f"{DETECTOR}, share of a core", f"{loop.usage[DETECTOR].core:.2f}", f"{CORE:g}"],
        ["lost samples", str(max(losses(loop).values())), "0"],
    ]
    return Sheet("the nodes at 1 kHz, beside the targets", ["", "measured", "target"], [rows])


def _latencies(loops: Sequence[Loop]) -> Sheet:
    ways: dict[str, Callable[[Loop], Latency]] = {
        "the benchmark: one hop without computation": lambda loop: loop.one_hop.latency,
        **WAYS,
    }
    header = ["from a joint state to", *(f"{_run(loop)}: p50, p99, p99.9 [ms]" for loop in loops)]
    rows = [
        [what, *(_percentiles(latency(loop)) for loop in loops)] for what, latency in ways.items()
    ]
    return Sheet("docs/speed.md: latencies", header, [rows])


def _processes(loops: Sequence[Loop]) -> Sheet:
    def row(name: str, value: Callable[[Usage], str]) -> list[str]:
        used = (loop.usage.get(name) for loop in loops)
        return [value(each) if each else "-" for each in used]

    def lost(loop: Loop) -> str:
        return ", ".join(f"{each} of {loop.torque.sent}" for each in losses(loop).values())

    names = [
        name
        for name in (*TWO.processes, *ONE.processes, VIEW)
        if any(name in loop.usage for loop in loops)
    ]
    rows = [
        *([f"{name}, cores", *row(name, lambda used: f"{used.core:.2f}")] for name in names),
        [f"joint states delivered and lost by {' and '.join(NODES)}", *map(lost, loops)],
        [
            f"joint states skipped by {CONTROLLER} for a newer one",
            *(str(loop.skipped) for loop in loops),
        ],
        *(
            [f"{name}, growth of memory [kB/min]", *row(name, lambda used: f"{used.growth:+.0f}")]
            for name in names
        ),
    ]
    return Sheet("docs/speed.md: processes", ["", *map(_run, loops)], [rows])


def _stages(loop: Loop) -> Sheet:
    rows = [
        [each.stage, each.whose, *(f"{time:.1f}" for time in (each.median, each.mean, each.p99))]
        for each in loop.stages
    ]
    header = ["stage", "whose", "median [µs]", "mean [µs]", "p99 [µs]"]
    return Sheet(f"docs/speed.md: stages of one process at {_rate(loop)}", header, [rows])


def _run(loop: Loop) -> str:
    return f"{_rate(loop)}, {loop.setup}"


def _rate(loop: Loop) -> str:
    reached = loop.achieved / 1e3
    short = f" ({reached:.1f} reached)" if loop.achieved < LEAST_RATE * loop.rate else ""
    return f"{loop.rate / 1e3:g} kHz{short}"


def _percentiles(latency: Latency) -> str:
    return ", ".join(map(_ms, (latency.median, latency.p99, latency.p999)))


def _ms(value: float) -> str:
    """Return milliseconds with two or three digits."""
    if isnan(value):
        return "-"
    return f"{value:.{2 if value < 1.0 else 1 if value < 10.0 else 0}f}"
