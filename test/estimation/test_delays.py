"""Measured velocities: their delay, and velocities that the positions contradict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from free_motion import lively_motion
from scipy.signal import lfilter

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.identification.calibration import calibrate
from rbd_control.identification.delays import velocity_delay, velocity_fits, wrong_velocities
from rbd_control.identification.diagnosis import diagnose
from rbd_control.identification.motion import RecordedMotion
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
    "follow_friction": False,  # the friction is known
}


def arm(cutoff: float) -> SimulatedArm:
    parameters = SimulationParameters(
        initial_position=HOME, coulomb=(0.5,), viscous=(0.5,), velocity_cutoff=cutoff, seed=2
    )
    return SimulatedArm(MODEL, parameters)


def late(x: np.ndarray, delay: float, dt: float) -> np.ndarray:
    """Return ``x`` (k, n) through a first-order filter with the time constant ``delay`` [s]."""
    share = 1.0 - np.exp(-dt / delay)
    start = (1.0 - share) * x[:1]
    return np.asarray(lfilter([share], [1.0, share - 1.0], x, axis=0, zi=start)[0])


def emergency_stop(
    detector: ContactDetector, effort_delay: float = 0.0, cutoff: float = CUTOFF
) -> tuple[float, bool]:
    """Turn the first joint fast, and brake it hard.

    Args:
        detector: judges each sample.
        effort_delay: time constant of a filter of the efforts [s].
        cutoff: frequency of the filter of the velocities [Hz].

    Returns:
        The largest residual while it brakes [N·m], and whether there was a verdict of contact.
    """
    plant, largest, touched, tau = arm(cutoff), 0.0, False, np.zeros(0)
    for k in range(700):
        torque = gravity_torque(MODEL, plant.q)
        turn = 20.0 if k < 400 else -80.0 if plant.v[0] > 0.3 else 0.0
        torque[0] += turn
        plant.step(torque - DAMPING * plant.v)
        sample = plant.reading()
        assert sample is not None
        last, tau = tau, np.asarray(sample.tau)
        if effort_delay and last.size:
            tau = tau + np.exp(-0.001 / effort_delay) * (last - tau)
        found = detector.update(sample.stamp, sample.q, sample.v, tau)
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


def test_a_hard_stop_is_no_contact_if_the_delay_of_the_effort_is_known() -> None:
    delay = 0.006
    unknown, touched = emergency_stop(
        ContactDetector(MODEL, DetectorParameters(**KNOWN)), delay, 2000.0
    )
    assert touched
    assert unknown > 3.5
    known = DetectorParameters(**KNOWN, velocity_delay=-delay)
    residual, touched = emergency_stop(ContactDetector(MODEL, known), delay, 2000.0)
    assert not touched
    # The gravity torque in the effort is late as well, and is not corrected.
    assert residual < 1.8


def test_a_late_effort_delays_a_contact_by_its_delay() -> None:
    delay, dt = 0.006, 0.001
    t = dt * np.arange(1000)
    q = np.tile(HOME, (t.size, 1))
    v = np.zeros_like(q)
    tau = gravity_torque(MODEL, q)
    step = np.where(t[:, None] < 0.5, 0.0, 5.0)
    plain, known = (
        ContactDetector(MODEL, DetectorParameters(**KNOWN, velocity_delay=x)).update_block(
            t, q, v, tau - step
        )
        for x in (0.0, -delay)
    )
    # At rest the effort shows the contact, and it is not delayed twice.
    np.testing.assert_allclose(known.residual, plain.residual, atol=1e-9)


def test_the_delayed_torque_survives_gaps_and_new_parameters() -> None:
    """The delayed torque begins anew; the residual is that of an effort in time."""
    recorded = lively_motion(MODEL, 8.0, velocity_cutoff=2000.0)
    dt = float(np.median(np.diff(recorded.t)))
    tau = late(recorded.tau, 0.006, dt)
    kept = np.ones(recorded.t.size, dtype=bool)
    kept[1000:1100] = False
    parameters = DetectorParameters(**KNOWN, velocity_delay=-0.006)
    detector, largest = ContactDetector(MODEL, parameters), 0.0
    for k in np.flatnonzero(kept):
        if k == 1500:
            detector.set_parameters(replace(parameters, velocity_delay=-0.005))
        found = detector.update(recorded.t[k], recorded.q[k], recorded.v[k], tau[k])
        assert np.isfinite(found.residual).all()
        largest = max(largest, float(np.abs(found.residual).max())) if k > 200 else 0.0
    in_time = ContactDetector(MODEL, DetectorParameters(**KNOWN))
    usual = in_time.update_block(recorded.t, recorded.q, recorded.v, recorded.tau).residual
    assert largest < 1.3 * np.abs(usual[200:]).max()


def test_calibrate_identifies_a_late_effort_and_its_thresholds_become_smaller() -> None:
    recorded = lively_motion(MODEL, 24.0, velocity_cutoff=2000.0)
    dt = float(np.median(np.diff(recorded.t)))
    recorded = replace(recorded, tau=late(recorded.tau, 0.006, dt))
    found = calibrate([recorded], MODEL).parameters
    assert found.velocity_delay == pytest.approx(-0.006, rel=0.2)
    without = calibrate([recorded], MODEL, replace(START, velocity_delay=1e-9)).parameters
    ratio = np.array(found.contact_threshold) / np.array(without.contact_threshold)
    assert np.exp(np.log(ratio).mean()) < 0.95


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


@pytest.mark.parametrize("delay", [0.0, 0.012, 0.024])
def test_a_velocity_that_comes_later_than_the_positions_is_named(delay: float) -> None:
    """In slow motion the torques hardly show it, and stops looked like contacts without a word."""
    recorded = lively_motion(MODEL, 24.0, velocity_cutoff=2000.0)
    count = round(delay / float(np.median(np.diff(recorded.t))))
    v = np.concatenate([np.repeat(recorded.v[:1], count, axis=0), recorded.v[: -count or None]])
    motions = [replace(recorded, v=v)]
    found, usual = velocity_delay(motions, MODEL), velocity_delay([recorded], MODEL)
    assert 0.0 < usual.value < 0.003  # the filter of the arm, and its steps
    assert found.value - usual.value == pytest.approx(delay, abs=0.001)
    lines = diagnose(motions, MODEL, DetectorParameters()).lines
    named = [line.text for line in lines if line.topic == "delay"]
    assert bool(named) == (delay > 0.0)
    assert all("velocity" in text and "rbd-control calibrate" in text for text in named)
    known = DetectorParameters(velocity_delay=found.value)
    assert not [line for line in diagnose(motions, MODEL, known).lines if line.topic == "delay"]


RATE = 200.0


TIME = np.arange(0.0, 30.0, 1.0 / RATE)


PHASES = 0.9 * np.arange(7.0)


REVERSED = np.array([1.0, 1.0, -1.0, 1.0, 1.0, 1.0, 1.0])


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
    motion = RecordedMotion("recording", TIME, q, shown, np.zeros_like(q))
    return wrong_velocities(velocity_fits([motion], model))


def test_a_filter_of_the_velocities_is_no_defect(model: Model) -> None:
    """It was taken for the velocity of another joint."""
    v, late = swinging(2.0), 0.02
    assert defect(v, filtered(v, late), model) == ""
    assert "joint_3 (wrong sign)" in defect(v, REVERSED * filtered(v, late), model)
    exchanged = filtered(v, late)[:, [0, 2, 1, 3, 4, 5, 6]]
    assert "joint_2 (velocity of joint_3)" in defect(v, exchanged, model)


def test_slow_motion_shows_a_defect(model: Model) -> None:
    """Its windows of 0.1 s had less motion than the noise that is excepted."""
    v = slow(0.03)
    assert "joint_3 (wrong sign)" in defect(v, REVERSED * v, model)
    assert defect(v, v, model) == ""


def test_noise_of_the_encoders_is_no_defect_of_slow_velocities(model: Model) -> None:
    assert defect(slow(0.045), slow(0.045), model, noise=0.003) == ""
