"""Subscription to joint states before configuration, to determine the joints of the arm."""

from __future__ import annotations

import time
import warnings

from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState

from rbd_control.dynamics import Model
from rbd_control.errors import InputError, ModelWarning
from rbd_control.robot.joint_choice import ReportedJoints, is_one_arm
from rbd_control.robot.robot_parameters import RobotParameters

PATIENCE = 2.0
"""Longest wait for positions of the joints that are held fixed, from the first joint state [s]."""

SETTLING = 0.5
"""Time from the first joint state with effort to the choice of the joints [s].

In this time joint states of all publishers arrive.
"""


class JointScout:
    """Collects names, positions and efforts of joints until the node is configured.

    The constructor subscribes to ``joint_states``.

    Args:
        node: the node to configure.

    Attributes:
        reported: joints, positions and efforts received so far.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self.reported = ReportedJoints()
        self._subscription: Subscription | None = None
        self._first = 0.0
        self._parsed: tuple[str, RobotParameters, Model] | None = None
        self.start()

    def start(self) -> None:
        """Create the subscription, unless it exists."""
        if self._subscription is None:
            self._subscription = self._node.create_subscription(
                JointState, "joint_states", self._on_joint_state, qos_profile_sensor_data
            )

    def stop(self) -> None:
        """Destroy the subscription and clear :attr:`reported`, because a held joint may move."""
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)
            self._subscription = None
        self.reported = ReportedJoints()
        self._first = 0.0

    def waiting_for(self, arm: RobotParameters, text: str) -> str:
        """Return which joint states the configuration waits for, as text; empty if it can begin.

        If the parameter ``joints`` is empty and the description is no single chain of joints, the
        node waits for joint states with effort, and :data:`SETTLING` longer; it waits without end
        if these leave it doubtful which joints are the arm, see :meth:`ReportedJoints.chosen`. If
        ``joints`` names some joints of the description, the node waits for the positions at which
        it holds the other joints; after the first joint state it waits for at most
        :data:`PATIENCE`.

        Args:
            arm: the parameters of the arm.
            text: its description, as URDF text or path.

        Raises:
            RbdControlError: if the description cannot be converted to a model.
        """
        now, topic = time.monotonic(), self._node.resolve_topic_name("joint_states")
        model = self._model(arm, text)
        if not arm.joints:
            return "" if is_one_arm(model) else self._waiting_for_efforts(model, now, topic)
        held = set(model.joint_names) - set(arm.joints) - set(self.reported.positions)
        if not held:
            return ""
        what = f"joint states on {topic}, to hold {', '.join(sorted(held))} where they are"
        if not self.reported.positions:
            return what
        self._first = self._first or now
        return what if now - self._first < PATIENCE else ""

    def _waiting_for_efforts(self, model: Model, now: float, topic: str) -> str:
        """Return the missing condition for the choice of the joints by their efforts."""
        try:
            chosen = self.reported.chosen(model)
        except InputError as error:
            return f"the choice of the arm: {error}"
        if not chosen:
            return (
                f"joint states with effort on {topic}, to tell the joints of the arm from others "
                f"of the description; or name them in joints"
            )
        self._first = self._first or now
        return "" if now - self._first > SETTLING else "joint states of all joints"

    def _model(self, arm: RobotParameters, text: str) -> Model:
        """Return the model of the whole description from a cache."""
        if self._parsed is None or self._parsed[:2] != (text, arm):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ModelWarning)
                self._parsed = (text, arm, Model.from_urdf(text, locked=arm.locked))
        return self._parsed[2]

    def _on_joint_state(self, message: JointState) -> None:
        self.reported.add(message.name, message.position, message.effort)
