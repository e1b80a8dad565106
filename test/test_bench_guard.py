"""A position-controlled arm in MuJoCo, with detector and guard of the library in the loop."""

from __future__ import annotations

import numpy as np
import pytest
from robots import urdf_path

pytest.importorskip("mujoco")

from bench.contacts.arms import arm
from bench.contacts.plant import Plant
from bench.guard.study import calibrated, stop, touches
from rbd_control.dynamics import Model
from rbd_control.estimation import DetectorParameters

SETTLING = 0.2
"""Time that the stiff position control takes to settle after the planned deceleration [s]."""


@pytest.fixture(scope="module")
def panda() -> Plant:
    urdf_path("panda")
    return Plant(arm("panda"), 1)


@pytest.fixture(scope="module")
def detector(panda: Plant) -> tuple[Model, DetectorParameters]:
    return calibrated(panda, 2, 60.0)


def test_contacts_stop_the_arm_as_its_deceleration_allows(
    panda: Plant, detector: tuple[Model, DetectorParameters]
) -> None:
    """Pushes of 20 N that last, and collisions, in motion."""
    found = [stop(panda, *detector, touch, 11 + k) for k, touch in enumerate(touches(3, 6, 20.0))]
    stops = [each for each in found if each is not None]
    assert len(stops) >= 4  # some points cannot be run into
    # A slow observer sees a push that loads one joint alone later.
    delays = [each.flag - each.onset for each in stops]
    assert np.median(delays) < 0.009
    for each in stops:
        assert 0.0 < each.flag - each.onset < 0.045, each
        assert each.overrun < SETTLING, each
