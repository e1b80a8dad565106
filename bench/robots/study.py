"""The whole study: its tasks, in two processes, and its targets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from math import isfinite
from multiprocessing import get_context

from bench.robots.descriptions import describe
from bench.robots.failures import BEFORE, Outcome, fail, failures
from bench.robots.robots import ROBOTS
from bench.robots.stops import Stops, stops
from bench.robots.tracking import Tracking, tracking
from bench.robots.use import Use, ordinary
from rbd_control.startup.standard_streams import VARIABLES

PROCESSES = 2
"""Number of processes; the study is made for two processor cores."""
MOST_SPEED = 1.2
"""Largest speed of a joint after a fault, as a multiple of the larger of its speed at the fault and
its velocity limit."""
ENERGY_ERROR = (0.05, 0.02)
"""Excess of energy that is not counted [J], and as a share of the energy at the fault and of the
work of gravity on a falling arm, whose masses the controller does not know exactly.

A free arm without friction and gravity that begins at half its velocity limits, with 0.4 J to 8 J,
gains at most 0.1 J in three seconds, by the errors of the integration.
"""


SUNK = 0.3
"""Work of gravity that nothing balances above which an arm falls [J]."""


@dataclass
class Results:
    """Results of the study, in the order of the robots."""

    uses: list[Use] = field(default_factory=list)
    trackings: list[Tracking] = field(default_factory=list)
    stops: list[Stops] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)


@dataclass(frozen=True)
class Target:
    """A target with its measured value."""

    text: str
    measured: str
    is_met: bool


Task = tuple[str, str, float]
"""Name of the part and of the robot, and minutes of use."""


def run_task(task: Task) -> Results:
    """Run one part of the study of one robot."""
    part, name, minutes = task
    robot, found = ROBOTS[name], Results()
    if part == "use":
        found.uses.append(ordinary(robot, 60.0 * minutes))
    elif part == "tracking":
        found.trackings.append(tracking(robot))
        found.stops.append(stops(robot))
    else:
        count = describe(robot.arm).model.nv
        found.outcomes += [
            fail(robot, failure, at) for failure in failures(count) for at in failure.at
        ]
    return found


def study(
    names: Sequence[str], minutes: float, parts: Sequence[str], show: Callable[[str], None]
) -> Results:
    """Run the study in :data:`PROCESSES` processes.

    Args:
        names: names of the robots.
        minutes: simulated time of ordinary use of each robot [min].
        parts: of ``use``, ``tracking`` and ``failures``.
        show: receives a text when a part begins to be waited for.
    """
    tasks = [(part, name, minutes) for part in parts for name in names]
    found = dict(_in_processes(tasks, show))
    whole = Results()
    for name in names:
        for part in parts:
            one = found[part, name, minutes]
            whole.uses += one.uses
            whole.trackings += one.trackings
            whole.stops += one.stops
            whole.outcomes += one.outcomes
    return whole


def _in_processes(
    tasks: Sequence[Task], show: Callable[[str], None]
) -> Iterator[tuple[Task, Results]]:
    os.environ.update(dict.fromkeys(VARIABLES, "1"))
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(run_task, task): task for task in tasks}
        for done, future in enumerate(as_completed(waiting), start=1):
            part, name, _ = waiting[future]
            show(f"{done} of {len(tasks)}: {name}, {part}")
            yield waiting[future], future.result()


# --- Targets -------------------------------------------------------------------------------------


def is_excessive(outcome: Outcome) -> bool:
    """Return whether the energy after a fault exceeds the permitted energy."""
    least, share = ENERGY_ERROR
    return outcome.excess > least + share * (outcome.energy + outcome.sunk)


def is_too_fast(outcome: Outcome) -> bool:
    """Return whether a joint became too fast after a fault."""
    return isfinite(outcome.after) and outcome.speed > MOST_SPEED


def falls(outcome: Outcome) -> bool:
    """Return whether gravity made the arm faster, because nothing held it."""
    return outcome.sunk > SUNK


def is_wrong(outcome: Outcome) -> bool:
    """Return whether a fault came that must not, or did not come although it must."""
    if outcome.ends == BEFORE:  # a false fault, which the study of ordinary use counts
        return False
    return outcome.expected is not None and outcome.expected != isfinite(outcome.after)


def targets(found: Results) -> list[Target]:
    """Return the targets with their measured values; only those that were measured."""
    result = []
    if found.uses:
        count = sum(len(use.faults) for use in found.uses)
        hours = sum(use.seconds for use in found.uses) / 3600.0
        text = "false faults of healthy arms in an hour: 0"
        result.append(Target(text, f"{count / hours:.1f}", count == 0))
    if found.trackings:
        better = [
            one.error <= one.pd_error or not isfinite(one.pd_error) for one in found.trackings
        ]
        worse = better.count(False)
        text = "robots on which PD with gravity tracks better: 0"
        result.append(Target(text, f"{worse} of {len(better)}", worse == 0))
    faults = [one for one in found.outcomes if isfinite(one.after)]
    if found.outcomes:
        for text, among, is_bad in (
            ("failures with a fault missing or false: 0", found.outcomes, is_wrong),
            ("faults after which the energy exceeds the permitted: 0", faults, is_excessive),
            (
                f"faults after which a joint is above {MOST_SPEED:g} x: 0",
                [one for one in faults if not falls(one)],
                is_too_fast,
            ),
        ):
            bad = sum(map(is_bad, among))
            result.append(Target(text, f"{bad} of {len(among)}", bad == 0))
    return result
