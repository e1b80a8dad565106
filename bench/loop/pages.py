"""The tables of README.md and docs/speed.md that come from ``make bench-loop``, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan

from bench.loop.figures import Latency
from bench.loop.run import NODES, Loop
from bench.loop.sheet import CORE, LEAST_RATE, P99, TARGET_RATE
from bench.loop.watching import VIEW
from bench.speed.sheets import Sheet

DETECTOR = "contact_detector"

WAYS: dict[str, Callable[[Loop], Latency]] = {
    "torque": lambda loop: loop.torque.latency,
    "external torque": lambda loop: loop.residual.latency,
    "contact flag": lambda loop: loop.flag,
}
"""What a joint state leads to, and the latencies of a run until then."""


def page(loops: Sequence[Loop], facts: str) -> str:
    """Return the tables as one Markdown file.

    Args:
        loops: the runs, one for each rate.
        facts: the machine, a list in Markdown.
    """
    at_target = (loop for loop in loops if loop.rate == TARGET_RATE and not loop.is_watched)
    sheets = [_readme(loop) for loop in at_target]
    sheets += [_latencies(loops), _processes(loops)]
    title = "# Tables of README.md and docs/speed.md, from `python -m bench.loop`\n"
    return "\n".join([title, facts, "", *(sheet.markdown() for sheet in sheets)])


def _readme(loop: Loop) -> Sheet:
    """Return the table of README.md: latencies, load and losses at 1 kHz beside the targets."""
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
        ["lost samples", str(max(_lost(loop).values())), "0"],
    ]
    return Sheet("README.md: the nodes at 1 kHz", ["", "measured", "target"], [rows])


def _latencies(loops: Sequence[Loop]) -> Sheet:
    ways: dict[str, Callable[[Loop], Latency]] = {
        "the benchmark: one hop without computation": lambda loop: loop.one_hop.latency,
        **WAYS,
    }
    header = ["from a joint state to", *(f"{_rate(loop)}: p50, p99, p99.9 [ms]" for loop in loops)]
    rows = [
        [what, *(_percentiles(latency(loop)) for loop in loops)] for what, latency in ways.items()
    ]
    return Sheet("docs/speed.md: latencies", header, [rows])


def _processes(loops: Sequence[Loop]) -> Sheet:
    def cells(value: Callable[[Loop], str]) -> list[str]:
        return [value(loop) for loop in loops]

    def usage(node: str) -> list[str]:
        used = (loop.usage.get(node) for loop in loops)
        return [f"{each.core:.2f}" if each else "-" for each in used]

    def growth(loop: Loop) -> str:
        return ", ".join(f"{loop.usage[node].growth:+.0f}" for node in NODES)

    def losses(loop: Loop) -> str:
        return ", ".join(f"{lost} of {loop.torque.sent}" for lost in _lost(loop).values())

    nodes = " and ".join(NODES)
    watched = [VIEW] if any(loop.is_watched for loop in loops) else []
    rows = [
        *([f"{node}, cores", *usage(node)] for node in (*NODES, *watched)),
        [f"joint states delivered and lost by {nodes}", *cells(losses)],
        [f"growth of memory of {nodes} [kB/min]", *cells(growth)],
    ]
    return Sheet("docs/speed.md: processes", ["", *map(_rate, loops)], [rows])


def _lost(loop: Loop) -> dict[str, int]:
    """Return the number of joint states that a node received and did not answer, by node."""
    unanswered = (loop.torque.unanswered, loop.residual.unanswered)
    pairs = zip(NODES, unanswered, strict=True)
    return {node: lost - loop.lost_on_the_way[node] for node, lost in pairs}


def _rate(loop: Loop) -> str:
    reached = loop.achieved / 1e3
    short = f" ({reached:.1f} reached)" if loop.achieved < LEAST_RATE * loop.rate else ""
    return f"{loop.rate / 1e3:g} kHz{short}{', with view' if loop.is_watched else ''}"


def _percentiles(latency: Latency) -> str:
    return ", ".join(map(_ms, (latency.median, latency.p99, latency.p999)))


def _ms(value: float) -> str:
    """Return milliseconds with two or three digits."""
    if isnan(value):
        return "-"
    return f"{value:.{2 if value < 1.0 else 1 if value < 10.0 else 0}f}"
