"""Replay of a recording: events, residuals and efforts, and the command with its options."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from damage import sound
from robots import two_arms
from swinging_arm import (
    LABELS,
    MODEL,
    PARAMETERS,
    RATE,
    START,
    URDF,
    recorded,
    swing,
    write_csv,
)

from rbd_control.cli.main import main
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import RecordingError
from rbd_control.estimation import DetectorParameters
from rbd_control.joint_states import JointMessage
from rbd_control.playback.measures import FACTORS
from rbd_control.playback.motions import read_motions
from rbd_control.playback.recorded_joints import match_joints
from rbd_control.playback.replay import replay
from rbd_control.playback.truth import read_labels
from rbd_control.simulation import arm7_urdf


def test_no_contact_no_event_no_residual() -> None:
    result = replay(recorded(swing()), MODEL, PARAMETERS)
    assert result.events == ()
    assert result.warnings == ()
    # The torque is held over each 5 ms step while the exact motion goes on: about 1 % of the
    # 30 N·m/s at which it changes.
    assert max(r.largest for r in result.residuals) < 0.3
    assert result.samples == 800
    assert result.duration == pytest.approx(3.995)
    assert result.rate == pytest.approx(RATE, rel=1e-6)
    assert result.valid_fraction == pytest.approx(1.0 - 0.1 / 4.0, abs=2 / 800)
    assert result.invalid == {"settling": pytest.approx(0.1, abs=2 / RATE)}


def test_another_rate_than_in_the_calibration_is_a_warning() -> None:
    """The recording has 200 Hz."""
    slower = replay(recorded(swing()), MODEL, replace(PARAMETERS, calibrated_rate=2.0 * RATE))
    (warning,) = slower.warnings
    assert "come at 200 Hz, and thresholds were calibrated at 400 Hz" in warning
    same = replay(recorded(swing()), MODEL, replace(PARAMETERS, calibrated_rate=1.1 * RATE))
    assert same.warnings == ()


def test_a_push_is_one_event_scored_against_the_truth() -> None:
    truth = ((START + 1.5, START + 2.0),)
    messages = swing([(1.5, 2.0, 8.0)])
    result = replay(recorded(messages, truth), MODEL, PARAMETERS)
    (event,) = result.events
    # 2 of 8 N·m at K_O = 50 1/s take 5.8 ms, and a sample is 5 ms.
    assert 1.5 < event.detected < 1.52
    assert event.onset == pytest.approx(1.5, abs=0.015)
    assert event.release is not None
    assert 2.0 < event.release < 2.3
    assert event.peak_torque == pytest.approx(8.0, abs=0.3)
    assert (event.level, event.joint, event.link) == ("contact", "arm_elbow", "lower")
    assert result.score is not None
    (contact,) = result.score.contacts
    assert contact.event == 0
    assert contact.delay == pytest.approx(event.detected - 1.5)
    assert (result.score.misses, result.score.false_events) == (0, 0)
    elbow = result.residuals[1]
    assert elbow.over_fraction == 0.0, "true contact is no mismatch"
    assert elbow.largest == pytest.approx(8.0, abs=0.3)
    # Half a second of 8 N·m would make an RMS of 2.8 N·m.
    assert elbow.rms < 0.3
    assert abs(elbow.mean) < 0.1


def test_samples_without_effort_are_dropped_like_lost_messages_and_counted() -> None:
    """One sample in ten has a NaN effort; one of them lies where the push begins."""
    messages = swing([(1.5, 2.0, 8.0)])
    whole = replay(recorded(messages), MODEL, PARAMETERS)
    lacking = range(3, len(messages), 10)
    for k in lacking:
        effort = np.array(messages[k].effort, dtype=float)
        effort[-1] = np.nan
        messages[k] = messages[k]._replace(effort=effort)
    result = replay(recorded(messages), MODEL, PARAMETERS)
    assert result.dropped == {"no effort": len(lacking)}
    assert result.valid_fraction == pytest.approx(whole.valid_fraction, abs=3 / 800)
    (event,), (before,) = result.events, whole.events
    assert event.detected == pytest.approx(before.detected, abs=1.5 / RATE)
    assert result.warnings == (
        f"{len(lacking)} of {len(messages)} samples dropped like lost messages: "
        f"{len(lacking)} x no effort; the last incomplete sample lacks effort of arm_elbow",
    )
    assert result.to_json()["dropped"] == result.dropped
    assert whole.dropped == {}


def test_joint_matching() -> None:
    model = ("p_1", "p_2")
    assert match_joints(model, ("x", "p_2", "p_1"))[0] == model
    assert match_joints(model, ("q_1", "q_2", "grip_1"))[0] == ("q_1", "q_2")
    assert match_joints(model, ("a", "b"), ["b", "a"])[0] == ("b", "a")
    with pytest.raises(RecordingError, match="no joint p_2; .* --lock p_2=POSITION"):
        match_joints(model, ("p_1", "x"))
    with pytest.raises(RecordingError, match="no joint p_1, p_2"):
        match_joints(model, ("left_1", "left_2", "right_1", "right_2"))
    with pytest.raises(RecordingError, match="3 names are given for the model's 2"):
        match_joints(model, ("a", "b", "c"), ["a", "b", "c"])
    others = ("left_1", "left_2", "torso")
    assert match_joints(model, ("q_1", "q_2", "left_1", "left_2"), others=others)[0] == (
        "q_1",
        "q_2",
    )
    assert match_joints(model, others, others[:2], others=others)[0] == others[:2]
    with pytest.raises(RecordingError, match="these are other joints of its URDF; name those of"):
        match_joints(model, others, others=others)


def test_a_recording_of_another_arm_of_the_description_is_refused() -> None:
    both = Model.from_urdf(two_arms(), locked={f"left_joint_{i}": 0.1 for i in range(1, 8)})
    q, zero = [0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2], [0.0] * 7
    for prefix in ("left_", "right_"):
        names = tuple(f"{prefix}joint_{i}" for i in range(1, 8))
        messages = [
            JointMessage(START + k / RATE, START + k / RATE, names, q, zero, zero)
            for k in range(400)
        ]
        if prefix == "left_":
            with pytest.raises(RecordingError, match=r"has no joint joint_1, .*; its joints are"):
                replay(recorded(messages), both, DetectorParameters())
            with pytest.raises(RecordingError, match="name those of the arm in joints"):
                read_motions(recorded(messages), both)
        else:
            (note,) = read_motions(recorded(messages), both).notes
            assert "right_joint_1 in the recording is taken for joint_1" in note


def test_the_command_refuses_a_kind_of_effort_that_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It exits as for any wrong input, in the words of the node; the user may overrule it."""
    arm = Model.from_urdf(arm7_urdf())
    q, v = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2]), np.zeros(arm.nv)
    noise = 0.01 * np.random.default_rng(2).normal(size=(500, arm.nv))
    free = [
        JointMessage(0.01 * k, 0.01 * k, arm.joint_names, q, v, effort)
        for k, effort in enumerate(noise, 1)
    ]
    path = write_csv(tmp_path / "free.csv", free)
    command = ["replay", str(path), "--urdf", "arm7"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "free.csv: effort of joint_2 is " in said
    assert "where gravity alone requires -34.6 N·m: this driver subtracts gravity; set" in said
    assert main([*command, "--trust-effort-kind"]) == 0
    assert "this driver subtracts gravity" in capsys.readouterr().out
    config = tmp_path / "kind.yaml"
    for parameters in ("check_effort_kind: false", "effort_kind: torque_without_gravity"):
        config.write_text(f"contact_detector:\n  ros__parameters: {{{parameters}}}\n")
        assert main([*command, "--config", str(config)]) == 0


def test_another_driver_after_a_jump_of_the_clock_is_judged_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first half fits ``effort_kind``; the driver started afterwards subtracts gravity."""
    arm = Model.from_urdf(arm7_urdf())
    q, v = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2]), np.zeros(arm.nv)
    efforts = 0.01 * np.random.default_rng(2).normal(size=(1000, arm.nv))
    efforts[:500] += gravity_torque(arm, q)
    rows = [
        JointMessage(t - (50.0 if k >= 500 else 0.0), t, arm.joint_names, q, v, efforts[k])
        for k, t in enumerate(100.0 + 0.01 * np.arange(1000))
    ]
    path = write_csv(tmp_path / "restarted.csv", rows)
    assert main(["replay", str(path), "--urdf", "arm7"]) == 0
    said = " ".join("".join(capsys.readouterr()).split())
    assert "since a pause or jump of the clock, effort of joint_2 is" in said
    assert "this driver subtracts gravity" in said


def test_command_with_several_recordings(
    tmp_path: Path, urdf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = [
        str(write_csv(tmp_path / f"{name}.csv", swing(push)))
        for name, push in (("pushed", [(1.5, 2.0, 8.0)]), ("free", []))
    ]
    (tmp_path / "labels.csv").write_text(LABELS + "pushed, 1.5, 2.0, lower, 14\n")
    (tmp_path / "detector.yaml").write_text(CONFIG)
    report = tmp_path / "report"
    arguments = ["replay", *logs, "--urdf", urdf, "--config", str(tmp_path / "detector.yaml")]
    arguments += ["--report", str(report)]
    labelled = [*arguments, "--labels", str(tmp_path / "labels.csv"), "--curve"]
    assert main(labelled) == 0
    content = json.loads((report / "report.json").read_text(encoding="utf-8"))
    assert list(content) == ["recordings", "summary"]
    pushed, free = content["recordings"]
    assert len(pushed["truth"]["contacts"]) == pushed["truth"]["summary"]["link_named"] == 1
    assert free["truth"]["contacts"] == []
    assert content["summary"]["recordings"] == 2
    truth = content["summary"]["truth"]
    assert (truth["contacts"], truth["misses"], truth["links"]) == (1, 0, 1)
    assert [point["factor"] for point in truth["curve"]] == list(FACTORS)
    pictures = {path.name for path in report.glob("*.png")}
    assert pictures == {"curve.png", "residual_1_pushed.png", "residual_2_free.png"}
    out = capsys.readouterr().out
    assert "link right in 100%" in out
    assert "scores with scaled thresholds" in out
    assert main([*arguments, "--curve"]) == 2
    assert "--labels" in capsys.readouterr().err


@pytest.fixture
def urdf(tmp_path: Path) -> str:
    (tmp_path / "two.urdf").write_text(URDF)
    return str(tmp_path / "two.urdf")


CONFIG = """
/**:
  ros__parameters:
    use_sim_time: false
contact_detector:
  ros__parameters:
    joints: [arm_elbow, arm_shoulder]
    contact_threshold: [2.0, 3.0]
    collision_threshold: [20.0]
"""


def labelled(folder: Path, name: str) -> Path:
    path = folder / "labels.csv"
    path.write_text(f"recording, begin, end\n{name}, 0.4, 0.6\n")
    return path


def calibrate(folder: Path, *more: str) -> int:
    """Calibrate the arm of two joints from its contact-free motion."""
    (folder / "two.urdf").write_text(sound.URDF)
    (folder / "log.csv").write_text(sound.csv_text(sound.swing(22.0, 100.0)))
    files = ["--urdf", str(folder / "two.urdf"), "--out", str(folder / "arm.yaml")]
    return main(["calibrate", str(folder / "log.csv"), *files, *more])


def test_a_label_whose_name_fits_two_recordings_is_refused(tmp_path: Path) -> None:
    name = "a.csv"
    labels = labelled(tmp_path, name)
    with pytest.raises(RecordingError, match=r"line 2: .* \(x/a.csv, y/a.csv\); name one by its"):
        read_labels(labels, [Path("x/a.csv"), Path("y/a.csv")])


def test_a_path_is_not_ambiguous(tmp_path: Path) -> None:
    first, second = read_labels(labelled(tmp_path, "a.csv"), [Path("y/a.csv"), Path("a.csv")])
    assert not first
    assert second
    # Another recording's name does not matter.
    first, *_ = read_labels(labelled(tmp_path, "b"), [Path("b"), Path("x/a.csv"), Path("y/a.csv")])
    assert first


def test_a_trusted_effort_kind_is_trusted_by_the_nodes_too(tmp_path: Path) -> None:
    sections = []
    for more in ([], ["--trust-effort-kind"]):
        assert calibrate(tmp_path, "--gain", "50", *more) == 0
        content = yaml.safe_load((tmp_path / "arm.yaml").read_text())
        sections.append(content["contact_detector"]["ros__parameters"])
    assert "check_effort_kind" not in sections[0]
    assert sections[1]["check_effort_kind"] is False
