"""Results of the loop as tables for the terminal, as plain values, and beside the targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any, cast

from rich.markup import escape
from rich.table import Table

from bench.loop.figures import Answers, Latency
from bench.loop.run import NODES, ONE, STAGED, TWO, Loop

TARGET_RATE = 1000.0
"""Rate at which all targets apply [1/s].

At other rates only the targets of latency and losses apply, to controller and detector in one
process."""
LEAST_RATE = 0.98
"""Smallest ratio of reached to wanted rate with which a run is compared with the targets."""
CORE, P99, GROWTH = 0.25, 1.0, 100.0
"""Targets: share of a core, p99 of the latencies [ms], and growth of memory [kB/min]."""
LOST = "joint states delivered and lost"
TOGETHER = 0.35
"""Share of a core that controller and detector may take in one process."""


@dataclass(frozen=True)
class Target:
    """A target with the measured value and the largest accepted value."""

    text: str
    measured: float
    limit: float

    @property
    def met(self) -> bool:
        """Whether the target is met; a missing value does not meet it."""
        return self.measured <= self.limit


def targets(loop: Loop) -> list[Target]:
    """Return the targets that apply to a run, with the measured values; may be empty."""
    is_one = loop.arrangement == ONE.name
    if loop.arrangement == STAGED.name or not (is_one or loop.rate == TARGET_RATE):
        return []
    times_and_losses = [
        Target("joint state to torque, p99 [ms]", loop.torque.latency.p99, P99),
        Target("joint state to residual, p99 [ms]", loop.residual.latency.p99, P99),
        Target("joint state to contact flag, p99 [ms]", loop.flag.p99, P99),
        Target(f"{LOST}{_skipped(loop)}", float(max(losses(loop).values())), 0.0),
    ]
    if loop.rate != TARGET_RATE:
        return times_and_losses
    nodes = ONE.processes if is_one else NODES
    name, most = (nodes[0], TOGETHER) if is_one else ("contact_detector", CORE)
    return [
        *times_and_losses,
        Target(f"{name}, cores", loop.usage[name].core, most),
        *(Target(f"{node}, growth [kB/min]", loop.usage[node].growth, GROWTH) for node in nodes),
    ]


def losses(loop: Loop) -> dict[str, int]:
    """Return the number of joint states that a node received and did not answer, by node.

    Joint states that the controller skipped for a newer one are not lost: their torque would have
    been out of date. In one process both nodes share a subscription, whose losses on the way only
    the controller reports.
    """
    controller, detector = NODES
    on_the_way = loop.lost_on_the_way
    if loop.arrangement != TWO.name:
        on_the_way = dict.fromkeys(NODES, max(on_the_way.values()))
    torque = loop.torque.unanswered - on_the_way[controller] - loop.skipped
    residual = loop.residual.unanswered - on_the_way[detector]
    return {controller: max(torque, 0), detector: max(residual, 0)}


def _skipped(loop: Loop) -> str:
    """Return the number of skipped joint states as text; empty without skipped joint states."""
    if not loop.skipped:
        return ""
    return f" ({loop.skipped} more skipped by the controller for a newer one)"


def latencies(loops: Sequence[Loop]) -> Table:
    """Return the table of latencies [ms] from the stamp of a joint state to the answers.

    A joint state is stamped when it is sent.
    """
    table = Table(title=r"latency \[ms] and losses", title_justify="left")
    table.add_column(r"joint states \[1/s]", justify="right")
    table.add_column("nodes in")
    table.add_column("from a joint state to")
    counts = ("later than a period", "unanswered", "skipped for a newer one", "of")
    for heading in ("p50", "p99", "p99.9", "worst", *counts):
        table.add_column(heading, justify="right")
    for loop in loops:
        run = (f"{loop.achieved:.0f}", loop.setup)
        for what, answers in _rows(loop):
            skipped = loop.skipped if answers is loop.torque else 0
            table.add_row(*run, what, *_times(answers.latency), *_counts(answers, skipped))
            run = ("", "")
        table.add_row("", "", "contact flag, when it rises", *_times(loop.flag), *[""] * 4)
    return table


def processes(loops: Sequence[Loop]) -> Table:
    """Return the table of processor time and memory of each process."""
    table = Table(title="processes", title_justify="left")
    table.add_column(r"joint states \[1/s]", justify="right")
    table.add_column("nodes in")
    table.add_column("process")
    for heading in ("cores", r"memory \[MB]", r"growth \[kB/min]", "told of losses on the way"):
        table.add_column(heading, justify="right")
    for loop in loops:
        run = (f"{loop.achieved:.0f}", loop.setup)
        for name, used in loop.usage.items():
            numbers = (f"{used.core:.2f}", f"{used.megabytes:.0f}", f"{used.growth:.0f}")
            table.add_row(*run, name, *numbers, str(loop.lost_on_the_way.get(name, "")))
            run = ("", "")
    return table


def doubt(loop: Loop) -> str:
    """Return why a run does not show the performance of the nodes; empty if it does.

    Reasons are a fault of the controller, a rate below :data:`LEAST_RATE`, and a p99 of one hop
    above :data:`P99`.
    """
    if loop.fault:
        return f"the controller was not in charge: {loop.fault}"
    if loop.achieved < LEAST_RATE * loop.rate:
        return (
            f"only {loop.achieved:.0f} of {loop.rate:g} joint states a second were sent: this "
            "machine is too busy to judge by"
        )
    if loop.one_hop.latency.p99 > P99:
        return (
            f"p99 of a hop on which nothing is computed is {loop.one_hop.latency.p99:.1f} ms: this "
            "machine is too busy to judge by"
        )
    return ""


def asked(loop: Loop) -> Table:
    """Return the table of the targets and the measured values of a run."""
    results = targets(loop)
    title = f"targets at {loop.rate:g} Hz, {loop.setup}"
    table = Table(title=title, title_justify="left")
    for heading, justify in (("what", "left"), ("measured", "right"), ("at most", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    table.add_column("")
    for result in results:
        met = "met" if result.met else "missed"
        if doubt(loop):
            met = "not judged"
        table.add_row(escape(result.text), f"{result.measured:.3g}", f"{result.limit:g}", met)
    table.caption = escape(doubt(loop)) or None
    return table


def budget(loop: Loop) -> Table:
    """Return the table of the time of each stage from the stamp of a joint state to the torque."""
    table = Table(
        title=f"stages at {loop.achieved:.0f} joint states a second", title_justify="left"
    )
    for heading in ("stage", "whose", "content"):
        table.add_column(heading)
    for heading in ("median", "mean", "p99"):
        table.add_column(rf"{heading} \[µs]", justify="right")
    for stage in loop.stages:
        times = [f"{value:.1f}" for value in (stage.median, stage.mean, stage.p99)]
        table.add_row(stage.stage, stage.whose, stage.content, *times)
    table.caption = escape(doubt(loop)) or None
    return table


def as_json(loops: Sequence[Loop], machine: dict[str, str]) -> dict[str, Any]:
    """Return all numbers of the runs as plain values for ``json``.

    Times are in ms unless stated otherwise; missing numbers are None.
    """
    everything = {
        "machine": machine,
        "loops": [_without_series(asdict(loop)) for loop in loops],
        "targets": [
            {**asdict(target), "met": target.met and not doubt(loop)}
            for loop in loops
            for target in targets(loop)
        ],
    }
    return cast("dict[str, Any]", _finite(everything))


def _finite(plain: Any) -> Any:
    """Return the value with None for each NaN, which JSON cannot represent."""
    if isinstance(plain, dict):
        return {key: _finite(value) for key, value in plain.items()}
    if isinstance(plain, (list, tuple)):
        return [_finite(value) for value in plain]
    return None if isinstance(plain, float) and isnan(plain) else plain


def _without_series(plain: dict[str, Any]) -> dict[str, Any]:
    """Return the result without the latencies of single answers, which take megabytes."""
    for value in plain.values():
        if isinstance(value, dict):
            value.pop("milliseconds", None)
    return plain


def _rows(loop: Loop) -> list[tuple[str, Answers]]:
    return [
        ("this bench: one hop, nothing computed", loop.one_hop),
        ("torque", loop.torque),
        ("external torque", loop.residual),
    ]


def _times(latency: Latency) -> list[str]:
    values = (latency.median, latency.p99, latency.p999, latency.worst)
    return [f"{value:.3f}" for value in values]


def _counts(answers: Answers, skipped: int) -> list[str]:
    return [str(each) for each in (answers.late, answers.unanswered, skipped, answers.sent)]
