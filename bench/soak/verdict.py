"""Verdict of a soak: one line for each requirement, with the measured value and its limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from bench.soak.figures import Growth, Match, Unanswered
from rbd_control.wording import listed

SETTLING = 300.0
"""Time after the start of a process in which its memory does not count [s]."""

MOST_GROWTH = 1.0
"""Largest accepted growth of a node's memory after :data:`SETTLING` [MB]."""

MOST_TOLD = 5
"""Maximum number of described events without contact."""

ENOUGH = 600.0
"""Shortest duration of a measurement of memory growth [s]."""


@dataclass(frozen=True)
class Line:
    """One line of the verdict.

    Attributes:
        text: the requirement.
        measured: the measured value; NaN if it is missing.
        limit: the largest accepted value.
        doubt: why this run cannot show whether the requirement is met; empty if it can.
        remark: further information.
    """

    text: str
    measured: float
    limit: float
    doubt: str = ""
    remark: str = ""

    @property
    def met(self) -> bool:
        """Whether the value is within its limit; False if it is missing or doubtful."""
        return not self.doubt and self.measured <= self.limit

    @property
    def missed(self) -> bool:
        """Whether the requirement is not met, although the run can show the result."""
        return not self.doubt and not self.measured <= self.limit


def growth_line(node: str, growth: Growth) -> Line:
    """Return the line on the growth of the memory of one node."""
    doubt = ""
    if growth.observed < ENOUGH or isnan(growth.megabytes):
        doubt = f"observed for {growth.observed:.0f} s of {ENOUGH:g}"
    remark = (
        "" if isnan(growth.slope) else f"{growth.slope:+.1f} kB/min over {growth.observed:.0f} s"
    )
    return Line(f"{node}: growth of memory [MB]", growth.megabytes, MOST_GROWTH, doubt, remark)


def samples_line(
    node: str, unanswered: Unanswered, told: int, unheard: int, reasons: Mapping[str, int]
) -> Line:
    """Return the line on samples that were delivered to a node and not answered.

    Args:
        node: name of the node.
        unanswered: samples without answer.
        told: samples that the node counted as lost, overwritten or skipped for a newer one, and
            answers that the middleware refused.
        unheard: answers that the node published and that did not arrive.
        reasons: increases of the node's counts near the samples without answer.
    """
    missing = unanswered.missing
    remark = (
        f"{missing} of {unanswered.sent} without answer, {told} counted by the node, {unheard} "
        "answers lost on the way to the soak"
    )
    told += unheard
    if missing > told and reasons:
        remark += "; near them it counted " + listed(f"{key} {n}" for key, n in reasons.items())
    return Line(
        f"{node}: samples delivered and lost", float(max(missing - told, 0)), 0.0, "", remark
    )


def contact_lines(match: Match, staged: int, false: Sequence[str] = ()) -> list[Line]:
    """Return the lines on missed contacts and on events without contact.

    Args:
        match: match of events and true contacts.
        staged: number of pushes that were made.
        false: descriptions of the events without contact.
    """
    found = len(match.delays)
    return [
        Line(
            "staged contacts not found",
            float(staged - found if staged > found else len(match.missed)),
            0.0,
            "" if staged else "none was staged",
            f"{found} of {staged} found",
        ),
        Line("false contacts", float(len(match.false)), 0.0, "", "; ".join(false[:MOST_TOLD])),
    ]


def gap_line(largest: float, over: int, by_machine: int, unheard: int, timeout: float) -> Line:
    """Return the line on gaps between torques.

    Args:
        largest: longest gap outside of faults [s].
        over: number of gaps over ``timeout`` outside of faults, except the unheard ones.
        by_machine: number of these gaps in which the nodes waited for a processor, or a processor
            paused.
        unheard: number of gaps in which torques were sent that this process did not receive.
        timeout: timeout of the controller [s].
    """
    remark = f"largest {1e3 * largest:.1f} ms; {by_machine} more in which nodes could not run"
    missed = over - by_machine
    return Line(
        f"torque gaps over {1e3 * timeout:g} ms",
        float(missed),
        0.0,
        f"in {unheard} more, torques were lost on the way to the soak; {remark}"
        if unheard and not missed
        else "",
        remark,
    )
