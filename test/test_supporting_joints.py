"""Held joints that carry the arm: which they are, and what their motion leads to."""

from __future__ import annotations

import math

import numpy as np
import pytest
from control_loop import HOME, NO_RATE, started
from robots import urdf_path

from rbd_control import Robot
from rbd_control.dynamics import Model, gravity_torque, mass_matrix
from rbd_control.errors import InputError
from rbd_control.robot.joint_choice import (
    LIMIT,
    RETURN_REPORTS,
    TOLERANCE,
    WEIGHT,
    HeldJoints,
    SupportingJoint,
)
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


class Reports:
    """Reports of held joints to a :class:`HeldJoints`, and how often its result changed.

    Attributes:
        held: the judge of the reports.
        now: time of the next report [s].
        changes: number of changes between in place and moved.
        count: number of reports.
    """

    def __init__(self, *joints: SupportingJoint, rate: float = 100.0) -> None:
        self.held = HeldJoints(joints or [TILT])
        self.now, self.period = 50.0, 1.0 / rate
        self.changes = self.count = 0

    def look(self, *positions: float, name: str = "tilt") -> str:
        """Report positions of a joint one after the other; return the last result."""
        for position in positions:
            before = self.held.moved
            self.held.look((name,), np.array([position]), self.now)
            self.now += self.period
            self.count += 1
            self.changes += bool(before) != bool(self.held.moved)
        return self.held.moved


def test_two_reports_elsewhere_are_a_motion() -> None:
    held = HeldJoints([TILT])
    names = ("joint_1", "tilt")
    for position in (0.1, 0.1099, 0.0901, 0.3, 0.1, 0.3, *[0.1] * 19, 0.3):
        held.look(names, (5.0, position), 1.0)  # one wrong number is no motion
        assert not held.moved
    held.look(names, (5.0, 0.4), 1.0)
    sentence = held.moved
    assert sentence.startswith("held joint tilt is at 0.4 instead of 0.1 and carries the arm")
    held.look(names, (5.0, 0.5), 1.0)
    assert held.moved == sentence  # one fault has one text
    held.look(("joint_1",), (5.0,), 9.0)
    assert held.moved == sentence


@pytest.mark.parametrize(("rate", "expected"), [(1000.0, 501), (100.0, 51), (10.0, RETURN_REPORTS)])
def test_a_joint_is_back_after_a_while_near_its_place(rate: float, expected: int) -> None:
    reports = Reports(rate=rate)
    assert reports.look(0.3, 0.3)
    # Within the tolerance, but not near enough; and not without exception.
    assert reports.look(*[0.108] * 1000)
    assert reports.look(*[0.1] * (expected - 1), 0.106)
    before = reports.count
    while reports.look(0.104):
        assert reports.count < before + 1000
    assert reports.count - before == pytest.approx(expected, abs=1)  # rounding of the time
    assert not reports.look(0.3)
    assert reports.look(0.3)


@pytest.mark.parametrize("good", range(WEIGHT + 3))
def test_publishers_that_contradict_each_other_are_a_motion(good: int) -> None:
    """Every second report to every tenth: found in time, and for as long as it lasts."""
    reports = Reports()
    share = [0.6, *[0.1] * good]
    needed = 1 + -(-(LIMIT - WEIGHT) // (WEIGHT - good)) if good < WEIGHT else 0
    for k in range(2000):
        moved = reports.look(*share)
        assert bool(moved) == (k + 1 >= needed > 0), k
    assert reports.changes == (needed > 0)
    if good in (1, WEIGHT - 1):
        assert (needed - 1) * (good + 1) + 1 == {1: 5, WEIGHT - 1: 101}[good]


def test_the_noise_of_a_joint_at_the_tolerance_is_one_motion() -> None:
    reports, random = Reports(rate=1000.0), np.random.default_rng(1)
    for k in range(20_000):  # 20 s; away by 0.5 mrad/s
        reports.look(0.1 + 0.9 * TOLERANCE + 5e-7 * k + random.normal(scale=2e-4))
    assert reports.held.moved
    assert reports.changes == 1
    for k in range(40_000):  # and back
        reports.look(0.1 + 1.9 * TOLERANCE - 5e-7 * k + random.normal(scale=2e-4))
    assert not reports.held.moved
    assert reports.changes == 2


def test_a_whole_turn_of_a_continuous_joint_is_no_motion() -> None:
    for is_continuous in (True, False):
        reports = Reports(SupportingJoint("base", math.pi, is_continuous))
        assert bool(reports.look(*[-math.pi + 1e-4] * 2, name="base")) is not is_continuous


# The controller -----------------------------------------------------------------------------------


def test_the_safe_torque_of_a_wrong_model_only_brakes() -> None:
    """Its gravity torque would drive the arm: the command is the brake alone."""
    model = Model.from_urdf(arm7_urdf())
    controller = started(model, NO_RATE)
    v = np.array([-1.5, 1.0, 0.5, -0.5, 1.0, -1.0, 1.0])
    controller.update(0.001, HOME, 0.1 * v)
    controller.set_model_error("held joint tilt has moved")
    for k in range(2, 20):
        command = controller.update(0.001 * k, HOME, v + 1e-6 * k)
        assert command.mode == "safe"
        assert command.reason == "held joint tilt has moved"
        assert command.torque @ v <= 0.0
    brake = -NO_RATE.damping_rate * mass_matrix(model, HOME) @ v
    # At first the period counts as long, so that the rate is lower.
    share = command.torque @ brake / (brake @ brake)
    assert 0.1 < share <= 1.0
    np.testing.assert_allclose(command.torque, share * brake, rtol=1e-3)
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
