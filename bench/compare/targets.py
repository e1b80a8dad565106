"""Targets of the comparison of control laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.compare.laws import COMPUTED_TORQUE, DESIRED, PD, REFERENCE, SLOTINE_LI
from bench.compare.study import Learning, Tracking

OVER_PD, OVER_COMPUTED_TORQUE, ADAPTIVE_OVER_FIXED = 0.7, 1.0, 0.3
DRIFT = 0.01
"""Largest drift of the error at rest and of the learned mass, as a fraction."""


@dataclass(frozen=True)
class Outcome:
    """A target with the measured value."""

    text: str
    measured: float
    limit: float | None
    """Largest accepted value; None for a value without target."""

    @property
    def met(self) -> bool:
        """Whether the value is within the limit."""
        return self.limit is None or self.measured <= self.limit


def ratio(
    results: Sequence[Tracking], arm: str, law: tuple[str, str], other: tuple[str, str]
) -> float:
    """Return the median over specimens of the ratio of the tracking errors of two laws.

    Args:
        results: tracking errors of each law on each specimen.
        arm: name of the arm.
        law, other: names of the laws in numerator and denominator, each with the velocity of its
            friction compensation, as in :data:`~bench.compare.laws.FRICTION_AT`.
    """
    pair: list[list[float]] = []
    for which in (law, other):
        mine = [r for r in results if r.arm == arm and (r.law, r.friction_at) == which]
        pair.append([r.error for r in sorted(mine, key=lambda r: r.specimen)])
    return float(np.median(np.divide(pair[0], pair[1])))


def outcomes(results: Sequence[Tracking], learned: Sequence[Learning]) -> list[Outcome]:
    """Return the measured values: ratios of the laws, errors with a payload, drifts at rest.

    Ratios of laws with equal friction compensation are for reference and have no limit.
    """
    found = []
    for arm in dict.fromkeys(result.arm for result in results):
        ours = (SLOTINE_LI, REFERENCE)
        for other, limit in ((PD, OVER_PD), (COMPUTED_TORQUE, OVER_COMPUTED_TORQUE)):
            measured = ratio(results, arm, ours, (other, DESIRED))
            found.append(Outcome(f"{arm}: Slotine-Li / {other}, as they are", measured, limit))
        for friction_at in (DESIRED, REFERENCE):
            for other in (PD, COMPUTED_TORQUE):
                measured = ratio(results, arm, (SLOTINE_LI, friction_at), (other, friction_at))
                text = f"{arm}: Slotine-Li / {other}, both {friction_at}"
                found.append(Outcome(text, measured, None))
    for case in learned:
        text = f"{case.arm}: unknown payload, adaptive / fixed at the end"
        found.append(Outcome(text, case.ratio, ADAPTIVE_OVER_FIXED))
        if len(case.rest_mass) > 2:
            rest = f"in {len(case.rest_mass)} min of rest"
            found.append(
                Outcome(f"{case.arm}: growth of the error {rest}", case.error_drift, DRIFT)
            )
            found.append(Outcome(f"{case.arm}: drift of the mass {rest}", case.mass_drift, DRIFT))
    return found
