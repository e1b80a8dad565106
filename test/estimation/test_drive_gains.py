"""Gains of drives are as exact as they claim, or refused: a simulated UR10e in motor currents."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.gains.arm import JOINTS, MASSES, Specimen
from bench.gains.study import GAP, OFF_AXIS, ON_AXIS, Result, carried, identified
from rbd_control.identification import GainEvidence, KnownGain
from rbd_control.identification.drive_gains import drive_gains
from rbd_control.robot.inertial_corrections import InertialCorrections

SEEDS = range(3)
CERTAIN = 3.0
"""Standard errors that no gain is off: one of 400 normal numbers is farther out."""
EXACT = 0.04
"""Relative standard error of the gains of joints that carry weight."""


@pytest.fixture(scope="module")
def free() -> list[Result]:
    specimens = [Specimen.drawn(seed) for seed in SEEDS]
    return [identified(one, [one.recorded(seed)]) for seed, one in enumerate(specimens)]


@pytest.fixture(scope="module")
def loaded() -> list[Result]:
    specimens = [Specimen.drawn(seed) for seed in SEEDS]
    return [
        identified(one, [one.recorded(seed)], carried(one, OFF_AXIS, seed))
        for seed, one in enumerate(specimens)
    ]


@pytest.mark.parametrize("motion", ["free", "loaded"])
def test_gains_are_as_exact_as_they_claim(motion: str, request: pytest.FixtureRequest) -> None:
    for result in request.getfixturevalue(motion):
        assert (np.abs(result.in_standard_errors) < CERTAIN).all()
        assert (np.abs(result.relative_error)[result.claimed < EXACT] < 0.05).all()


def test_free_motion_identifies_only_joints_with_gravity_load(free: list[Result]) -> None:
    for result in free:
        assert result.accepted[:4].all()
        assert not result.accepted[5]
        assert (result.claimed[:3] < EXACT).all()
        assert result.claimed[4] > EXACT
        # Masses that are 5 % off allow no gain within 1 %.
        assert not any(one.is_accepted(0.01) for one in result.gains)
        # The inertia of the last link is a thousandth of its motor's.
        assert result.gains[5].standard_error == np.inf
        assert "wrist_3 >100 %" in result.message
        assert "--payload-recording RECORDING=MASS or --drive-gain JOINT=GAIN" in result.message


def test_a_known_payload_identifies_all_joints_that_it_loads(loaded: list[Result]) -> None:
    for result in loaded:
        assert result.accepted.all()
    off = np.array([result.in_standard_errors for result in loaded])
    # 18 nearly independent numbers of unit variance have this root mean square in 999 of 1000.
    assert 0.5 < np.sqrt((off**2).mean()) < 1.5


def test_a_wrong_description_is_noticed() -> None:
    """A hand of 3 kg that the description lacks, and masses that are off by 10 to 50 %."""
    specimen = Specimen.drawn(2)
    wrong = np.array([0.1, -0.15, 0.15, 0.5, -0.3, 0.0]) * MASSES
    true = InertialCorrections(mass_correction=tuple(wrong)).corrected(specimen.description)
    heavy = replace(specimen, true=true).loaded(3.0, ON_AXIS)
    gains = zip(JOINTS, specimen.gains, strict=True)
    evidence = GainEvidence(known={joint: KnownGain(float(gain)) for joint, gain in gains})
    for one, noticed in ((heavy, True), (specimen, False)):
        _, notes = drive_gains([one.recorded(2)], specimen.description, GAP, evidence)
        assert any("contradict the masses of the description" in note for note in notes) == noticed


def test_signs_and_units_of_drives_are_found() -> None:
    """Currents in milliamperes, and drives that count backwards."""
    specimen = Specimen.drawn(4)
    scale = 1e-3 * np.array([-1.0, 1.0, 1.0, 1.0, -1.0, -1.0])
    odd = replace(specimen, gains=specimen.gains * scale)
    evidence = carried(odd, OFF_AXIS, 4)
    result = identified(odd, [odd.recorded(4)], evidence)
    # The noise of the currents is a thousandth then.
    assert result.accepted.all()
    assert (np.abs(result.relative_error) < 0.05).all()
