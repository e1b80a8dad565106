"""The input of the present payload: what is pending, accepted and refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from fake_node import FakeNode
from geometry_msgs.msg import InertiaStamped
from rclpy.qos import QoSProfile

from rbd_control.errors import InputError
from rbd_control.robot.robot import Robot
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
