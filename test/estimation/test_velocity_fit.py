"""Recorded velocities beside the changes of the positions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from rbd_control.dynamics import Model
from rbd_control.identification.delays import velocity_fits, wrong_velocities
from rbd_control.identification.motion import Motion
from rbd_control.simulation import arm7_urdf

RATE = 200.0
TIME = np.arange(0.0, 30.0, 1.0 / RATE)
PHASES = 0.9 * np.arange(7.0)
REVERSED = np.array([1.0, 1.0, -1.0, 1.0, 1.0, 1.0, 1.0])


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def swinging(frequency: float) -> np.ndarray:
    """Return speeds of up to 0.6 rad/s, (k, 7)."""
    return 0.6 * np.cos(2.0 * np.pi * frequency * TIME[:, None] + PHASES)


def slow(speed: float) -> np.ndarray:
    """Return a constant speed to and fro, (k, 7)."""
    return np.tile(speed * np.sign(np.sin(0.3 * TIME + 0.01))[:, None], (1, 7))


def filtered(v: np.ndarray, constant: float) -> np.ndarray:
    pole = np.exp(-1.0 / (RATE * constant))
    return np.asarray(lfilter([1.0 - pole], [1.0, -pole], v, axis=0))


def defect(true: np.ndarray, shown: np.ndarray, model: Model, noise: float = 0.0) -> str:
    """Return the defect of velocities, with noisy encoders [rad]."""
    q = np.cumsum(true, axis=0) / RATE
    q = q + noise * np.random.default_rng(0).normal(size=q.shape)
    motion = Motion("recording", TIME, q, shown, np.zeros_like(q))
    return wrong_velocities(velocity_fits([motion], model))


@pytest.mark.parametrize(("frequency", "late"), [(2.0, 0.02)])
def test_a_filter_of_the_velocities_is_no_defect(
    frequency: float, late: float, model: Model
) -> None:
    """It was taken for the velocity of another joint."""
    v = swinging(frequency)
    assert defect(v, filtered(v, late), model) == ""
    assert "joint_3 (wrong sign)" in defect(v, REVERSED * filtered(v, late), model)
    exchanged = filtered(v, late)[:, [0, 2, 1, 3, 4, 5, 6]]
    assert "joint_2 (velocity of joint_3)" in defect(v, exchanged, model)


@pytest.mark.parametrize("speed", [0.03])
def test_slow_motion_shows_a_defect(speed: float, model: Model) -> None:
    """Its windows of 0.1 s had less motion than the noise that is excepted."""
    v = slow(speed)
    assert "joint_3 (wrong sign)" in defect(v, REVERSED * v, model)
    assert defect(v, v, model) == ""


def test_noise_of_the_encoders_is_no_defect_of_slow_velocities(model: Model) -> None:
    assert defect(slow(0.045), slow(0.045), model, noise=0.003) == ""
