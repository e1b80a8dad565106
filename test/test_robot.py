"""The arm that all nodes and commands share: its files, its payload, its efforts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from urdf_texts import BODY, arm, joint, link

import rbd_control
from rbd_control.dynamics import Model, gravity_torque, inverse_dynamics, mass_matrix
from rbd_control.errors import RbdControlError
from rbd_control.robot.effort import EffortParameters
from rbd_control.robot.inertial_corrections import (
    InertialCorrections,
)
from rbd_control.robot.payload import PayloadParameters
from rbd_control.robot.robot import Robot
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.simulation import arm7_urdf

MODEL = Model.from_urdf(arm7_urdf())
POSTURE = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2])
LOADED = PayloadParameters(
    payload_mass=1.5,
    payload_link="link_6",
    payload_com=(0.0, 0.02, 0.1),
    payload_inertia=(0.02, 0.03, 0.04, 0.001, 0.0, 0.0),
)


def test_the_payload_of_the_parameters_is_that_of_the_model() -> None:
    inertia = [[0.02, 0.001, 0.0], [0.001, 0.03, 0.0], [0.0, 0.0, 0.04]]
    expected = MODEL.with_payload("link_6", 1.5, (0.0, 0.02, 0.1), inertia)
    np.testing.assert_array_equal(
        mass_matrix(LOADED.loaded(MODEL), POSTURE), mass_matrix(expected, POSTURE)
    )
    assert PayloadParameters().loaded(MODEL) is MODEL


ARM_FILE = """
/**:
  ros__parameters:
    urdf: arm7
    joints: [joint_7, joint_6, joint_5, joint_4, joint_3, joint_2, joint_1]
    mass_correction: [0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    rotor_inertia: [0.01]
    payload_mass: 1.5
    gravity: [9.81, 0.0, 0.0]
    friction_model: coulomb_viscous
    friction_coulomb: [7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
    friction_velocity_scale: [0.01]
passivity_controller:
  ros__parameters:
    friction_velocity_scale: [0.1]
"""


def test_an_arm_file_is_the_whole_arm(tmp_path: Path) -> None:
    """Order of the joints, gravity as mounted, corrections, payload and friction."""
    file = tmp_path / "arm.yaml"
    file.write_text(ARM_FILE, encoding="utf-8")
    robot = rbd_control.Robot.load(file)
    described = Model.from_urdf(arm7_urdf(), gravity=(9.81, 0.0, 0.0))
    corrections = InertialCorrections(
        mass_correction=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7), rotor_inertia=(0.01,)
    )
    expected = PayloadParameters(payload_mass=1.5).loaded(corrections.corrected(described))
    np.testing.assert_array_equal(mass_matrix(robot.model, POSTURE), mass_matrix(expected, POSTURE))
    np.testing.assert_array_equal(
        gravity_torque(robot.model, POSTURE), gravity_torque(expected, POSTURE)
    )
    np.testing.assert_array_equal(robot.parameters.friction_coulomb, np.arange(1.0, 8.0))
    assert robot.joints == tuple(reversed(described.joint_names))
    assert robot.order.tolist() == [6, 5, 4, 3, 2, 1, 0]
    assert robot.parameters.friction_velocity_scale == (0.01,)
    of_the_controller = rbd_control.Robot.load(file, node="passivity_controller")
    assert of_the_controller.parameters.friction_velocity_scale == (0.1,)


@pytest.mark.parametrize(
    ("text", "mass"),
    [
        ("5e-1", 0.5),
        ("+.5E0", 0.5),
        ("5.e-1", 0.5),
        ("2", 2.0),
    ],
)
def test_numbers_of_a_parameter_file_are_those_of_ros(
    tmp_path: Path, text: str, mass: float
) -> None:
    file = tmp_path / "arm.yaml"
    content = f"/**:\n  ros__parameters: {{urdf: arm7, payload_mass: {text}}}\n"
    file.write_text(content, encoding="utf-8")
    assert Robot.load(file).parameters.payload_mass == mass


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{joints: [joint_1]}", "arm.yaml: names no arm: give urdf or robot_description"),
        ("{urdf: nowhere.urdf}", "nowhere.urdf: there is no such file"),
        ("{urdf: arm7, joints: [hand]}", "no movable joint 'hand'"),
        ("{urdf: arm7, locked_joints: [joint_1]}", "locked_positions has 0 values"),
        ("{urdf: arm7, rotor_inertia: [1.0, 2.0]}", "rotor_inertia has 2 values .* 7 joints"),
        # Also if no friction model and no payload uses the value.
        ("{urdf: arm7, friction_coulomb: [1.0, 2.0]}", "friction_coulomb has 2 values .* 7 joints"),
    ],
)
def test_impossible_arm_files_are_refused(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "arm.yaml"
    file.write_text(f"/**:\n  ros__parameters: {content}\n", encoding="utf-8")
    with pytest.raises(RbdControlError, match=says):
        Robot.load(file)


@pytest.mark.parametrize(
    ("lower", "upper", "position"),
    [("0.1", "inf", 0.1), ("-inf", "-0.2", -0.2), ("0.1", "0.5", 0.3), ("-inf", "inf", 0.0)],
)
def test_a_joint_whose_position_is_unknown_is_held_within_its_limits(
    lower: str, upper: str, position: float
) -> None:
    """Also if only one limit is finite: the middle between 0.1 and infinity is no position."""
    limit = f'<limit lower="{lower}" upper="{upper}" velocity="1" effort="40"/>'
    slide = joint("slide", "forearm", "tray", "prismatic", more=limit)
    text = arm(BODY, "", link("tray"), slide)
    robot = Robot.of(RobotParameters(robot_description=text, joints=("shoulder", "elbow")))
    assert robot.held == {"slide": pytest.approx(position)}


HEAVY = arm7_urdf().replace('<mass value="', '<mass value="1')
"""The arm with ten kilograms more in each link, or more."""

COULOMB = {"friction_model": "coulomb_viscous", "friction_coulomb": (1.0,)}
STRIBECK = {"friction_model": "stribeck", "friction_stribeck": (1.0,)}
SIGMOID = {"friction_model": "sigmoid", "friction_f1": (1.0,)}
PAYLOAD = {"payload_mass": 1.0}
CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "robot_description": (HEAVY, {}),
    "joints": (("joint_2", "joint_1"), {}),
    "locked_joints": (("joint_7",), {"locked_positions": (0.0,)}),
    "locked_positions": ((0.5,), {"locked_joints": ("joint_5",)}),
    "gravity": ((0.0, 9.81, 0.0), {}),
    "friction_model": ("coulomb_viscous", {"friction_viscous": (1.0,)}),
    "friction_coulomb": ((1.0,), {"friction_model": "coulomb_viscous"}),
    "friction_viscous": ((1.0,), {"friction_model": "coulomb_viscous"}),
    "friction_offset": ((1.0,), {"friction_model": "coulomb_viscous"}),
    "friction_velocity_scale": ((0.5,), COULOMB),
    "friction_stribeck": ((1.0,), {"friction_model": "stribeck"}),
    "friction_stribeck_velocity": ((0.5,), STRIBECK),
    "friction_f1": ((1.0,), {"friction_model": "sigmoid"}),
    "friction_f2": ((3.0,), SIGMOID),
    "friction_f3": ((0.5,), SIGMOID),
    "mass_correction": ((0.1,), {}),
    "com_correction_x": ((0.1,), {}),
    "com_correction_y": ((0.1,), {}),
    "com_correction_z": ((0.1,), {}),
    "rotor_inertia": ((0.1,), {}),
    "payload_mass": (1.0, {}),
    "payload_link": ("link_3", PAYLOAD),
    "payload_com": ((0.1, 0.0, 0.0), PAYLOAD),
    "payload_inertia": ((0.1, 0.1, 0.1, 0.0, 0.0, 0.0), PAYLOAD),
    "effort_kind": ("torque_without_gravity", {}),
    "effort_gain": ((2.0,), {}),
    "effort_gain_error": ((0.1,), {}),
    "velocity_filter": (0.02, {}),
}
"""For each parameter another value, with the other parameters that make it effective."""


def _outcome(parameters: RobotParameters) -> list[float]:
    """Return the quantities that nodes use: torques of model and friction, and effort torque."""
    robot = Robot.of(parameters)
    n = robot.model.nv
    q, v = np.linspace(0.2, -0.7, n), np.linspace(0.3, 0.1, n)
    tau = inverse_dynamics(robot.model, q, v, v)
    parts = (
        tau,
        robot.friction.torque(v),
        robot.parameters.torque(robot.model, q, tau),
        robot.parameters.for_joints("effort_gain_error", n),
        (robot.parameters.velocity_filter,),
        robot.order,
    )
    return [float(x) for part in parts for x in part]


@pytest.mark.parametrize("name", RobotParameters.names())
def test_no_parameter_of_the_arm_is_ignored(name: str) -> None:
    if name == "urdf":  # read in all others
        return
    value, others = CHANGES[name]
    base: dict[str, Any] = {"urdf": "arm7"} | others
    assert _outcome(RobotParameters(**base | {name: value})) != _outcome(_without(base, name))


def _without(base: dict[str, Any], name: str) -> RobotParameters:
    """Return the parameters without the one in question; without positions no joint is locked."""
    if name == "locked_positions":
        return RobotParameters(**base | {name: (0.0,)})
    if name == "locked_joints":
        return RobotParameters(urdf="arm7")
    return RobotParameters(**base)


EFFORTS = [
    EffortParameters(effort_kind="current", effort_gain=(2.0, -3.0, 1.0, 1.0, 1.0, 1.0, 4.0)),
    EffortParameters(effort_kind="torque_without_gravity"),
    EffortParameters(),
]


@pytest.mark.parametrize("effort", EFFORTS, ids=lambda effort: effort.effort_kind)
def test_efforts_and_back(effort: EffortParameters) -> None:
    torque = np.arange(7.0)
    published = effort.effort(MODEL, POSTURE, torque)
    np.testing.assert_allclose(effort.torque(MODEL, POSTURE, published), torque, atol=1e-12)
