"""Calibration identifies the simulated friction, and rejects unusable recordings."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from free_motion import COULOMB, RATE, VISCOUS, lively_motion, recording

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError, RecordingError
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.estimation.thresholds import BLOCK, SEEN, alarm_levels, block_maxima
from rbd_control.identification import (
    Calibration,
    RecordedMotion,
    calibrate,
)
from rbd_control.identification.threshold_calibration import (
    MARGIN,
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


def test_its_residual_is_the_detectors(
    calibration: Calibration, motions: list[RecordedMotion], model: Model
) -> None:
    """Calibration filters whole motions at once; the thresholds hold for the detector's samples."""
    detector = ContactDetector(calibration.parameters.corrected(model), calibration.parameters)
    m, (_, t, _, residual, _) = motions[0], calibration.residuals[0]
    expected = detector.update_block(m.t, m.q, m.v, m.tau).residual
    # The same sums, in another order.
    np.testing.assert_allclose(residual, expected[np.isin(m.t, t)], atol=1e-9)


def test_corrects_a_model_that_is_wrong(motions: list[RecordedMotion], model: Model) -> None:
    """The gravity torque of a 0.6 kg hand that the description lacks is identified."""
    hand = model.joint_links[-1]
    com = np.array([0.0, 0.02, 0.06])
    heavy = [replace(m, tau=m.tau + 0.6 * _weight(model, m.q, hand, com)) for m in motions]
    calibration = calibrate(heavy, model)
    corrected = calibration.parameters.corrected(model)
    # Masses within a chain stand in for each other; what counts is the torque that comes out.
    plain = replace(calibration.parameters, mass_correction=(0.0,)).corrected(model)
    missing = []
    for candidate in (corrected, plain):
        wanted = gravity_torque(model, heavy[0].q) + 0.6 * _weight(model, heavy[0].q, hand, com)
        missing.append(np.abs(gravity_torque(candidate, heavy[0].q) - wanted).max(axis=0))
    assert missing[0].max() < 0.35 * np.abs(0.6 * _weight(model, heavy[0].q, hand, com)).max()
    assert missing[0].max() < missing[1].max()
    assert any("check hand and payload" in note for note in calibration.notes)


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

    pushed = lively_motion(model, 28.0, seed=3, act=act)
    contacts = tuple((1000.0 + t, 1000.4 + t) for t in begun)
    told = replace(recording(pushed, model.joint_names), true_contacts=contacts)
    free, notes = free_motions(told, read_motions(told, model))
    assert notes == (f"{0.5 * len(begun):.1f} s of true contact in the recording are left out",)
    with_pushes, without = (calibrate(each, model).joints[0] for each in ([pushed], free))
    assert without.threshold < 0.4 * with_pushes.threshold
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
    """Synthetic block maxima of known distribution exceed the level at the expected rate."""
    from scipy.stats import gumbel_r

    maxima = gumbel_r(1.0, 0.1).rvs((20000, 2), random_state=4)
    level = alarm_levels(maxima, 0.05 * 3600.0 / BLOCK)
    assert ((maxima > level).mean(axis=0) <= 0.05).all()
    # 20000 maxima leave the fit uncertain to a percent.
    small = alarm_levels(maxima[:20], 1.0)
    large = alarm_levels(maxima, 1.0)
    exact = gumbel_r.isf(BLOCK / 3600.0, 1.0, 0.1)
    np.testing.assert_allclose(large, np.maximum(exact, SEEN * maxima.max(axis=0)), rtol=0.03)
    assert (small != large).all()


def test_the_level_of_few_maxima_belongs_to_alarms_per_hour() -> None:
    """Without a maximum near it, the level is that of the distribution, and a little above it."""
    from scipy.stats import gumbel_r

    maxima = gumbel_r(1.0, 0.1).rvs((240, 20), random_state=4)  # a minute
    exact = gumbel_r.isf(BLOCK / 3600.0, 1.0, 0.1)
    assert (maxima < exact).all()
    levels = alarm_levels(maxima, 1.0)
    # CERTAINTY = 1.28 standard errors of 0.05 are added; nine of ten levels are above.
    assert (levels > exact).mean() > 0.75
    assert np.median(levels) == pytest.approx(exact + 1.28 * 0.05, rel=0.03)


def test_each_joint_has_an_equal_share_of_half_the_alarms(model: Model) -> None:
    """The other half is for the statistic of all residuals."""
    t = 0.002 * np.arange(20_000)
    noise = np.random.default_rng(3).normal(size=(t.size, 7))
    zero, rates = np.zeros_like(noise), np.zeros((2, 7))
    part = FreeMotion("noise", t, np.ones_like(noise), noise, noise, zero, zero, rates)
    found = with_thresholds(
        CalibratedParameters(),
        model,
        [part],
        prediction_error=np.full(7, 0.1),
        false_alarms_per_hour=1.0,
    )
    level = alarm_levels(block_maxima(t, np.abs(noise)), 0.5 / 7.0)
    np.testing.assert_allclose(found.contact_threshold, MARGIN * level)


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
    "dies": (lambda x: x * (np.arange(x.size) < 2000), (4,), "publishes no effort"),
    "reversed": (lambda x: -x, (2, 7), "wrong sign"),
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
