"""The arm file of ``rbd-control calibrate``: what is written is what is loaded."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbd_control.cli.arm_file import arm_file, write_arm_file
from rbd_control.dynamics import gravity_torque
from rbd_control.estimation import DetectorParameters
from rbd_control.identification import Calibration
from rbd_control.identification.calibration import FrictionChange
from rbd_control.identification.threshold_calibration import START, CalibratedParameters
from rbd_control.playback.configuration import configured_robot
from rbd_control.robot.robot import Robot
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.simulation import arm7_urdf

JOINTS = tuple(f"joint_{i}" for i in (3, 1, 2, 7, 4, 6, 5))
"""The joints of the arm in an order that differs from the inverse of its permutation."""

IDENTIFIED: dict[str, Any] = {
    "effort_kind": "current",
    "friction_model": "stribeck",
    "velocity_delay": 0.004,
    "settling_time": 0.2,
    "onset_debounce": 0.01,
}
ONE_FOR_ALL = {"torque_noise", "momentum_noise", "torque_drift"}
"""Parameters of an observer that ``calibrate`` does not tune."""


def identified() -> CalibratedParameters:
    """Return parameters with another value for each joint, in the order of the model."""
    values: dict[str, Any] = {
        item.name: tuple((0.05 + 0.001 * k) * np.arange(1.0, 8.0))
        for k, item in enumerate(fields(CalibratedParameters))
        if item.metadata["per_joint"] and item.name not in ONE_FOR_ALL
    }
    matrix = np.diag(np.arange(1.0, 8.0)) + 0.01 * np.add.outer(np.arange(7), np.arange(7))
    small = 1e-6 * matrix  # of an arm whose torques are measured well
    return replace(START, **IDENTIFIED, **values, residual_covariance=tuple(small.ravel()))


def written(parameters: CalibratedParameters, robot: Robot, file: Path) -> str:
    """Write the arm file of a calibration and return its text."""
    text = arm_file(Calibration(parameters, (), 24.0, 1.0, (), ()), [], robot, {})
    file.write_text(text, encoding="utf-8")
    return text


def test_the_circumstances_of_the_calibration_are_in_the_file(tmp_path: Path) -> None:
    parameters = replace(identified(), calibrated_rate=499.98, effort_kind="current")
    change = FrictionChange("elbow", -0.14, 0.012)
    calibration = Calibration(
        parameters, (), 24.0, 1.0, (), (), moving=21.3, friction_change=change
    )
    file = tmp_path / "arm.yaml"
    file.write_text(arm_file(calibration, [], Robot.of(RobotParameters(urdf="arm7")), {}))
    said = " ".join(line.lstrip("# ") for line in file.read_text().splitlines() if line[:1] == "#")
    assert "Joint states came at 500 Hz with efforts of the kind current" in said
    assert "the joints moved for 21 s" in said
    assert "friction of elbow fell by 14 ± 1 % from the first to the last third" in said
    _, detector = configured_robot("", file, {})
    assert detector.calibrated_rate == 499.98


@pytest.mark.parametrize("joints", [(), JOINTS])
def test_every_joint_gets_its_own_values(tmp_path: Path, joints: tuple[str, ...]) -> None:
    """The order of ``joints`` changes the lists of the file, not the values of a joint."""
    found, file = identified(), tmp_path / "arm.yaml"
    text = written(found, Robot.of(RobotParameters(urdf="arm7", joints=joints)), file)
    robot, detector = configured_robot("", file, {})
    assert robot.joints == (joints or robot.model.joint_names)
    compared = 0
    for item in fields(CalibratedParameters):
        if f"{item.name}: [" not in text:
            continue
        owner = detector if item.name in DetectorParameters.names() else robot.parameters
        expected = getattr(found, item.name)
        np.testing.assert_allclose(getattr(owner, item.name), expected, 1e-4, err_msg=item.name)
        compared += len(expected) >= 7
    # Corrections 5, friction 6, gains of drives and observer 2, thresholds, covariance.
    assert compared >= 17


def test_corrections_of_a_loaded_arm_are_written_without_its_payload(tmp_path: Path) -> None:
    """The file gives the arm that was identified: its payload counts once."""
    arm = RobotParameters(urdf="arm7", payload_mass=1.5, payload_com=(0.0, 0.02, 0.1))
    loaded, file = Robot.of(arm), tmp_path / "arm.yaml"
    found = identified()
    written(found, loaded, file)
    q = np.linspace(0.2, 1.4, 7)
    expected = gravity_torque(found.corrected(loaded.model), q)
    robot, _ = configured_robot("", file, {})
    # Five digits of each number are written.
    np.testing.assert_allclose(gravity_torque(robot.model, q), expected, rtol=1e-3, atol=1e-3)


CALIBRATION = Calibration(START, (), 24.0, 1.0, (), ())

TEXTS = {
    "text": arm7_urdf(),
    "text with characters that YAML escapes": arm7_urdf().replace(
        "<robot ", '<!-- \u00e9 \u2028 \U0001f600 "quoted" \\ #: \t -->\r\n<robot ', 1
    ),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_description_that_is_text_is_written_as_text(tmp_path: Path, text: str) -> None:
    given = Robot.of(RobotParameters(robot_description=text, joints=JOINTS))
    out = tmp_path / "arm.yaml"
    write_arm_file(out, CALIBRATION, [], given, {})
    robot = Robot.load(out)
    assert robot.parameters.robot_description == text
    assert robot.parameters.urdf == ""
    assert robot.joints == given.joints
