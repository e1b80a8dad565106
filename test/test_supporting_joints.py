"""Held joints that carry the arm: which they are, and what their motion leads to."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from control_loop import HOME, NO_RATE, started
from robots import urdf_path

from rbd_control import Robot
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError
from rbd_control.robot.held_joints import HeldJoints, SupportingJoint
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.simulation import arm7_urdf

ARM = tuple(f"panda_joint{i}" for i in range(1, 8))
FINGER = "panda_finger_joint1"
TILT = SupportingJoint("tilt", 0.1, is_continuous=False)


@pytest.fixture(scope="module")
def panda() -> str:
    return urdf_path("panda").read_text(encoding="utf-8")


def on_a_base(panda: str, kind: str, axis: str) -> RobotParameters:
    """Return the Panda on a base that moves, of which the parameters name only the arm."""
    limits = '<limit lower="-1" upper="1" effort="500" velocity="1"/>'
    joint = f"""<link name="pelvis"/><joint name="tilt" type="{kind}"><parent link="pelvis"/>
      <child link="panda_link0"/><axis xyz="{axis}"/>{limits}</joint></robot>"""
    return RobotParameters(robot_description=panda.replace("</robot>", joint), joints=ARM)


@pytest.mark.parametrize(
    ("kind", "axis", "counts"),
    [
        ("revolute", "0 1 0", True),
        ("continuous", "0 1 0", True),
        ("revolute", "0.02 0 1", True),
        ("revolute", "0.005 0 1", False),
        ("revolute", "0 0 1", False),
        ("prismatic", "0 0 1", False),
        ("prismatic", "1 0 0", False),
    ],
)
def test_a_base_counts_if_its_motion_changes_the_weight_of_the_arm(
    panda: str, kind: str, axis: str, counts: bool
) -> None:
    robot = Robot.of(on_a_base(panda, kind, axis), reported={"tilt": 0.1, FINGER: 0.03})
    expected = (SupportingJoint("tilt", 0.1, kind == "continuous"),)
    assert robot.supporting == (expected if counts else ())


def test_a_held_joint_within_the_arm_counts_and_fingers_do_not(panda: str) -> None:
    def supporting(joints: tuple[str, ...]) -> list[str]:
        robot = Robot.of(RobotParameters(robot_description=panda, joints=joints))
        return [joint.name for joint in robot.supporting]

    assert supporting(ARM) == []
    assert supporting(ARM[:4] + ARM[5:]) == [ARM[4]]
    assert supporting(ARM[1:]) == []  # the first joint turns about the vertical
    assert supporting(ARM[2:]) == [ARM[1]]
    assert supporting((*ARM[:6], FINGER)) == [ARM[6]]
    # A model without other joints than its own holds nothing.
    assert Robot.of(RobotParameters(robot_description=arm7_urdf())).supporting == ()


def test_two_reports_elsewhere_are_a_motion_and_one_in_place_ends_it() -> None:
    held = HeldJoints([TILT])
    names = ("joint_1", "tilt")
    for position in (0.1, 0.1099, 0.0901, 0.3, 0.1, 0.3):  # one wrong number is no motion
        held.look(names, (5.0, position))
        assert not held.moved
    held.look(names, (5.0, 0.4))
    sentence = held.moved
    assert sentence.startswith("held joint tilt is at 0.4 instead of 0.1 and carries the arm")
    held.look(names, (5.0, 0.5))
    assert held.moved == sentence  # one fault has one text
    held.look(("joint_1",), (5.0,))
    assert held.moved == sentence
    held.look(names, (5.0, 0.105))
    assert not held.moved


@pytest.mark.parametrize("position", [math.nan, math.inf, 1e30])
def test_an_impossible_position_changes_nothing(position: float) -> None:
    held = HeldJoints([TILT])
    for k in range(3):
        held.look(("tilt",), np.array([position]))
        assert bool(held.moved) == (k == 2)
        held.look(("tilt",), (0.2,))
    held.look(("tilt",), np.array([position]))
    held.look(("tilt",), ())
    assert held.moved


def test_joints_come_in_messages_of_their_own_and_count_separately() -> None:
    held = HeldJoints([TILT, SupportingJoint("pan", 0.0, is_continuous=False)])
    for _ in range(2):
        held.look(("tilt",), (0.3,))
        held.look(("pan",), (0.3,))
    assert "tilt" in held.moved
    held.look(("tilt",), (0.1,))
    assert "pan" in held.moved
    held.look(("pan",), (0.0,))
    assert not held.moved


def test_a_whole_turn_of_a_continuous_joint_is_no_motion() -> None:
    for is_continuous in (True, False):
        held = HeldJoints([SupportingJoint("base", math.pi, is_continuous)])
        for _ in range(2):
            held.look(("base",), (-math.pi + 1e-4,))
        assert bool(held.moved) is not is_continuous


# The controller -----------------------------------------------------------------------------------


def test_the_safe_torque_of_a_wrong_model_only_brakes() -> None:
    """[123] Its gravity torque would drive the arm: the command removes energy at each joint."""
    model = Model.from_urdf(arm7_urdf())
    controller = started(model, NO_RATE)
    v = np.array([-1.5, 1.0, 0.5, -0.5, 1.0, -1.0, 1.0])
    controller.update(0.001, HOME, 0.1 * v)
    controller.set_model_error("held joint tilt has moved")
    for k in range(2, 20):
        command = controller.update(0.001 * k, HOME, v + 1e-6 * k)
        assert command.mode == "safe"
        assert command.reason == "held joint tilt has moved"
        assert np.all(command.torque * v <= 0.0)
    assert np.all(command.torque * v < 0.0)
    command = controller.update(0.02, HOME, np.zeros(7))
    assert not command.torque.any()
    for order in (controller.resume, lambda: controller.start(0.02, HOME, np.zeros(7))):
        with pytest.raises(InputError, match="held joint tilt has moved"):
            order()
    controller.set_model_error("")
    command = controller.update(0.021, HOME, np.full(7, 1e-6))
    assert command.mode == "safe"
    # The brake at this speed is below 1e-3 N·m.
    np.testing.assert_allclose(command.torque, gravity_torque(model, HOME), rtol=0, atol=1e-3)
    controller.resume()
    assert controller.update(0.022, HOME, np.full(7, 2e-6)).mode == "hold"


def test_a_compensated_arm_is_braked_while_the_model_is_wrong() -> None:
    model = Model.from_urdf(arm7_urdf())
    controller = started(model, replace(NO_RATE, gravity_compensated=True))
    controller.set_model_error("held joint tilt has moved")
    v = np.array([-1.5, 1.0, 0.5, -0.5, 1.0, -1.0, 1.0])
    for k in range(1, 5):
        command = controller.update(0.001 * k, HOME, v + 1e-6 * k)
    assert np.all(command.torque * v < 0.0)
