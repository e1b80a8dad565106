"""Targets of the speed of the dynamics, as ratios within one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.speed.contest import Timing
from bench.speed.ew21 import PUBLISHED
from bench.speed.measure import Spread, spread
from bench.speed.quantities import Column, Quantity


@dataclass(frozen=True)
class Target:
    """Target: the time of ``column`` divided by the time of ``reference`` is at most ``limit``."""

    mechanism: str
    quantity: Quantity
    column: Column
    reference: Column
    limit: float


PYTHON = (Column.FROZEN, Column.PINOCCHIO)
COMPILED = (Column.LOOP, Column.PINOCCHIO_CPP)
ONE_CORE = (Column.BATCH, Column.PINOCCHIO_CPP)

FROZEN_BATCH = (Column.FROZEN_BATCH, Column.BATCH)

TARGETS = (
    Target("Panda", Quantity.TERMS, *PYTHON, 0.16),
    Target("Panda", Quantity.TERMS, Column.PLAIN, Column.PINOCCHIO, 1.0 / 2.0),
    Target("Panda", Quantity.MASS, *COMPILED, 0.35),
    Target("Panda", Quantity.TERMS, *COMPILED, 0.14),
    Target("Panda", Quantity.INVERSE, *COMPILED, 0.22),
    Target("Panda", Quantity.FORWARD, *COMPILED, 0.22),
    Target("Panda", Quantity.CHRISTOFFEL, *COMPILED, 0.05),
    Target("UR5", Quantity.TERMS, *COMPILED, 0.05),
    Target("UR5", Quantity.INVERSE, *COMPILED, 0.10),
    Target("UR5", Quantity.FORWARD, *COMPILED, 0.10),
    Target("Panda", Quantity.TERMS, *ONE_CORE, 1.0 / 8.0),
    Target("Panda", Quantity.FORWARD, *ONE_CORE, 1.0 / 4.0),
    Target("Panda", Quantity.TERMS, *FROZEN_BATCH, 1.0 / 1.3),
    Target("UR5", Quantity.TERMS, *FROZEN_BATCH, 1.0 / 2.5),
    Target("Panda", Quantity.TERMS, Column.FROZEN_BATCH, Column.LIMIT, 3.0),
    Target("UR5", Quantity.TERMS, Column.FROZEN_BATCH, Column.LIMIT, 3.0),
    Target("Talos", Quantity.TERMS, *PYTHON, 1.0 / 2.0),
    Target("Talos", Quantity.TERMS, *COMPILED, 1.0 / 2.0),
    Target("chain 20", Quantity.CHRISTOFFEL, *PYTHON, 1.0 / 10.0),
    Target("chain 20", Quantity.CHRISTOFFEL, *COMPILED, 1.0 / 10.0),
    *(
        Target(robot, quantity, column, Column.CASADI, 1.0)
        for robot in ("Panda", "UR5")
        for quantity in (Quantity.MASS, Quantity.TERMS, Quantity.INVERSE, Quantity.FORWARD)
        for column in (Column.LOOP, Column.EXPORTED)
    ),
    *(
        Target(robot, Quantity.SLOTINE_LI, *pair, 1.0 / 2.0)
        for robot in ("Panda", "Talos")
        for pair in (PYTHON, COMPILED)
    ),
    *(
        Target("Talos", quantity, *pair, 1.0)
        for quantity in (Quantity.FORWARD, Quantity.INVERSE)
        for pair in (PYTHON, COMPILED)
    ),
    *(Target("Panda", quantity, *PYTHON, 1.0) for quantity in (Quantity.FORWARD, Quantity.INVERSE)),
)

STATES_PER_SECOND = 5e6
"""Smallest rate of ``dynamics_terms`` with 7 joints in a batch on one core [1/s]."""


@dataclass(frozen=True)
class Outcome:
    """A target with the measured value and the limit.

    ``limit`` is the largest accepted value, or with ``at_least`` the smallest.
    """

    text: str
    measured: Spread
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the median is within the limit."""
        if self.at_least:
            return self.measured.median >= self.limit
        return self.measured.median <= self.limit


def outcomes(timings: Sequence[Timing]) -> list[Outcome]:
    """Return the targets for which ``timings`` contain values, with the measured values."""
    by_name = {(t.mechanism.name, t.quantity): t for t in timings}
    result = []
    for target in TARGETS:
        timing = by_name.get((target.mechanism, target.quantity))
        ratio = timing and timing.ratio(target.column, target.reference)
        if ratio:
            ours, theirs = (" ".join(c.value.split()) for c in (target.column, target.reference))
            text = f"{target.mechanism}: {target.quantity.value}, {ours} / {theirs}"
            result.append(Outcome(text, ratio, target.limit))
    chain = by_name.get(("chain 20", Quantity.CHRISTOFFEL))
    if chain and Column.LOOP in chain.seconds:
        ratio = spread(1e6 * chain.seconds[Column.LOOP] / PUBLISHED["chain"][chain.quantity])
        result.append(Outcome("chain 20: Γ, frozen loop / EW21's 122 µs", ratio, 1.0 / 3.0))
    panda = by_name.get(("Panda", Quantity.TERMS))
    if panda:
        rate = spread(1.0 / panda.seconds[Column.BATCH])
        text = "Panda: M, C, Cᵀv, g, states per second of one core in a batch"
        result.append(Outcome(text, rate, STATES_PER_SECOND, at_least=True))
    return result
