"""EW21's Table 1 in comparison with our times, and growth of the times with the number of joints.

Echeandia & Wensing 2021: averages over 100 random states, C/C++ (an extension of RBDL), Intel i7 at
3.2 GHz. Figures 2 to 4 of EW21 are curves over the number of joints, published as pictures only.
Table 1 gives one point of each curve.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.speed.contest import Timing
from bench.speed.mechanisms import PUBLISHED_SIZE, Mechanism
from bench.speed.quantities import Column, Quantity

PUBLISHED: dict[str, dict[Quantity, float]] = {
    "chain": {Quantity.TERMS: 18.0, Quantity.CHRISTOFFEL: 122.0},
    "binary tree": {Quantity.TERMS: 10.0, Quantity.CHRISTOFFEL: 33.0},
    "biped": {Quantity.TERMS: 13.0, Quantity.CHRISTOFFEL: 64.0},
    "quadruped": {Quantity.TERMS: 10.0, Quantity.CHRISTOFFEL: 37.0},
}
"""Table 1: times of C and of the Christoffel symbols with 20 joints [µs].

The time of C includes M and its rate; our time includes M, Cᵀ v and g."""

LARGE = PUBLISHED_SIZE
"""Smallest size for the fit of slopes; with fewer joints the overhead of a call dominates."""


def terms_of_sum(mechanism: Mechanism, quantity: Quantity) -> int:
    """Return the number of pairs (C) or triples (Christoffel symbols) of related bodies.

    Bodies are related if one of them carries the other. The numbers are the sums N d and N d² of
    EW21 for this tree, with each degree of freedom of a free body counted as a joint.
    """
    root = 6 if mechanism.floating else 0
    depths = [*range(1, root + 1)]
    for parent in mechanism.parents:
        depths.append(1 + (depths[root + parent] if parent >= 0 else root))
    depth = np.array(depths)
    if quantity is Quantity.TERMS:
        return int(depth.sum())
    return int((depth * (depth + 1) // 2).sum())


def of_family(timings: Sequence[Timing], family: str, quantity: Quantity) -> dict[int, Timing]:
    """Return the timings of a quantity for a family of mechanisms, by number of joints, ascending.

    Args:
        timings: all measurements.
        family: one of :data:`~bench.speed.mechanisms.FAMILIES`.
        quantity: the quantity.
    """
    chosen = [t for t in timings if t.mechanism.family == family and t.quantity is quantity]
    return {t.mechanism.joints: t for t in sorted(chosen, key=lambda t: t.mechanism.joints)}


def curve(timings: dict[int, Timing], column: Column) -> dict[int, float]:
    """Return the median time of a column [µs] by number of joints, where it was measured."""
    points = {n: timing.microseconds(column) for n, timing in timings.items()}
    return {n: point.median for n, point in points.items() if point}


def slope(points: dict[int, float]) -> float:
    """Return the exponent k of a curve N^k fitted to times by number of joints N.

    Only points with at least :data:`LARGE` joints count; NaN with fewer than two such points.
    """
    large = {n: value for n, value in points.items() if n >= LARGE}
    if len(large) < 2:
        return float("nan")
    return float(np.polyfit(np.log(list(large)), np.log(list(large.values())), 1)[0])


def crossing(first: dict[int, float], second: dict[int, float]) -> float | None:
    """Return the number of joints from which on ``first`` is faster than ``second``.

    Between two sizes the logarithms of the times are interpolated linearly. The result is None if
    ``first`` is not faster with the largest number of joints.

    Args:
        first, second: times by number of joints, in the same unit.
    """
    sizes = sorted(set(first) & set(second))
    gap = [float(np.log(first[n] / second[n])) for n in sizes]
    if not gap or gap[-1] >= 0.0:
        return None
    before = max((i for i, value in enumerate(gap) if value >= 0.0), default=None)
    if before is None:
        return float(sizes[0])
    share = gap[before] / (gap[before] - gap[before + 1])
    low, high = np.log(sizes[before]), np.log(sizes[before + 1])
    return float(np.exp(low + share * (high - low)))
