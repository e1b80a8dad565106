"""Calibration identifies the simulated friction, and rejects unusable recordings."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from free_motion import COULOMB, RATE, VISCOUS, lively_motion, recording

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError, RecordingError
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.estimation.thresholds import BLOCK, MARGIN, alarm_levels, block_maxima
from rbd_control.identification import (
    Calibration,
    RecordedMotion,
    calibrate,
)
from rbd_control.identification.threshold_calibration import (
    START,
    STATIC_FRICTION,
    CalibratedParameters,
    FreeMotion,
    with_thresholds,
)
from rbd_control.playback.motions import free_motions, read_motions
from rbd_control.simulation import SimulatedArm


def motion(
    model: Model, seconds: float, *, name: str = "free", seed: int = 0, push: Any = None
) -> RecordedMotion:
    """Return a motion of all joints of the shipped arm, with a push at the time ``push`` [s]."""

    def act(arm: SimulatedArm, t: float) -> None:
        if push is not None and abs(t - push) < 0.5 / RATE:
            arm.push("link_7", (0.0, 15.0, 0.0), duration=0.3)

    return lively_motion(model, seconds, name=name, seed=seed, act=act)


@pytest.fixture(scope="module")
def motions(model: Model) -> list[RecordedMotion]:
    return [motion(model, 16.0, name=f"free {seed}", seed=seed) for seed in (1, 2)]


@pytest.fixture(scope="module")
def calibration(motions: list[RecordedMotion], model: Model) -> Calibration:
    return calibrate(motions, model)


def test_finds_the_friction_of_the_plant(calibration: Calibration) -> None:
    # What a wrong mass leaves of gravity, and the sample-and-hold of the torque, look a little
    # like friction.
    np.testing.assert_allclose(calibration.parameters.friction_coulomb, COULOMB, atol=0.1)
    np.testing.assert_allclose(calibration.parameters.friction_viscous, VISCOUS, atol=0.15)
    for joint in calibration.joints:
        assert joint.rms_after < 0.5 * joint.rms_before
        assert joint.threshold > joint.largest


@pytest.mark.parametrize("fall", [0.0, 0.2])
def test_friction_that_falls_as_the_arm_warms_up_is_named(
    fall: float, motions: list[RecordedMotion], calibration: Calibration, model: Model
) -> None:
    """The torque for the same motion falls with the friction."""
    t = np.concatenate([m.t + 16.0 * i for i, m in enumerate(motions)])
    shares = np.split(fall * t / t[-1], [motions[0].t.size])
    warmer = [
        replace(m, tau=m.tau - share[:, None] * (np.tanh(m.v / 0.01) * COULOMB + m.v * VISCOUS))
        for m, share in zip(motions, shares, strict=True)
    ]
    change = (calibrate(warmer, model) if fall else calibration).friction_change
    if not fall:
        assert change is None
        return
    assert change is not None
    # The middles of first and last third are two thirds of the time apart.
    expected = -2.0 / 3.0 * fall / (1.0 - fall / 6.0)
    assert change.share == pytest.approx(expected, abs=2.0 * change.error)
    assert change.error < 0.03
    assert "fell by 1" in change.text
    assert "record again after 20 minutes of motion" in change.text


@pytest.mark.parametrize(
    ("delay", "exact"),
    # The same sums in another order; the mass matrix changes within a delay of the effort.
    [(0.002, 1e-9), (-0.002, 0.02)],
    ids=["late velocity", "late effort"],
)
def test_its_residual_is_the_detectors(
    motions: list[RecordedMotion], model: Model, delay: float, exact: float
) -> None:
    """Calibration filters whole motions at once; the thresholds hold for the detector's samples."""
    calibration = calibrate(motions, model, replace(START, velocity_delay=delay))
    fixed = replace(calibration.parameters, follow_friction=False)
    detector = ContactDetector(fixed.corrected(model), fixed)
    m, (_, t, _, residual, _) = motions[0], calibration.residuals[0]
    expected = detector.update_block(m.t, m.q, m.v, m.tau).residual[np.isin(m.t, t)]
    assert (np.abs(residual - expected) <= exact * np.array(fixed.contact_threshold)).all()


def test_refuses_a_hand_that_the_description_lacks(
    motions: list[RecordedMotion], model: Model
) -> None:
    """It is named as ``check`` names it, and not corrected away by masses of the links."""
    hand = model.joint_links[-1]
    com = np.array([0.0, 0.02, 0.06])
    heavy = [replace(m, tau=m.tau + 0.6 * _weight(model, m.q, hand, com)) for m in motions]
    with pytest.raises(RecordingError, match=r"payload: the arm carries 0\.[56]. ± .* of link_7"):
        calibrate(heavy, model)
    calibrate(heavy, model.with_payload(hand, 0.6, com, np.zeros((3, 3))))


