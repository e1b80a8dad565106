"""Calibration identifies the simulated friction, and rejects unusable recordings."""

import re
from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from free_motion import COULOMB, RATE, VISCOUS, lively_motion, recording

from rbd_control.cli.main import main
from rbd_control.dynamics import Model, gravity_torque, inverse_dynamics
from rbd_control.errors import InputError, ParameterError, RecordingError
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.estimation.thresholds import BLOCK, SEEN, alarm_levels, block_maxima
from rbd_control.identification import (
    Calibration,
    DriveGainError,
    GainEvidence,
    KnownGain,
    Motion,
    calibrate,
)
from rbd_control.identification.motion import refuse_little_motion
from rbd_control.identification.threshold_calibration import (
    MARGIN,
    CalibratedParameters,
    FreeMotion,
    with_thresholds,
)
from rbd_control.node_parameters import law_parameters
from rbd_control.parameters import read_parameter_file
from rbd_control.playback.motions import free_motions, read_motions
from rbd_control.robot.inertial_corrections import CORRECTIONS, InertialCorrections
from rbd_control.robot.robot import robot_parameters
from rbd_control.simulation import SimulatedArm, arm7_urdf


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def motion(
    model: Model, seconds: float, *, name: str = "free", seed: int = 0, push: Any = None
) -> Motion:
    """Return a motion of all joints of the shipped arm, with a push at the time ``push`` [s]."""

    def act(arm: SimulatedArm, t: float) -> None:
        if push is not None and abs(t - push) < 0.5 / RATE:
            arm.push("link_7", (0.0, 15.0, 0.0), duration=0.3)

    return lively_motion(model, seconds, name=name, seed=seed, act=act)


@pytest.fixture(scope="module")
def motions(model: Model) -> list[Motion]:
    return [motion(model, 16.0, name=f"free {seed}", seed=seed) for seed in (1, 2)]


@pytest.fixture(scope="module")
def calibration(motions: list[Motion], model: Model) -> Calibration:
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
    calibration: Calibration, motions: list[Motion], model: Model
) -> None:
    """Calibration filters whole motions at once; the thresholds hold for the detector's samples."""
    detector = ContactDetector(calibration.parameters.corrected(model), calibration.parameters)
    m, (_, t, _, residual, _) = motions[0], calibration.residuals[0]
    expected = detector.update_block(m.t, m.q, m.v, m.tau).residual
    # The same sums, in another order.
    np.testing.assert_allclose(residual, expected[np.isin(m.t, t)], atol=1e-9)


def test_corrects_a_model_that_is_wrong(motions: list[Motion], model: Model) -> None:
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


def test_finds_the_gains_of_drives_that_report_currents(
    motions: list[Motion], model: Model
) -> None:
    """The last joint moves hardly any mass, so its gain must be given."""
    gains = np.array([8.0, -9.0, 7.0, 7.5, 5.0, -4.0, 3.0])
    currents = [replace(m, tau=m.tau / gains) for m in motions]
    parameters = DetectorParameters(observer="second_order", effort_kind="current")
    with pytest.raises(DriveGainError, match="joint_7 .* --payload-recording") as refused:
        calibrate(currents, model, parameters)
    assert [one.joint for one in refused.value.gains if not one.is_accepted(0.04)] == ["joint_7"]
    evidence = GainEvidence(known={"joint_7": KnownGain(3.0)})
    found = calibrate(currents, model, parameters, evidence=evidence)
    # Joints that carry weight tell their gain to a few percent, with masses 1 % off.
    np.testing.assert_allclose(found.parameters.effort_gain, gains, rtol=0.05)
    for one, gain in zip(found.gains[:6], gains, strict=False):
        assert abs(one.gain - gain) < 3.0 * one.standard_error
    assert found.gains[6].text == "3 ± 0 (0 %, given)"


