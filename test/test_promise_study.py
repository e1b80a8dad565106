"""The promise of ``check`` against staged pushes: the fit, the rows, and the result."""

from __future__ import annotations

import numpy as np
import pytest
from robots import urdf_path

pytest.importorskip("mujoco")

from bench.contacts.promise import (
    DIRECTIONS,
    FRACTIONS,
    PROMISE_HEAD,
    Staged,
    half_found,
    kept,
    promise_rows,
    promised,
)
from rbd_control.check import WeakestPush


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


@pytest.mark.parametrize(("found", "low", "high"), [(True, 0.0, 0.6), (False, 1.7, np.inf)])
def test_pushes_that_are_all_alike_give_a_bound(found: bool, low: float, high: float) -> None:
    pushes = [Staged("arm7", "link_7", "x", 5.0, fraction, found) for fraction in FRACTIONS * 2]
    assert low < half_found(pushes).ratio < high


def test_rows_and_result() -> None:
    urdf_path("panda")
    pushes = staged("link_7", 1.0, 20) + staged("link_4", 0.5, 20)
    assert kept(pushes) == (1, 2)
    rows = promise_rows(pushes)
    assert [row[:2] for row in rows] == [
        ["arm7", "link_4"],
        ["arm7", "link_7"],
        ["arm7", "all"],
        ["all", "all"],
    ]
    assert {len(row) for row in rows} == {len(PROMISE_HEAD)}
    assert rows[0][2] == "5, -"


def test_the_promise_by_direction() -> None:
    push = WeakestPush("link_7", 1.0, 9.0, (2.0, 3.0, 4.0))
    assert promised(push) == dict(zip(DIRECTIONS, (2.0, 3.0, 4.0, 1.0, 9.0), strict=True))