def test_masses_of_another_arm_are_noted_and_corrected(
    motions: list[RecordedMotion], model: Model, calibration: Calibration
) -> None:
    """They are no reason to refuse: where no better description exists, this is the remedy."""
    heavy = replace(
        model,
        arrays=model.arrays._replace(
            mass=1.25 * model.arrays.mass,
            first_moment=1.25 * model.arrays.first_moment,
            second_moment=1.25 * model.arrays.second_moment,
        ),
    )
    found = calibrate(motions, heavy)
    assert any(re.search(r"masses of the description are 1\.[23]", note) for note in found.notes)
    assert not any("masses of the description are" in note for note in calibration.notes)
    thresholds, usual = (
        np.array(one.parameters.for_joints("contact_threshold", model.nv))
        for one in (found, calibration)
    )
    # A fifth of the torque of this arm is many times its threshold.
    assert (thresholds < 1.5 * usual).all()


def _weight(model: Model, q: np.ndarray, link: str, com: np.ndarray) -> np.ndarray:
    """Gravity torque of 1 kg at ``com`` of ``link``."""
    return gravity_torque(model.with_payload(link, 1.0, com, np.zeros((3, 3))), q) - gravity_torque(
        model, q
    )


def test_takes_efforts_without_gravity(
    motions: list[RecordedMotion], model: Model, calibration: Calibration
) -> None:
    free = [replace(m, tau=m.tau - gravity_torque(model, m.q)) for m in motions]
    parameters = DetectorParameters(observer="second_order", effort_kind="torque_without_gravity")
    found = calibrate(free, model, parameters)
    np.testing.assert_allclose(
        found.parameters.friction_coulomb, calibration.parameters.friction_coulomb, atol=0.05
    )
    detector = ContactDetector(found.parameters.corrected(model), found.parameters)
    m = free[0]
    assert not detector.update_block(m.t, m.q, m.v, m.tau).contact.any()


def test_true_contacts_in_a_recording_are_left_out(model: Model) -> None:
    """Pushes of 1.5 N are too weak to be refused; they made the thresholds five times as high."""
    begun: list[float] = []

    def act(arm: SimulatedArm, t: float) -> None:
        if t >= 2.0 + 3.0 * len(begun):
            begun.append(t)
            side = 1.0 if len(begun) % 2 else -1.0
            arm.push("link_7", (1.3 * side, 0.6 * side, 0.4 * side), duration=0.4)

    pushed = lively_motion(model, 32.0, seed=3, act=act)
    contacts = tuple((1000.0 + t, 1000.4 + t) for t in begun)
    told = replace(recording(pushed, model.joint_names), true_contacts=contacts)
    free, notes = free_motions(told, read_motions(told, model))
    assert notes == (f"{0.5 * len(begun):.1f} s of true contact in the recording are left out",)
    with_pushes, without = (calibrate(each, model).joints[0] for each in ([pushed], free))
    # Static friction is a lower bound of the threshold.
    assert without.threshold < 0.7 * with_pushes.threshold
    assert without.largest < 0.2 * with_pushes.largest
    none = replace(told, true_contacts=((1000.0, None),))
    with pytest.raises(RecordingError, match="no motion without contact"):
        free_motions(none, read_motions(none, model))


def test_no_alarm_in_other_motions_like_these(calibration: Calibration, model: Model) -> None:
    detector = ContactDetector(calibration.parameters.corrected(model), calibration.parameters)
    other = motion(model, 16.0, seed=3)
    detections = [
        detector.update(*sample)
        for sample in zip(other.t, other.q, other.v, other.tau, strict=True)
    ]
    assert not any(d.contact for d in detections)


def test_the_level_is_passed_as_seldom_as_promised() -> None:
    """The level of Gaussian noise, from 24 s, is exceeded no more often in an hour."""
    from scipy.stats import norm

    samples = round(BLOCK / 0.05)  # independent samples of a block
    noise = np.abs(np.random.default_rng(4).normal(size=(96, samples, 500))).max(axis=1)
    levels = alarm_levels(noise, 1.0)
    # The probability of a sample with one false alarm in an hour, on both sides.
    exact = norm.isf(0.5 * BLOCK / 3600.0 / samples)
    assert (levels > exact).mean() > 0.8
    # No longer twice the exact level, as with a Gumbel distribution of the maxima themselves.
    assert np.median(levels) < 1.25 * exact


def test_the_level_lies_above_all_that_was_seen() -> None:
    """A model error that happens once is no noise."""
    maxima = np.abs(np.random.default_rng(5).normal(2.0, 0.1, (240, 2)))
    maxima[17, 1] = 9.0
    assert alarm_levels(maxima, 100.0)[1] == pytest.approx(MARGIN * 9.0)
    # A lower rate needs a higher level, if noise decides.
    assert alarm_levels(maxima, 1e-9)[0] > alarm_levels(maxima, 100.0)[0]


def test_each_joint_has_an_equal_share_of_half_the_alarms(model: Model) -> None:
    """The other half is for the statistic of all residuals."""
    t = 0.002 * np.arange(20_000)
    noise = np.random.default_rng(3).normal(size=(t.size, 7))
    zero, rates = np.zeros_like(noise), np.zeros((2, 7))
    part = FreeMotion("noise", t, np.ones_like(noise), noise, noise, zero, noise, zero, rates)
    found = with_thresholds(
        CalibratedParameters(),
        model,
        [part],
        prediction_error=np.zeros(7),
        false_alarms_per_hour=1e-9,
    )
    maxima = block_maxima(t, np.abs(noise))
    level = alarm_levels(maxima, 0.5e-9 / 7.0)
    assert (level > 1.01 * MARGIN * maxima.max(axis=0)).all()  # so that the rate matters
    np.testing.assert_allclose(found.contact_threshold, level)


