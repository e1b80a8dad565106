"""A position-controlled arm in MuJoCo, with detector and guard of the library in the loop."""

from __future__ import annotations

import numpy as np
import pytest
from robots import urdf_path

pytest.importorskip("mujoco")

from bench.contacts.arms import arm
from bench.contacts.plant import Plant
from bench.guard.arm import DECELERATION, PositionControlledArm
from bench.guard.motion import ACCELERATION, PAUSE, SPEED, PickAndPlace
from bench.guard.study import calibrated, false_stops, stop, touches
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


def test_the_motion_is_smooth_and_bounded(panda: Plant) -> None:
    path = PickAndPlace(panda.arm.model, panda.arm.centre, 1, 30.0)
    t = np.arange(0.0, 30.0, 0.001)
    reference = path.at(t)
    # The peaks are those of the joint that moves farthest, up to the rounding of the constants.
    assert np.abs(reference.v).max() <= SPEED * (1.0 + 1e-6)
    assert np.abs(reference.a).max() <= ACCELERATION * (1.0 + 1e-3)
    np.testing.assert_allclose(
        np.gradient(reference.q, t, axis=0)[1:-1], reference.v[1:-1], atol=2e-3
    )
    resting = (np.abs(reference.v) == 0.0).all(axis=1).mean()
    assert 0.5 * PAUSE / 3.0 < resting < 0.5


def test_the_arm_stops_on_its_path_at_its_deceleration(panda: Plant) -> None:
    """Without contact the arm follows the plan up to the lag of stiff position control."""
    still = PositionControlledArm(panda, PickAndPlace(panda.arm.model, panda.arm.centre, 3, 8.0), 1)
    while np.abs(panda.data.qvel).max() < 0.7 * SPEED:
        still.step()
    speed, begin = np.abs(panda.data.qvel).max(), still.t
    still.stop()
    assert still.stop_time == pytest.approx(speed / DECELERATION, rel=0.05)
    while still.t < begin + still.stop_time + SETTLING:
        still.step()
    assert np.abs(panda.data.qvel).max() < 0.01


def test_contacts_stop_the_arm_as_its_deceleration_allows(
    panda: Plant, detector: tuple[Model, DetectorParameters]
) -> None:
    """Pushes of 20 N that last, and collisions, in motion."""
    found = [stop(panda, *detector, touch, 11 + k) for k, touch in enumerate(touches(3, 6, 20.0))]
    stops = [each for each in found if each is not None]
    assert len(stops) >= 4  # some points cannot be run into
    for each in stops:
        # Of the 20 ms from the onset to the request, 2 ms are the guard's and those of the wire.
        assert 0.0 < each.flag - each.onset < 0.018, each
        assert each.overrun < SETTLING, each


def test_five_minutes_of_pick_and_place_without_a_stop(
    panda: Plant, detector: tuple[Model, DetectorParameters]
) -> None:
    assert false_stops(panda, *detector, 5, 300.0) == 0
