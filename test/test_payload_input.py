"""The input of the present payload: what is pending, accepted and refused."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from fake_node import FakeNode
from geometry_msgs.msg import InertiaStamped
from rclpy.qos import QoSProfile

from rbd_control.errors import InputError
from rbd_control.identification.findings import Line
from rbd_control.nodes.model_checks import GraspedPayload
from rbd_control.robot.payload import PayloadParameters
from rbd_control.robot.robot import Robot
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.ros.messages import LATCHED
from rbd_control.ros.robot_source import PAYLOAD, PayloadInput

Q = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2])
ARM = Robot.load("arm7")


class Node(FakeNode):
    """Accepts payloads.

    Attributes:
        masses: masses of the payloads that the node has accepted [kg].
        known: publishers of the topic.
    """

    def __init__(self) -> None:
        super().__init__(robot=ARM)
        self.masses: list[float] = []
        self.known: list[SimpleNamespace] = []

    @property
    def parameters(self) -> SimpleNamespace:
        return SimpleNamespace(payload_mass=self.masses[-1] if self.masses else 0.0)

    def receive(self, message: InertiaStamped) -> None:
        self.callbacks[PAYLOAD](message)

    def get_publishers_info_by_topic(self, _topic: str) -> list[Any]:
        return self.known

    def set_parameters_atomically(self, parameters: Any) -> SimpleNamespace:
        self.masses.append(next(p.value for p in parameters if p.name == "payload_mass"))
        return SimpleNamespace(successful=True)


def announcement(mass: float, link: str = "") -> InertiaStamped:
    message = InertiaStamped()
    message.header.frame_id, message.inertia.m = link, mass
    return message


@pytest.mark.parametrize(
    ("mass", "link", "reason"),
    [(1.0, "", ""), (90.0, "", "too heavy"), (1.0, "tool0_of_another_arm", "tool0_of")],
)
def test_a_payload_is_pending_until_model_and_posture_are_known(
    mass: float, link: str, reason: str
) -> None:
    node: Any = Node()
    posture: list[np.ndarray] = []
    PayloadInput(node, lambda: posture[-1] if posture else None)
    node.receive(announcement(mass, link))
    node.tick()
    assert not node.masses
    assert "when the node is configured" in node.status().messages[0]
    node.is_configured = True
    node.tick()
    if not link:  # the link needs no posture
        assert "when joint states arrive" in node.status().messages[0]
    posture.append(Q)
    node.tick()
    assert "not in force yet" not in " ".join(node.status().messages)
    assert node.masses == ([] if reason else [mass])
    messages = node.status().messages
    assert reason in messages[0] if reason else not messages


def test_the_node_decides_on_the_weight() -> None:
    """A controller may use less torque than the motors have."""
    node: Any = Node()
    node.is_configured = True

    def refuse(robot: Robot, former: Robot, q: np.ndarray) -> None:
        assert former.parameters.payload_mass == 0.0
        assert robot.parameters.payload_mass == 1.0
        assert q is Q
        raise InputError("too heavy for its share")

    PayloadInput(node, lambda: Q, refuse)
    node.receive(announcement(1.0))
    assert not node.masses
    assert "too heavy for its share" in node.status().messages[0]


def test_a_publisher_that_cannot_be_received_is_named() -> None:
    """A volatile publisher is the default of rclpy; its payload was never in force, silently."""
    node: Any = Node()
    PayloadInput(node, lambda: Q)
    latched = SimpleNamespace(node_name="gripper", qos_profile=LATCHED)
    node.known = [latched]
    assert not node.status().messages
    node.known = [latched, SimpleNamespace(node_name="hand", qos_profile=QoSProfile(depth=1))]
    (message,) = node.status().messages
    assert message.startswith("/payload of hand cannot be received: ")


# A payload that the node takes by itself ----------------------------------------------------------

PRESENT = PayloadParameters(0.5, "tool", (0.0, 0.0, 0.1), (1e-3, 2e-3, 1e-3, 0.0, 0.0, 0.0))


class Holder(FakeNode):
    """A detector node whose gripper grasps and releases.

    Attributes:
        parameters: parameters of the node.
        posture: present joint positions; None while the joint states are silent.
        grasped: takes payloads.
        input: the input of announced payloads.
        now: stamp of the last sample [s].
    """

    is_configured = True

    def __init__(self) -> None:
        super().__init__()
        self.robot, self.parameters = ARM, RobotParameters()
        self.posture: np.ndarray | None = Q
        self.now = 0.0
        node: Any = self
        self.input = PayloadInput(node, lambda: self.posture)
        self.grasped = GraspedPayload(node, self.input, lambda: self.now)
        self.grasped.configure("finger")

    def set_parameters_atomically(self, parameters: Any) -> SimpleNamespace:
        changes: dict[str, Any] = {
            each.name: tuple(each.value) if isinstance(each.value, list) else each.value
            for each in parameters
        }
        self.parameters = replace(self.parameters, **changes)
        self.robot = self.robot.with_parameters(self.parameters)
        return SimpleNamespace(successful=True)

    def move(self, position: float) -> None:
        """Let the gripper jump to a position and rest there for a second."""
        for _ in range(50):
            self.now += 0.02
            self.grasped.gripper.on_position(position)
            self.tick()

    def name(self, mass: float = 1.0) -> list[bool]:
        """Name a payload twice whose contact begins now; return whether it is to be named again."""
        values: dict[str, Any] = {"mass": mass, "deviation": 0.01, "growth": 1.0}
        values |= {"since": self.now, "com": [0.0, 0.0, 0.2]}
        line = Line("payload", "doubtful", "", values)
        answers = [self.grasped.take(line), self.grasped.take(line)]
        self.tick()
        return answers

    @property
    def masses(self) -> list[float]:
        """Masses of the published payloads [kg]."""
        return [message.inertia.m for message in self.published["~/payload"]]


def test_a_grasped_payload_changes_the_parameters_and_is_published() -> None:
    holder = Holder()
    holder.move(0.04)
    holder.input.announce(PRESENT)
    holder.tick()
    holder.move(0.02)
    assert holder.name() == [True, False]
    taken = holder.input.in_force
    assert taken == PRESENT.with_point_mass(ARM.model, 1.0, (0.0, 0.0, 0.2))
    (line,) = (line for line in holder.lines if line.startswith("took"))
    assert line.startswith("took a payload of 1.00 kg on link_7, because its contact began after")
    assert {(each.key, each.value) for each in holder.status().values} >= {("payload taken", "1")}
    holder.move(0.04)
    assert holder.input.in_force == PRESENT
    assert holder.masses == [0.5, 1.5, 0.5]
    assert not holder.status().messages


@pytest.mark.parametrize(
    "obstacle", ["heavy", "elsewhere", "silent joint states", "announced meanwhile", "off"]
)
def test_what_keeps_an_announced_payload_out_keeps_a_grasped_one_out(obstacle: str) -> None:
    holder = Holder()
    holder.move(0.04)
    if obstacle == "elsewhere":
        holder.input.announce(PayloadParameters(0.5, "link_3"))
    if obstacle == "off":
        holder.grasped.cleanup()
    holder.move(0.02)
    if obstacle == "silent joint states":
        holder.posture = None
    holder.name(90.0 if obstacle == "heavy" else 1.0)
    if obstacle == "silent joint states":
        holder.posture = Q
        holder.tick()
    before = 0.5 if obstacle == "elsewhere" else 0.0
    if obstacle == "announced meanwhile":
        holder.input.announce(PRESENT)
        before = 0.5
    holder.move(0.04)
    assert holder.input.in_force.payload_mass == before
    if obstacle == "heavy":
        assert "too heavy" in holder.status().messages[0]


def test_a_gripper_that_is_not_heard_is_named() -> None:
    holder = Holder()
    assert "no position of gripper_joint finger" in holder.status().messages[0]
    holder.move(0.04)
    assert not holder.status().messages
    holder.now += 1.5
    assert "no position of gripper_joint finger" in holder.status().messages[0]


def test_an_announcement_that_waits_is_not_replaced_by_a_release() -> None:
    """It is newer than the grasp; if it is refused, the release counts."""
    for mass, left in ((0.3, 0.3), (90.0, 0.0)):
        holder = Holder()
        holder.move(0.04)
        holder.move(0.02)
        holder.name()
        assert holder.input.in_force.payload_mass == 1.0
        holder.posture = None
        holder.input.announce(PayloadParameters(mass))
        holder.move(0.04)
        assert holder.input.in_force.payload_mass == 1.0
        holder.posture = Q
        holder.tick()
        holder.tick()
        assert holder.input.in_force.payload_mass == left


def test_a_point_mass_on_a_payload_is_one_body() -> None:
    model, mass, place = ARM.model, 1.0, (0.01, -0.02, 0.2)
    both = PRESENT.with_point_mass(model, mass, place)
    assert (both.payload_link, both.payload_mass) == ("tool", 1.5)
    apart = PayloadParameters(mass, model.joint_links[-1], place).loaded(PRESENT.loaded(model))
    for name in ("mass", "first_moment", "second_moment"):
        one, two = (getattr(each.arrays, name) for each in (both.loaded(model), apart))
        np.testing.assert_allclose(one, two, rtol=0.0, atol=1e-12)  # sums of a few numbers
    with pytest.raises(InputError, match="on link_3, which moves relative to link_7"):
        PayloadParameters(0.5, "link_3").with_point_mass(model, mass, place)
    assert PayloadParameters().with_point_mass(model, mass, place).payload_link == "link_7"
