"""The promise of ``check`` against staged pushes: the fit, the rows, and the result."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("mujoco")

from bench.contacts.promise import (
    FRACTIONS,
    Staged,
    half_found,
)


def staged(link: str, ratio: float, count: int, slope: float = 6.0) -> list[Staged]:
    """Return pushes that are found by chance, half of them at ``ratio`` times the promise."""
    rng = np.random.default_rng(0)
    found = []
    for fraction in FRACTIONS * count:
        chance = 1.0 / (1.0 + (fraction / ratio) ** -slope)
        found.append(Staged("arm7", link, "best", 5.0, fraction, bool(rng.random() < chance)))
    return found


@pytest.mark.parametrize("ratio", [0.7, 1.0, 1.4])
def test_the_fit_finds_where_half_of_the_pushes_are_found(ratio: float) -> None:
    half = half_found(staged("link_7", ratio, 60))
    assert half.pushes == 60 * len(FRACTIONS)
    # Three standard deviations of the fit.
    assert abs(np.log(half.ratio / ratio)) < 3.0 * half.deviation
    assert half.deviation < 0.05
    assert half.is_kept == (1.0 / 1.3 <= half.ratio <= 1.3)
