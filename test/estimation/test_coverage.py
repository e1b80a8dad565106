"""Standard errors hold although the model is wrong in more than noise: arms of the benchmark."""

from __future__ import annotations

import pytest

from bench.gains.coverage import KINDS, causes, gains, payload
from rbd_control.identification.drive_gains import USABLE_ERROR

COVERED = 8
"""Least number of ten estimates within two standard errors; of a hundred studies with 95 % coverage
one has fewer."""


def test_payloads_are_within_two_standard_errors() -> None:
    found = [payload(kind, seed, 2.0) for kind in KINDS for seed in range(5)]
    assert sum(one is not None and one.is_covered for one in found) >= COVERED


def test_usable_gains_are_within_two_standard_errors() -> None:
    """The slow and short recordings, in which friction hides most."""
    off = [
        abs(one.gain - true) / one.standard_error
        for seed in (0, 12)
        for one, true in zip(gains("ur10e", seed), KINDS["ur10e"].gains, strict=True)
        if one.relative_error <= USABLE_ERROR
    ]
    assert len(off) >= len(KINDS["ur10e"].gains)
    assert sum(x <= 2.0 for x in off) >= COVERED / 10.0 * len(off)


@pytest.mark.parametrize("seed", [1, 4])
def test_currents_of_light_wrists_are_currents(seed: int) -> None:
    """They were torque without gravity, because the wrists alone do not determine their unit."""
    said = causes(seed, are_currents=True)
    assert "motor current" in said
    assert "gravity" not in said
    assert "torque_without_gravity" in causes(seed, are_currents=False)
