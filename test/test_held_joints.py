"""Joints that a node does not move are held where they are when the node is configured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from robots import urdf_path
from sensor_msgs.msg import JointState

from rbd_control.errors import RbdControlError
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.ros.managed_node import ManagedNode, NotReadyError
from rbd_control.ros.robot_source import RobotSource

ARM = tuple(f"panda_joint{i}" for i in range(1, 8))
FINGER = "panda_finger_joint1"


class Source:
    """The robot description of a node that moves the arm and holds the fingers.

    Attributes:
        node: the node.
        source: the description.
    """

    def __init__(self, joints: tuple[str, ...] = ARM) -> None:
        self.node = MagicMock()
        self.node.resolve_topic_name.side_effect = lambda name: f"/{name}"
        arm = RobotParameters(urdf=str(urdf_path("panda")), joints=joints)
        self.source = RobotSource(self.node, lambda: arm, reads_joint_states=True)

    def report(self, finger: float) -> None:
        """Receive a joint state, if the node is subscribed to joint states."""
        created, destroyed = self.node.create_subscription, self.node.destroy_subscription
        count = sum(call.args[0] is JointState for call in created.call_args_list)
        assert count == destroyed.call_count + 1, "no subscription"
        receive = created.call_args_list[-1].args[2]
        positions = [*(0.1 * k for k in range(7)), finger]
        receive(JointState(name=[*ARM, FINGER], position=positions, effort=[1.0] * 8))

    def held(self) -> float:
        """Configure the node, and return the position at which it holds the finger [m]."""
        assert not self.source.missing_positions()
        robot = self.source.make()
        self.source.use(robot)
        return float(robot.held[FINGER])


def test_a_node_that_is_configured_again_holds_joints_at_their_new_positions() -> None:
    """It held them at the positions of the first configuration."""
    source = Source()
    source.report(0.01)
    assert source.held() == pytest.approx(0.01)
    source.source.release()
    missing = source.source.missing_positions()
    assert missing == f"joint states on /joint_states, to hold {FINGER} where they are"
    source.report(0.03)
    assert source.held() == pytest.approx(0.03)


def test_joints_that_the_description_lacks_are_refused_at_once() -> None:
    """The node waited for joint states to hold the joints that it should have moved."""
    source = Source(joints=tuple(f"fr3_joint{i}" for i in range(1, 8)))
    assert source.source.missing_positions() == ""
    with pytest.raises(RbdControlError, match="no movable joint 'fr3_joint1', which the parameter"):
        source.source.make()


def test_only_named_joints_leave_others_to_be_held() -> None:
    assert Source(joints=()).source.missing_positions() == ""


class Node(ManagedNode[Any]):
    """A node without a ROS graph whose positions of held joints are unknown."""

    def __init__(self) -> None:
        source: Any = SimpleNamespace(missing_positions=lambda: "joint states")
        self._source, self.stopping = source, False
        self.interrupts = lambda: ""


def test_a_configuration_without_the_positions_is_refused() -> None:
    """A lifecycle service call held them at zero."""
    with pytest.raises(NotReadyError, match="waiting for joint states"):
        Node()._configure()