def test_takes_efforts_without_gravity(
    motions: list[Motion], model: Model, calibration: Calibration
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


def test_names_efforts_that_are_not_as_declared(
    motions: list[Motion], model: Model, calibration: Calibration
) -> None:
    """Offsets would take most of gravity for friction."""
    assert not any("effort" in note for note in calibration.notes)
    wrong = DetectorParameters(observer="second_order", effort_kind="torque_without_gravity")
    with pytest.raises(RecordingError, match="includes gravity; set effort_kind: torque"):
        calibrate(motions, model, wrong)
    trusting = replace(wrong, check_effort_kind=False)
    assert "efforts include gravity" in calibrate(motions, model, trusting).notes[0]
    free = [replace(m, tau=m.tau - gravity_torque(model, m.q)) for m in motions]
    with pytest.raises(RecordingError, match="subtracts gravity"):
        calibrate(free, model)


def test_names_thresholds_that_are_higher_than_without_calibration(
    motions: list[Motion], model: Model, calibration: Calibration
) -> None:
    """The drift of a torque sensor became a threshold above the default, without a word."""
    assert not any("higher than" in note for note in calibration.notes)
    drift = np.zeros((motions[0].t.size, 7))
    drift[:, 1] = np.linspace(0.0, 8.0, motions[0].t.size)
    drifting = [replace(m, tau=m.tau + drift) for m in motions]
    found = calibrate(drifting, model)
    assert found.joints[1].threshold > 9.0
    (note,) = [note for note in found.notes if "higher than without calibration" in note]
    assert re.search(r"\[N·m or N\]: joint_2 \d+\.\d instead of 9;", note)


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
    assert without.threshold < 0.4 * with_pushes.threshold
    none = replace(told, true_contacts=((1000.0, None),))
    with pytest.raises(RecordingError, match="no motion without contact"):
        free_motions(none, read_motions(none, model))


@pytest.mark.parametrize("name", CORRECTIONS)
def test_every_correction_reaches_the_residual(
    name: str, model: Model, motions: list[Motion]
) -> None:
    m = motions[0]
    plain = ContactDetector(model, DetectorParameters())
    corrected = InertialCorrections(**{name: (0.05,)}).corrected(model)
    changed = ContactDetector(corrected, DetectorParameters())
    block = (m.t[:300], m.q[:300], m.v[:300], m.tau[:300])
    assert np.abs(changed.update_block(*block).residual - plain.update_block(*block).residual).max()


def test_refuses_a_correction_that_leaves_no_mass(model: Model) -> None:
    with pytest.raises(ParameterError, match="joint 'joint_3'.* must have mass"):
        InertialCorrections(mass_correction=(0, 0, -50.0, 0, 0, 0, 0)).corrected(model)


def test_no_alarm_in_other_motions_like_these(calibration: Calibration, model: Model) -> None:
    detector = ContactDetector(calibration.parameters.corrected(model), calibration.parameters)
    other = motion(model, 16.0, seed=3)
    detections = [
        detector.update(*sample)
        for sample in zip(other.t, other.q, other.v, other.tau, strict=True)
    ]
    assert not any(d.contact for d in detections)


def test_a_rarer_alarm_needs_higher_thresholds(
    motions: list[Motion], model: Model, calibration: Calibration
) -> None:
    rare = calibrate(motions, model, false_alarms_per_hour=0.01)
    for usual, high in zip(calibration.joints, rare.joints, strict=True):
        assert high.threshold > usual.threshold
    assert rare.false_alarms_per_hour == 0.01


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
    part = FreeMotion("noise", t, np.ones_like(noise), noise, noise, np.zeros_like(noise))
    found = with_thresholds(
        CalibratedParameters(),
        model,
        [part],
        prediction_error=np.full(7, 0.1),
        false_alarms_per_hour=1.0,
    )
    level = alarm_levels(block_maxima(t, np.abs(noise)), 0.5 / 7.0)
    np.testing.assert_allclose(found.contact_threshold, MARGIN * level)


def test_refuses_a_joint_that_hardly_moves(motions: list[Motion], model: Model) -> None:
    still = [replace(m, q=m.q.copy(), v=m.v.copy(), tau=m.tau.copy()) for m in motions]
    for m in still:
        m.q[:, 3] = -1.5
        m.v[:, 3] = 0.0
    with pytest.raises(RecordingError, match="'joint_4' moves too little") as caught:
        calibrate(still, model)
    # All nodes would lock this joint of the arm, which moves in other recordings.
    assert "--lock" not in caught.value.message
    for m in still:
        m.tau[:, 3] = 0.0
    with pytest.raises(RecordingError, match="a joint that is not the arm's with --lock"):
        refuse_little_motion(still, model)


def test_refuses_motion_that_is_too_short(motions: list[Motion], model: Model) -> None:
    with pytest.raises(RecordingError, match="20 s are needed"):
        calibrate(motions[:1], model)


def test_refuses_motion_with_apparent_contact(motions: list[Motion], model: Model) -> None:
    touched = motion(model, 16.0, name="touched", seed=5, push=8.0)
    with pytest.raises(RecordingError, match="touched: .* looks like contact"):
        calibrate([*motions, touched], model)


WRONG_EFFORTS = {
    "dead": (lambda x: 0.0 * x, (1, 2, 7), "publishes no effort"),
    "dies": (lambda x: x * (np.arange(x.size) < 2000), (4,), "publishes no effort"),
    "never changes": (lambda x: 0.0 * x + 1.7, (5,), "never changes, it is 1.7"),
    "reversed": (lambda x: -x, (1, 2, 7), "wrong sign"),
    "a tenth": (lambda x: 0.1 * x, (3,), "is 0.1.* times the model's torque"),
    "half": (lambda x: 0.5 * x, (1, 6), "is 0.[45].* times the model's torque"),
    "twice": (lambda x: 2.0 * x, (2, 5), "is (2|1.99).* times the model's torque"),
    "absurd": (lambda x: 3e12 * np.sign(x) + x, (3,), "reaches 3e.12"),
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
    motions: list[Motion],
    model: Model,
    effort: Callable[[np.ndarray], np.ndarray],
    joint: int,
    says: str,
) -> None:
    """[31] Thresholds would otherwise come out 10 to 180 times too high, without a word."""
    wrong = [replace(m, tau=m.tau.copy()) for m in motions]
    for m in wrong:
        m.tau[:, joint - 1] = effort(m.tau[:, joint - 1])
    with pytest.raises(RecordingError, match=f"joint_{joint}.*{says}"):
        calibrate(wrong, model)


def test_refuses_efforts_that_are_not_measured(motions: list[Motion], model: Model) -> None:
    with pytest.raises(RecordingError, match="effort is not measured"):
        calibrate([replace(m, tau=0.0 * m.tau) for m in motions], model)


@pytest.mark.parametrize("stray", [500.0, 1e30, -1e308])
def test_leaves_stray_samples_out(
    motions: list[Motion], model: Model, calibration: Calibration, stray: float
) -> None:
    """[5] Their number is reported, and the thresholds are those of the other samples."""
    odd = [replace(m, tau=m.tau.copy()) for m in motions]
    odd[0].tau[1000, 1] = stray
    found = calibrate(odd, model)
    assert any("free 1: 1 of 3999 samples are left out" in note for note in found.notes)
    assert any("joint_2" in note for note in found.notes)
    # The observer gain is chosen from a grid; one sample less may tip the choice for a joint, which
    # moves its threshold by a fifth.
    np.testing.assert_allclose(
        found.parameters.contact_threshold, calibration.parameters.contact_threshold, rtol=0.25
    )


def test_a_heavy_hand_is_no_other_unit(motions: list[Motion], model: Model) -> None:
    """A heavy hand makes only the wrist's efforts 2.5 times too large, which is no wrong unit."""
    mass, com = 2.5, (0.0, 0.02, 0.06)
    loaded = model.with_payload(model.joint_links[-1], mass, com, np.zeros((3, 3)))
    heavy = []
    for m in motions:
        a = np.gradient(m.v, m.t, axis=0)
        more = inverse_dynamics(loaded, m.q, m.v, a) - inverse_dynamics(model, m.q, m.v, a)
        heavy.append(replace(m, tau=m.tau + more))
    found = calibrate(heavy, model)
    assert any("the arm carries 2.5" in note for note in found.notes)
    assert not any("unit (--effort" in note for note in found.notes)


def test_gain_is_kept(motions: list[Motion], model: Model) -> None:
    slow = calibrate(
        motions,
        model,
        DetectorParameters(observer="momentum", observer_gain=(10.0,)),
        keep_gain=True,
    )
    assert slow.parameters.observer == "momentum"
    assert slow.parameters.observer_gain == (10.0,)
    assert slow.parameters.settling_time == pytest.approx(0.6)


def test_the_command_writes_what_the_detector_loads(
    motions: list[Motion], model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The arm has a motor inertia in its first joint that the description lacks."""
    files = []
    names = model.joint_names
    motor = np.array([1.0, *np.zeros(6)])
    geared = [replace(m, tau=m.tau + motor * np.gradient(m.v, m.t, axis=0)) for m in motions]
    for m in geared:
        file = tmp_path / f"{m.name.replace(' ', '_')}.csv"
        kinds = ("position", "velocity", "effort")
        header = ",".join(["time", *(f"{kind}/{joint}" for kind in kinds for joint in names)])
        table = np.column_stack([m.t, m.q, m.v, m.tau])
        np.savetxt(file, table, delimiter=",", header=header, comments="", fmt="%.9g")
        files.append(str(file))
    out = tmp_path / "detector.yaml"
    arguments = ["calibrate", *files, "--urdf", "arm7", "--out", str(out), "--report"]
    assert main([*arguments, str(tmp_path / "report")]) == 0
    assert (tmp_path / "report" / "calibration.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert "1 false alarm per hour" in " ".join(printed.split())
    values = read_parameter_file(out, "contact_detector")
    loaded, robot = law_parameters(DetectorParameters, values), robot_parameters(values)
    direct = calibrate(geared, model).parameters
    # Masses 1 % off may stand in for a part of it.
    np.testing.assert_allclose(direct.rotor_inertia, motor, atol=0.1)
    np.testing.assert_allclose(robot.rotor_inertia, direct.rotor_inertia, rtol=0.01)
    rotor = f"{robot.rotor_inertia[0]:.3g},"
    assert re.search(rf"motor and gear \[kg·m² or kg\]: \S+ {rotor}", printed)
    # The file holds nine digits of each sample.
    np.testing.assert_allclose(loaded.contact_threshold, direct.contact_threshold, rtol=0.01)
    assert main(["replay", files[0], "--urdf", "arm7", "--config", str(out)]) == 0
    assert "no contact found" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("recordings", "says"),
    [
        (["nowhere.mcap"], "nowhere.mcap"),
        (["free.csv", "./free.csv"], "free.csv: is given twice"),
        (["free.csv"], "no joint joint_1, .* is this its URDF"),
    ],
)
def test_the_command_refuses_in_one_line(
    recordings: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("free.csv").write_text("time,position/elbow,velocity/elbow,effort/elbow\n0,0,0,0\n")
    assert main(["calibrate", *recordings, "--urdf", "arm7", "--out", "x.yaml"]) == 2
    error = capsys.readouterr().err
    assert re.search(says, error)
    assert error.count("\n") == 1
    assert not Path("x.yaml").exists()


def test_no_motion_and_no_rate_are_refused(motions: list[Motion], model: Model) -> None:
    with pytest.raises(RecordingError, match="no motion"):
        calibrate([], model)
    for rate in (0.0, -1.0, np.nan, np.inf, 1e6):
        with pytest.raises(InputError, match="false_alarms_per_hour"):
            calibrate(motions, model, false_alarms_per_hour=rate)


def test_stretches_shorter_than_the_settling_time_are_left_out(
    motions: list[Motion], model: Model
) -> None:
    """They ended calibrate with an IndexError."""
    start = DetectorParameters(observer="second_order", settling_time=2.0)
    short = Motion("short", *(x[: round(1.5 * RATE)] for x in astuple(motions[0])[1:]))
    found = calibrate([*motions, short], model, start, keep_gain=True)
    assert {name for name, *_ in found.residuals} == {motion.name for motion in motions}


def test_a_recording_of_short_stretches_is_too_short(motions: list[Motion], model: Model) -> None:
    """It ended calibrate with a ValueError of numpy."""
    whole = motions[0]
    pieces = np.arange(whole.t.size) // round(0.8 * RATE)
    torn = replace(whole, t=whole.t + 1.0 * pieces)
    with pytest.raises(RecordingError, match="0 s of motion can be used"):
        calibrate([torn], model)


def test_an_effort_limit_that_is_none_is_no_wrong_effort(motions: list[Motion]) -> None:
    """``effort="1e9"`` in a description was taken for efforts of another unit."""
    text = re.sub(r'effort="[^"]*"', 'effort="1e9"', arm7_urdf())
    assert calibrate(motions, Model.from_urdf(text)).parameters.contact_threshold
