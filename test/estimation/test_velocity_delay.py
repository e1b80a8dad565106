"""Delay of the measured velocity: what it does to the residual, its remedy, its identification."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from free_motion import lively_motion

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.identification.calibration import calibrate
from rbd_control.identification.threshold_calibration import START
from rbd_control.simulation import SimulatedArm, SimulationParameters, arm7_urdf

MODEL = Model.from_urdf(arm7_urdf())
HOME = (0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0)
CUTOFF = 100.0
DELAY = 1.0 / (2.0 * np.pi * CUTOFF)
"""Time constant of the velocity filter of the simulated arm [s]."""
DAMPING = np.array([0.0, 8.0, 4.0, 4.0, 1.0, 0.5, 0.3])
KNOWN: dict[str, Any] = {
    "friction_model": "coulomb_viscous",
    "friction_coulomb": (0.5,),
    "friction_viscous": (0.5,),
    "contact_threshold": (2.0,),
    "collision_threshold": (60.0,),
}


def arm() -> SimulatedArm:
    parameters = SimulationParameters(
        initial_position=HOME, coulomb=(0.5,), viscous=(0.5,), velocity_cutoff=CUTOFF, seed=2
    )
    return SimulatedArm(MODEL, parameters)


def emergency_stop(detector: ContactDetector) -> tuple[float, bool]:
    """Turn the first joint fast, and brake it hard.

    Returns:
        The largest residual while it brakes [N·m], and whether there was a verdict of contact.
    """
    plant, largest, touched = arm(), 0.0, False
    for k in range(700):
        torque = gravity_torque(MODEL, plant.q)
        turn = 20.0 if k < 400 else -80.0 if plant.v[0] > 0.3 else 0.0
        torque[0] += turn
        plant.step(torque - DAMPING * plant.v)
        sample = plant.reading()
        assert sample is not None
        found = detector.update(sample.stamp, sample.q, sample.v, sample.tau)
        touched = touched or found.contact
        if k >= 400:
            largest = max(largest, float(np.abs(found.residual).max()))
    return largest, touched


def test_a_hard_stop_is_no_contact_if_the_delay_is_known() -> None:
    unknown, touched = emergency_stop(ContactDetector(MODEL, DetectorParameters(**KNOWN)))
    # The torque changes by D = 100 N·m at once, so that the peak may reach K T D = 8 N·m.
    assert touched
    assert unknown > 3.5
    known = DetectorParameters(**KNOWN, velocity_delay=DELAY)
    residual, touched = emergency_stop(ContactDetector(MODEL, known))
    assert not touched
    # What is left is noise, and the friction's curve between the samples.
    assert residual < 1.2


def test_calibrate_identifies_the_delay_and_its_thresholds_become_smaller() -> None:
    cutoff = 30.0
    recorded = lively_motion(MODEL, 24.0, velocity_cutoff=cutoff)
    found = calibrate([recorded], MODEL).parameters
    assert found.velocity_delay == pytest.approx(1.0 / (2.0 * np.pi * cutoff), rel=0.2)
    # A known delay is kept; the shortest that can be given is nearly none.
    without = calibrate([recorded], MODEL, replace(START, velocity_delay=1e-9)).parameters
    assert without.velocity_delay == 1e-9
    ratio = np.array(found.contact_threshold) / np.array(without.contact_threshold)
    assert np.exp(np.log(ratio).mean()) < 0.95
