"""Tables of the study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf, isnan

from bench.robots.failures import BEFORE, Outcome
from bench.robots.stops import Stops
from bench.robots.study import Results, falls, is_excessive, is_too_fast, is_wrong, targets
from bench.robots.tracking import Tracking
from bench.robots.use import Use
from bench.speed.sheets import Sheet

REASON = 20
"""Length to which reasons are cut."""


def sheets(found: Results) -> list[Sheet]:
    """Return the tables of the results that exist."""
    tables = []
    if found.uses:
        tables.append(_uses(found.uses))
        if any(use.faults for use in found.uses):
            tables.append(_reasons(found.uses))
    if found.trackings:
        tables.append(_tracking(found.trackings, found.stops))
    for robot in dict.fromkeys(one.robot for one in found.outcomes):
        tables.append(_failures(robot, [one for one in found.outcomes if one.robot == robot]))
    tables.append(_targets(found))
    return tables


def _uses(uses: Sequence[Use]) -> Sheet:
    rows = [
        [
            use.robot,
            f"{use.seconds / 60.0:.1f}",
            str(len(use.faults)),
            f"{use.faults_per_hour:.0f}",
            f"{use.refused[0]} of {use.refused[1]}",
        ]
        for use in uses
    ]
    header = ["", "minutes", "false\nfaults", "per\nhour", "trajectories\nrefused"]
    return Sheet("Ordinary use of healthy arms", header, [rows])


def _reasons(uses: Sequence[Use]) -> Sheet:
    rows = []
    for use in uses:
        counted = Counter((kind(reason), activity) for activity, reason in use.faults)
        for (reason, activity), count in counted.most_common(4):
            rows.append([use.robot, str(count), activity, reason])
    notes = "Up to four kinds of false faults of each robot, most frequent first."
    return Sheet("False faults", ["", "count", "during", "reason"], [rows], notes)


def kind(reason: str) -> str:
    """Return the kind of a fault in a few words, or the beginning of an unknown reason."""
    for key, text in _KINDS.items():
        if key in reason:
            return text
    return reason[:REASON]


_KINDS = {
    "swung": "torque swings",
    "too fast": "too fast",
    "implausible": "implausible speed",
    "tracking_limit": "tracking_limit",
    "velocity of": "velocity contradicts",
    "among valid": "mixed joint states",
    "jumped": "position jumped",
    "no joint states": "silence",
    "stuck": "stuck joint",
    "frozen": "frozen",
    "have repeated": "frozen",
}
"""Kind of a fault by a part of its reason; the first that fits counts."""


def _tracking(trackings: Sequence[Tracking], stops: Sequence[Stops]) -> Sheet:
    rows = []
    for one, stop in zip(trackings, stops, strict=True):
        gains = f"{one.pd_gains[0]:.0f}, {one.pd_gains[1]:.0f}"
        rows.append(
            [
                one.robot,
                kind(one.reason) if one.reason else _number(1e3 * one.error),
                _number(1e3 * one.pd_error),
                "-" if isnan(one.pd_gains[0]) else gains,
                f"{stop.stop_time:g}",
                f"{_time(stop.order_time)}, {_number(stop.order_way)}",
                f"{_time(stop.fault_time)}, {_number(stop.fault_way)}",
            ]
        )
    header = ["", "error\nmrad", "PD + g\nmrad", "its gains\n1/s", "stop_time\ns"]
    header += ["order to hold\ns, rad", "fault\ns, rad"]
    notes = (
        "RMS errors of 20 s of trajectory at half the velocity limits, PD at its best stable gains "
        "of the grid. Time and way (largest of a joint) from half speed to standstill after an "
        "order and after a fault of the healthy arm, largest of three motions; -: no standstill."
    )
    return Sheet("Tracking and stopping", header, [rows], notes)


def _failures(robot: str, outcomes: Sequence[Outcome]) -> Sheet:
    rows = [
        [
            one.failure,
            one.at,
            _fault(one),
            _digits(one.excess) + (" !" if is_excessive(one) else ""),
            _digits(one.speed) + (" !" if is_too_fast(one) and not falls(one) else ""),
            one.ends if isnan(one.stop) or one.stop == inf else _time(one.stop),
            "zero" if one.is_zero else "",
            kind(one.reason),
        ]
        for one in outcomes
    ]
    header = ["", "at", "fault\ns", "excess\nJ", "speed\nx", "stop\ns", "torque", "reason"]
    notes = (
        "Fault: time from the failure. Excess: largest energy beyond the permitted energy. Speed: "
        "largest after the fault, as a multiple of the larger of the speed at the fault and the "
        "velocity limit; without a fault, of the limit. Stop: time from the fault to standstill. "
        "!: against a target."
    )
    return Sheet(f"Failures of {robot}", header, [rows], notes)


def _digits(value: float) -> str:
    return "-" if isnan(value) else f"{value:.2f}"


def _fault(one: Outcome) -> str:
    if one.ends == BEFORE:
        return BEFORE
    if isnan(one.after):
        return "none !" if is_wrong(one) else "none"
    return f"{one.after:.3f}" + (" !" if is_wrong(one) else "")


def _targets(found: Results) -> Sheet:
    rows = []
    for one in targets(found):
        rows.append([one.text, one.measured, "met" if one.is_met else "NOT met"])
    notes = (
        "The speed of arms that fall at zero torque without compensation of gravity is not counted."
    )
    return Sheet("Targets", ["", "measured", ""], [rows], notes if found.outcomes else "")


def _number(value: float) -> str:
    if isnan(value):
        return "-"
    return f"{value:.3g}" if abs(value) < 100.0 else f"{value:.0f}"


def _time(value: float) -> str:
    return "-" if isnan(value) or value == inf else f"{value:.2f}"
