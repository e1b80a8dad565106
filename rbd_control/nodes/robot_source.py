"""The robot description of a node, from a parameter or a topic, and the arm that it describes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress

from std_msgs.msg import String

from rbd_control.errors import ModelError, ModelWarning, RbdControlError
from rbd_control.nodes.guarded_node import GuardedNode
from rbd_control.nodes.joint_scout import JointScout
from rbd_control.nodes.messages import LATCHED
from rbd_control.robot.joint_choice import Measured
from rbd_control.robot.robot import Robot, description_text
from rbd_control.robot.robot_parameters import RobotParameters

TOPIC = "robot_description"


class RobotSource:
    """Receives the robot description, and builds the arm when the node is configured.

    The parameters ``robot_description`` and ``urdf`` have precedence over the topic
    ``robot_description``.

    Args:
        node: the node.
        parameters: returns the present parameters of the arm.
        reads_joint_states: whether joint states are read before the configuration. They determine
            the joints of the arm if the parameter ``joints`` is empty, and the positions of fixed
            joints.
    """

    def __init__(
        self,
        node: GuardedNode,
        parameters: Callable[[], RobotParameters],
        *,
        reads_joint_states: bool,
    ) -> None:
        self._node, self._parameters = node, parameters
        self._received = ""
        self._in_use: str | None = None
        """Description of the configured arm; None while the node is not configured."""
        node.create_subscription(String, TOPIC, self._on_description, LATCHED)
        self._scout = JointScout(node) if reads_joint_states else None

    def missing(self) -> str:
        """Return what is missing before the arm can be built; an empty text if nothing is.

        Errors of the description are reported when the node is configured.
        """
        if not self._received and not self._has_parameter():
            return f"a robot description; {self._advice()}"
        if self._scout is not None:
            with suppress(RbdControlError):
                arm = self._parameters()
                return self._scout.waiting_for(arm, description_text(arm) or self._received)
        return ""

    def missing_positions(self) -> str:
        """Return the result of :meth:`missing` if the parameter ``joints`` is set; else empty.

        With this parameter, joint states tell where the node holds the other joints. Without it,
        and in nodes that do not read joint states, the configuration does not wait for them.
        """
        return self.missing() if self._scout is not None and self._parameters().joints else ""

    def make(self) -> Robot:
        """Build and return the arm; log warnings about its description, and the fixed joints.

        Raises:
            RbdControlError: if there is no description, no arm can be built from it, or it is
                doubtful which joints are the arm.
        """
        arm = self._parameters()
        text = description_text(arm) or self._received
        if not text:
            raise ModelError(f"no robot description; {self._advice()}")
        reported: Mapping[str, float] = {}
        measured: Measured = ()
        if self._scout is not None:
            reported = self._scout.reported.positions
            measured = self._scout.reported.chosen  # only called if the parameters name no joints
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ModelWarning)
            robot = Robot.of(arm, text, reported=reported, measured=measured)
        for warning in caught:
            self._node.get_logger().warning(str(warning.message))
        if robot.held:
            self._node.get_logger().info(f"held joints: {robot.held_in_words}")
        return robot

    def use(self, robot: Robot) -> None:
        """Stop reading joint states, and warn from now on if another description arrives.

        Call it when the node is configured.

        Args:
            robot: the arm with which the node is configured.
        """
        self._in_use = robot.urdf
        if self._scout is not None:
            self._scout.stop()

    def release(self) -> None:
        """Read joint states again, to determine the joints of the next configuration."""
        self._in_use = None
        if self._scout is not None:
            self._scout.start()

    def _on_description(self, message: String) -> None:
        if self._has_parameter():
            return
        if self._in_use is not None and message.data != self._in_use:
            self._node.get_logger().warning(
                "another robot description arrived and is ignored until the node is configured anew"
            )
        self._received = message.data

    def _has_parameter(self) -> bool:
        arm = self._parameters()
        return bool(arm.robot_description or arm.urdf)

    def _advice(self) -> str:
        topic = self._node.resolve_topic_name(TOPIC)
        return f"give robot_description or urdf, or publish it on {topic}"


def joints_and_payload(robot: Robot) -> str:
    """Return the joints of an arm and its payload (mass and link), if any, as text for the log."""
    arm = robot.parameters
    joints = ", ".join(robot.joints)
    if not arm.payload_mass:
        return joints
    link = arm.payload_link or robot.model.joint_links[-1]
    return f"{joints}; carrying {arm.payload_mass:g} kg on {link}"