def test_friction_at_rest_cannot_keep_a_contact_open(calibration: Calibration) -> None:
    """A joint may hold its static friction after a contact; changes count from the other side."""
    found = calibration.parameters
    coulomb = np.array(found.friction_coulomb)
    released = found.release_ratio * np.array(found.contact_threshold)
    assert (released >= STATIC_FRICTION * coulomb - 1e-9).all()
    assert (np.array(found.rest_threshold) >= 2.0 * STATIC_FRICTION * coulomb - 1e-9).all()
    reversal = np.array(found.contact_threshold) * (1.0 - np.array(found.moving_ratio))
    assert (reversal >= STATIC_FRICTION * coulomb - 1e-9).all()


def test_the_rate_of_the_joint_states_is_found(
    calibration: Calibration, motions: list[RecordedMotion]
) -> None:
    assert calibration.parameters.calibrated_rate == pytest.approx(
        1.0 / float(np.median(np.diff(motions[0].t))), rel=1e-3
    )
    # All joints of these motions move all the time, but for their reversals.
    assert calibration.moving == pytest.approx(sum(m.t[-1] - m.t[0] for m in motions), rel=0.05)


def test_the_noise_of_the_torque_is_found(
    motions: list[RecordedMotion], model: Model, calibration: Calibration
) -> None:
    rng, noise = np.random.default_rng(9), np.linspace(0.1, 0.4, 7)
    noisy = [replace(m, tau=m.tau + rng.normal(0.0, noise, m.tau.shape)) for m in motions]
    found = calibrate(noisy, model).parameters
    # The controller of the motion adds noise of its own, which is not Gaussian.
    whole = np.hypot(noise, calibration.parameters.torque_noise)
    np.testing.assert_allclose(found.torque_noise, whole, rtol=0.15)


def test_errors_of_fast_motion_have_floors(calibration: Calibration) -> None:
    """A recording of half a minute proves neither masses nor delays."""
    found = calibration.parameters
    assert (np.array(found.inertia_error) >= 0.02).all()
    assert 0.0 < found.delay_error < 0.01
    assert "joint_7" in calibration.support
    assert f"{1e3 * found.delay_error:.2g} ms" in calibration.support


def test_refuses_a_joint_that_hardly_moves(motions: list[RecordedMotion], model: Model) -> None:
    still = [replace(m, q=m.q.copy(), v=m.v.copy(), tau=m.tau.copy()) for m in motions]
    for m in still:
        m.q[:, 3] = -1.5
        m.v[:, 3] = 0.0
    with pytest.raises(RecordingError, match="'joint_4' moves too little") as caught:
        calibrate(still, model)
    # All nodes would lock this joint of the arm, which moves in other recordings.
    assert "--lock" not in caught.value.message


def test_refuses_motion_with_apparent_contact(motions: list[RecordedMotion], model: Model) -> None:
    touched = motion(model, 16.0, name="touched", seed=5, push=8.0)
    with pytest.raises(RecordingError, match="touched: .* looks like contact"):
        calibrate([*motions, touched], model)


WRONG_EFFORTS = {
    "dies": (lambda x: x * (np.arange(x.size) < 2000), (4,), "is not measured"),
    "reversed": (lambda x: -x, (2, 7), "(times the model|has friction that drives the joint)"),
}
"""Faults of the efforts of a joint, the joints to test, and the expected message.

The torque of the last joint is mostly friction of unknown size.
"""


@pytest.mark.parametrize(
    ("effort", "joint", "says"),
    [
        pytest.param(effort, joint, says, id=f"{name}-{joint}")
        for name, (effort, joints, says) in WRONG_EFFORTS.items()
        for joint in joints
    ],
)
def test_refuses_a_joint_whose_effort_is_no_torque(
    motions: list[RecordedMotion],
    model: Model,
    effort: Callable[[np.ndarray], np.ndarray],
    joint: int,
    says: str,
) -> None:
    """Thresholds would otherwise come out 10 to 180 times too high, without a word."""
    wrong = [replace(m, tau=m.tau.copy()) for m in motions]
    for m in wrong:
        m.tau[:, joint - 1] = effort(m.tau[:, joint - 1])
    with pytest.raises(RecordingError, match=f"joint_{joint}.*{says}"):
        calibrate(wrong, model)


def test_no_motion_and_no_rate_are_refused(motions: list[RecordedMotion], model: Model) -> None:
    with pytest.raises(RecordingError, match="no motion"):
        calibrate([], model)
    for rate in (0.0, np.nan):
        with pytest.raises(InputError, match="false_alarms_per_hour"):
            calibrate(motions, model, false_alarms_per_hour=rate)
