"""``rbd-control calibrate``: output, written files, and messages on bad efforts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from damage import sound

from rbd_control.cli.main import main
from rbd_control.estimation import DetectorParameters
from rbd_control.node_parameters import law_parameters
from rbd_control.parameters import read_parameter_file
from rbd_control.robot.robot import Robot

MOTION = sound.swing(22.0, 100.0)


def run(folder: Path, tau: np.ndarray, *more: str) -> int:
    """Calibrate from the motion with other efforts."""
    (folder / "two.urdf").write_text(sound.URDF)
    (folder / "log.csv").write_text(sound.csv_text(replace(MOTION, tau=tau)))
    files = ["--urdf", str(folder / "two.urdf"), "--out", str(folder / "detector.yaml")]
    return main(["calibrate", str(folder / "log.csv"), *files, *more])


def test_what_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report"
    assert run(tmp_path, MOTION.tau, "--report", str(report)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    # Units in square brackets are no markup.
    for heading in ("mass [kg]", "centre of mass [mm]", "Coulomb [N·m]", "gain [1/s]"):
        assert heading in out
    assert "The thresholds imply 1 false alarm per hour" in out
    path = tmp_path / "detector.yaml"
    parameters = law_parameters(DetectorParameters, read_parameter_file(path, "contact_detector"))
    np.testing.assert_allclose(parameters.friction_coulomb, [0.5, 0.3], atol=0.05)
    assert path.read_text().startswith("# Made by rbd-control calibrate from 22 s of motion")
    assert (report / "calibration.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_doubtful_stands_in_the_file_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, MOTION.tau * [1.0, -1.0]) in (0, 2)
    captured = capsys.readouterr()
    if captured.err:
        assert "elbow" in captured.err
        return
    assert (
        "# Warning: the effort of elbow has the wrong sign"
        in (tmp_path / "detector.yaml").read_text()
    )


EFFORTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "dead": lambda tau: 0.0 * tau,
    "sign flipped": lambda tau: -tau,
    "millinewtons": lambda tau: 1e3 * tau,
    "absurd": lambda tau: 1e6 * tau,
    "one absurd sample": lambda tau: np.where(np.arange(tau.size) == 700, 1e9, tau),
}


@pytest.mark.parametrize("joint", [0, 1])
@pytest.mark.parametrize("effort", EFFORTS)
def test_a_joint_with_bad_effort_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], effort: str, joint: int
) -> None:
    """Refused, or named in a warning; never a calibration that hides it."""
    tau = MOTION.tau.copy()
    tau[:, joint] = EFFORTS[effort](tau[:, joint])
    code = run(tmp_path, tau)
    out, err = capsys.readouterr()
    name = sound.JOINTS[joint]
    if code == 2:
        assert err.startswith(f"rbd-control: {tmp_path / 'log.csv'}: ")
        assert err.count("\n") == 1
        assert err.count("log.csv") == 1
        assert name in err
        assert not (tmp_path / "detector.yaml").exists()
        return
    assert code == 0
    said = out.partition("warning: ")[2].replace("\n", " ")
    assert name in said


def test_efforts_of_zero_on_all_joints_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, 0.0 * MOTION.tau) == 2
    assert "effort" in capsys.readouterr().err


def test_joint_names_that_yaml_would_read_as_something_else(tmp_path: Path) -> None:
    (tmp_path / "two.urdf").write_text(sound.URDF.replace("elbow", "no").replace("shoulder", "1e5"))
    text = sound.csv_text(MOTION).replace("elbow", "no").replace("shoulder", "1e5")
    (tmp_path / "log.csv").write_text(text)
    files = ["--urdf", str(tmp_path / "two.urdf"), "--out", str(tmp_path / "detector.yaml")]
    assert main(["calibrate", str(tmp_path / "log.csv"), *files]) == 0
    content = yaml.safe_load((tmp_path / "detector.yaml").read_text())
    assert content["/**"]["ros__parameters"]["joints"] == ["1e5", "no"]
    replayed = ["replay", str(tmp_path / "log.csv"), *files[:2], "--config", files[3]]
    assert main(replayed) == 0


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--gain", "1e9"], "observer_gain[0] is 1000000000.0"),
        (["--effort-gain", "1,2,3"], "effort_gain has 3 values but the model has 2 joints"),
        (["--lock", "wrist=1"], "locked: no movable joint 'wrist'"),
        (["--recorded-joints", "a"], "1 names are given for the model's 2 joints"),
        (["--topic", "/other"], ""),
    ],
)
def test_arguments_that_do_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], says: str
) -> None:
    code = run(tmp_path, MOTION.tau, *more)
    assert code == (2 if says else 0)  # a CSV recording has no topics
    assert says in capsys.readouterr().err


def test_an_arm_that_is_described_by_text_keeps_its_description(tmp_path: Path) -> None:
    arm, log, out = tmp_path / "two.yaml", tmp_path / "log.csv", tmp_path / "arm.yaml"
    arm.write_text(yaml.safe_dump({"/**": {"ros__parameters": {"robot_description": sound.URDF}}}))
    log.write_text(sound.csv_text(MOTION))
    assert main(["calibrate", str(log), "--urdf", str(arm), "--out", str(out)]) == 0
    assert Robot.load(out).urdf == sound.URDF


GAINS = {"shoulder": 2.0, "elbow": -5.0}


@pytest.mark.parametrize("joints", [("shoulder", "elbow"), ("elbow", "shoulder")])
def test_gains_are_given_in_the_order_of_the_joints(
    tmp_path: Path, joints: tuple[str, str]
) -> None:
    """The result is the same for either order of ``joints``."""
    (tmp_path / "two.urdf").write_text(sound.URDF)
    arm = tmp_path / "two.yaml"
    arm.write_text(f"/**: {{ros__parameters: {{urdf: two.urdf, joints: [{', '.join(joints)}]}}}}")
    log, out = tmp_path / "log.csv", tmp_path / "arm.yaml"
    tau = MOTION.tau / [GAINS["shoulder"], GAINS["elbow"]]
    log.write_text(sound.csv_text(replace(MOTION, tau=tau)))
    gains = ",".join(str(GAINS[joint]) for joint in joints)
    files = [str(log), "--urdf", str(arm), "--out", str(out)]
    assert main(["calibrate", *files, f"--effort-gain={gains}"]) == 0
    robot = Robot.load(out)
    assert robot.joints == joints
    assert robot.parameters.effort_gain == (2.0, -5.0)
    np.testing.assert_allclose(robot.parameters.friction_coulomb, [0.5, 0.3], atol=0.05)
