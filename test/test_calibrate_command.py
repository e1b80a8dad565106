"""``rbd-control calibrate``: output, written files, and messages on bad efforts."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from damage import sound

from rbd_control.cli.main import main
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError
from rbd_control.estimation import DetectorParameters
from rbd_control.fleet.jobs import CalibrateJob, Source
from rbd_control.node_parameters import law_parameters
from rbd_control.parameters import read_parameter_file
from rbd_control.playback.configuration import EffortOptions
from rbd_control.robot.robot import Robot
from rbd_control.robot.robot_parameters import RobotParameters

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


def test_friction_that_falls_during_the_recording_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fall = 0.3 * (MOTION.t - MOTION.t[0])[:, None] / (MOTION.t[-1] - MOTION.t[0])
    tau = MOTION.tau - fall * np.sign(MOTION.v) * [0.5, 0.3]
    assert run(tmp_path, tau, "--json", str(tmp_path / "found.json")) == 0
    assert "to the last third of" in capsys.readouterr().out
    change = json.loads((tmp_path / "found.json").read_text())["friction_change"]
    assert change["share"] == pytest.approx(-0.2 / 0.95, abs=3.0 * change["error"])
    assert change["joint"] in GAINS
    assert run(tmp_path, MOTION.tau, "--json", str(tmp_path / "found.json")) == 0
    assert "to the last third of" not in capsys.readouterr().out
    assert json.loads((tmp_path / "found.json").read_text())["friction_change"] is None


USERS = {"gravity_compensated": True, "torque_share": [0.5, 0.9], "contact_reaction": "retract"}


def test_calibrate_over_an_arm_file_keeps_the_parameters_of_the_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An arm that compensates gravity itself must not get gravity torque twice."""
    arm = arm_of(tmp_path, "passivity_controller", **USERS)
    content = yaml.safe_load(arm.read_text())
    content["contact_detector"] = {"ros__parameters": {"maximum_gap": 0.02, "observer": "momentum"}}
    arm.write_text(yaml.safe_dump(content))
    (tmp_path / "log.csv").write_text(sound.csv_text(MOTION))
    files = ["--urdf", str(arm), "--out", str(arm)]
    assert main(["calibrate", str(tmp_path / "log.csv"), *files]) == 0
    printed = capsys.readouterr()
    assert "kept from an existing file, without its comments" in printed.out
    assert printed.err == ""
    values = read_parameter_file(arm, "passivity_controller")
    assert {name: values[name] for name in USERS} == USERS
    detector = read_parameter_file(arm, "contact_detector")
    assert detector["maximum_gap"] == 0.02
    assert detector["observer"] == "momentum"
    np.testing.assert_allclose(detector["friction_coulomb"], [0.5, 0.3], atol=0.05)


FOREIGN = {
    "no text": bytes(range(256)),
    "no sections": b"services: {web: {image: nginx}}\n",
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_file_whose_parameters_cannot_be_kept_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    out = tmp_path / "detector.yaml"
    out.write_bytes(content)
    assert run(tmp_path, MOTION.tau) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"rbd-control: {out}: is not overwritten, because its parameters")
    assert err.count("\n") == 1
    assert out.read_bytes() == content


GAINS = {"shoulder": 2.0, "elbow": -5.0}


def geared(folder: Path, torque: np.ndarray = MOTION.tau) -> Path:
    """Write a recording whose effort times :data:`GAINS` is a torque, (k, 2) [N·m]."""
    log = folder / "log.csv"
    tau = torque / [GAINS["shoulder"], GAINS["elbow"]]
    log.write_text(sound.csv_text(replace(MOTION, tau=tau)))
    return log


def arm_of(folder: Path, section: str = "/**", **parameters: Any) -> Path:
    """Write an arm file that names the URDF, and has parameters in a section."""
    (folder / "two.urdf").write_text(sound.URDF)
    content: dict[str, Any] = {"/**": {"ros__parameters": {"urdf": "two.urdf"}}}
    content.setdefault(section, {"ros__parameters": {}})["ros__parameters"].update(parameters)
    file = folder / "two.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


@pytest.mark.parametrize(
    ("kind", "section"), [("torque_without_gravity", "/**"), ("current", "contact_detector")]
)
def test_the_effort_of_the_arm_file_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, section: str
) -> None:
    """Also per joint, in another order of the joints; and in a fleet."""
    model = Model.from_urdf(sound.URDF)
    weight = gravity_torque(model, MOTION.q) if kind == "torque_without_gravity" else 0.0
    log, out = geared(tmp_path, MOTION.tau - weight), tmp_path / "arm.yaml"
    effort = {"effort_kind": kind, "effort_gain": [-5.0, 2.0]}
    arm = arm_of(tmp_path, section, joints=["elbow", "shoulder"], **effort)
    assert main(["calibrate", str(log), "--urdf", str(arm), "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "torque per unit of effort: shoulder 2, elbow -5" in printed.out
    robot = Robot.load(out)
    assert robot.parameters.effort_kind == kind
    assert robot.parameters.effort_gain == (2.0, -5.0)
    np.testing.assert_allclose(robot.parameters.friction_coulomb, [0.5, 0.3], atol=0.05)
    found = CalibrateJob(Source(log, str(arm))).run().result
    assert found is not None
    assert found["effort_kind"] == kind
    assert found["joints"]["elbow"]["effort_gain"] == -5.0


OVERRIDDEN = [
    # kind and gain of the file, options, kind and gain in force
    (("torque", (1.3,)), {}, None),
    (("torque", (1.3,)), {"gain": (2.0,)}, ("torque", (2.0,))),
    (("torque", (1.3,)), {"kind": "current"}, ("current", (1.0,))),
    (("current", (8.0, 9.0)), {"kind": "torque"}, ("torque", (1.0,))),
    (("current", (8.0, 9.0)), {"gain": (9.0, 8.0)}, ("current", (9.0, 8.0))),
    (("current", (8.0, 9.0)), {"has_evidence": True}, ("current", (1.0,))),
]


@pytest.mark.parametrize(("declared", "options", "in_force"), OVERRIDDEN)
def test_options_override_the_effort_of_the_arm_file(
    declared: tuple[str, tuple[float, ...]],
    options: dict[str, Any],
    in_force: tuple[str, tuple[float, ...]] | None,
) -> None:
    """And one line says so, but only if they differ and there is an arm file."""
    kind, gain = declared
    parameters = RobotParameters(
        robot_description=sound.URDF,
        joints=("elbow", "shoulder"),
        effort_kind=kind,
        effort_gain=gain,
    )
    robot = Robot.of(parameters)
    for file in ("", "arm.yaml"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = robot.in_joint_order(EffortOptions(**options).applied(robot, file).parameters)
        assert (result.effort_kind, result.effort_gain) == (in_force or declared)
        said = [str(each.message) for each in caught]
        assert len(said) == (in_force is not None and file != "")
        for line in said:
            assert line.startswith(f"arm.yaml declares effort_kind {kind}, effort_gain {gain[0]:g}")


def test_evidence_for_gains_that_are_known_is_refused() -> None:
    robot = Robot.of(RobotParameters(robot_description=sound.URDF, effort_kind="current"))
    with pytest.raises(InputError, match="give --effort current, and no --effort-gain"):
        EffortOptions(has_evidence=True, gain=(1.0,)).applied(robot, "")
