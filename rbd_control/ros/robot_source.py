"""The robot of a node: its description, joints and payload, from parameters and topics."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from geometry_msgs.msg import InertiaStamped
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import qos_profile_sensor_data
from rclpy.subscription import Subscription
from rclpy.timer import Timer
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from rbd_control.dynamics import Model
from rbd_control.errors import InputError, ModelError, ModelWarning, ParameterError, RbdControlError
from rbd_control.node_parameters import ModelParameters
from rbd_control.robot.joint_choice import Measured, ReportedJoints, is_one_arm
from rbd_control.robot.payload import PayloadParameters
from rbd_control.robot.robot import Robot, description_text
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.ros.diagnostics import WARN, Status, report_unreceived
from rbd_control.ros.fault_tolerant_node import FaultTolerantNode
from rbd_control.ros.messages import LATCHED, read_waiting
from rbd_control.wording import listed, shortened

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
        # A joint that the description lacks is an error of the configuration.
        if not held or not set(arm.joints) <= set(model.joint_names):
            return ""
        what = f"joint states on {topic}, to hold {listed(sorted(held))} where they are"
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

    Attributes:
        contradiction: why the model of the configured node may be wrong: another description has
            been published on the topic from which it came; empty if not.
    """

    def __init__(
        self,
        node: FaultTolerantNode,
        parameters: Callable[[], RobotParameters],
        *,
        reads_joint_states: bool,
    ) -> None:
        self._node, self._parameters = node, parameters
        self._received = self.contradiction = self._remark = ""
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
        """Stop reading joint states; another description contradicts the node from now on.

        Call it when the node is configured.

        Args:
            robot: the arm with which the node is configured.
        """
        self._in_use = robot.urdf
        if self._scout is not None:
            self._scout.stop()

    def release(self) -> None:
        """Read joint states again, to determine the joints of the next configuration."""
        self._in_use, self.contradiction, self._remark = None, "", ""
        if self._scout is not None:
            self._scout.start()

    def report(self, status: Status) -> None:
        """Add a warning while the last published description is another than the node's model."""
        if self._remark:
            status.raise_to(WARN, self._remark, is_logged=True)

    def _on_description(self, message: String) -> None:
        is_given = self._has_parameter()
        # A description in the parameters may differ from the driver's from the start; only a change
        # of the latter is reported.
        model = self._received if is_given else self._in_use
        if not (is_given and self._received):
            self._received = message.data
        if not model or self._in_use is None or _words(message.data) == _words(model):
            self._remark = self.contradiction = ""
            return
        self._remark = (
            f"another robot description was published, and the model stays that of {self._origin()}"
        )
        if not is_given:
            self.contradiction = self._remark
        self._node.get_logger().warning(self._remark)

    def _origin(self) -> str:
        """Return where the model comes from, and how to replace it."""
        if self._has_parameter():
            return "the parameter urdf or robot_description: if the arm has changed, change it, too"
        name = self._node.get_fully_qualified_name()
        return (
            f"the first: start the nodes again, or ros2 lifecycle set {name} deactivate, then "
            "cleanup, configure and activate (a controller in the same process first)"
        )

    def _has_parameter(self) -> bool:
        arm = self._parameters()
        return bool(arm.robot_description or arm.urdf)

    def _advice(self) -> str:
        topic = self._node.resolve_topic_name(TOPIC)
        return f"give robot_description or urdf, or publish it on {topic}"


def _words(xml: str) -> list[str]:
    """Return an XML text without the white space that formats it."""
    return xml.replace("<", " <").replace(">", "> ").split()


def joints_and_payload(robot: Robot) -> str:
    """Return the first and last joint of an arm, and its payload, if any, as text for the log."""
    arm, names = robot.parameters, robot.joints
    joints = names[0] if len(names) == 1 else f"{len(names)} joints, {names[0]} to {names[-1]}"
    if not arm.payload_mass:
        return joints
    link = arm.payload_link or robot.model.joint_links[-1]
    return f"{joints}; carrying {arm.payload_mass:g} kg on {link}"


if TYPE_CHECKING:  # it imports this module
    from rbd_control.ros.managed_node import ManagedNode

Array = NDArray[np.float64]

PAYLOAD = "payload"
"""Topic of the payload, relative to the namespace of the node."""

LONGEST_LINK = 80
"""Length above which the name of the payload's link is cut in the log [characters].

A name is logged before it is checked.
"""

SETTLE_PERIOD = 0.1
"""Period at which a pending payload is checked [s]."""


class PayloadInput:
    """Subscribes to ``payload`` and sets the parameters ``payload_*`` of the node.

    The topic keeps the last message, so that one message also reaches nodes that start later. Its
    publishers must be transient-local; the diagnostics name a publisher that is not.
    ``header.frame_id`` is the link that carries the payload (empty: the link of the last joint),
    ``inertia`` its mass [kg], centre of mass [m] and rotational inertia about that centre [kg·m²],
    in the frame of that link. A mass of zero means no payload.

    Values outside the ranges of the parameters are refused on receipt. Otherwise a payload is
    pending until it is accepted or refused: its link and inertia are checked when the node is
    configured, and its weight when the posture of the arm is known as well. A weight that the
    motors cannot hold in this posture is refused. The previous payload stays in force while another
    is pending, and after a refusal; the diagnostics report a pending payload and a refusal.

    Args:
        node: the node.
        posture: returns the present joint positions of the configured node, (nq,) [rad or m]; None
            while they are unknown.
        refuse_heavier: called with the arm with the new payload, the present arm, and joint
            positions (nq,) [rad or m]. Raises an error of the package if the motors cannot hold the
            weight there with the new payload, and the weight is larger than at present.
    """

    def __init__(
        self,
        node: ManagedNode[ModelParameters],
        posture: Callable[[], Array | None],
        refuse_heavier: Callable[[Robot, Robot, Array], None] = Robot.refuse_heavier,
    ) -> None:
        self._node, self._posture, self._refuse_heavier = node, posture, refuse_heavier
        self._pending: PayloadParameters | None = None
        self._refusal = ""
        self._subscription = node.create_subscription(
            InertiaStamped, PAYLOAD, self._on_payload, LATCHED
        )
        self._timer: Timer | None = None  # while a payload is pending; rcl warns of many timers
        node.diagnostics.append(self._report)

    @property
    def is_pending(self) -> bool:
        """Whether a received payload has neither been accepted nor refused yet."""
        return self._pending is not None

    @property
    def in_force(self) -> PayloadParameters:
        """The payload of the node's parameters."""
        parameters = self._node.parameters
        names = PayloadParameters.names()
        return PayloadParameters(**{name: getattr(parameters, name) for name in names})

    @property
    def is_checkable(self) -> bool:
        """Whether model and posture are known, so that a payload is accepted or refused at once."""
        return self._node.is_configured and self._posture() is not None

    def poll(self) -> None:
        """Process the messages that wait in the queue, during a callback that takes long."""
        read_waiting(self._subscription)

    def settle(self) -> None:
        """Accept or refuse a pending payload, if the node can check it now.

        A node calls it before it uses its first sample, so that no result is computed with the
        previous payload although another was announced.
        """
        payload = self._pending
        if payload is None:
            return
        self._pending = None  # also after a defect, which the timer would repeat
        try:
            if not self._apply(payload):
                self._pending = payload
                return
        except RbdControlError as error:
            self._refuse(error)
            return
        finally:
            self._keep_time()
        self._refusal = ""
        self._node.get_logger().info(f"payload: {_described(payload)}", throttle_duration_sec=1.0)

    def _keep_time(self) -> None:
        """Call :meth:`settle` periodically while a payload is pending."""
        if self._pending is not None and self._timer is None:
            self._timer = self._node.create_timer(SETTLE_PERIOD, self.settle)
        elif self._pending is None and self._timer is not None:
            self._node.destroy_timer(self._timer)
            self._timer = None

    def _on_payload(self, message: InertiaStamped) -> None:
        inertia = message.inertia
        com = (inertia.com.x, inertia.com.y, inertia.com.z)
        moments = (inertia.ixx, inertia.iyy, inertia.izz, inertia.ixy, inertia.ixz, inertia.iyz)
        try:
            payload = PayloadParameters(inertia.m, message.header.frame_id, com, moments)
        except RbdControlError as error:
            self._refuse(error)
            return
        self.announce(payload)

    def announce(self, payload: PayloadParameters) -> None:
        """Process a payload as if a message had announced it."""
        self._pending, self._refusal = payload, ""
        self.settle()
        if self._pending is not None:
            self._node.get_logger().info(
                f"payload announced: {_described(payload)}; it is checked when {self._missing()}",
                throttle_duration_sec=1.0,
            )

    def _apply(self, payload: PayloadParameters) -> bool:
        """Check a payload and set the parameters of the node.

        Returns:
            False while the model or the posture is unknown; nothing has changed then.

        Raises:
            RbdControlError: if the payload is refused.
        """
        node = self._node
        if not node.is_configured:
            return False
        robot = node.robot.with_payload(payload)
        posture = self._posture()
        if posture is None:
            return False
        self._refuse_heavier(robot, node.robot, posture)
        names = PayloadParameters.names()
        values = (getattr(payload, name) for name in names)
        answer = node.set_parameters_atomically(
            [
                Parameter(name, value=list(value) if isinstance(value, tuple) else value)
                for name, value in zip(names, values, strict=True)
            ]
        )
        if not answer.successful:
            raise ParameterError(str(answer.reason))
        return True

    def _refuse(self, error: RbdControlError) -> None:
        self._refusal = str(error)
        self._node.get_logger().error(
            f"payload refused, the previous payload stays: {self._refusal}",
            throttle_duration_sec=1.0,
        )

    def _missing(self) -> str:
        """Return the condition for which a pending payload waits."""
        return "joint states arrive" if self._node.is_configured else "the node is configured"

    def _report(self, status: Status) -> None:
        status.add("payload [kg]", float(self._node.parameters.payload_mass))
        if self._refusal:
            status.raise_to(WARN, f"payload refused: {self._refusal}", is_logged=True)
        if self._pending is not None:
            status.raise_to(
                WARN,
                f"payload not in force yet: {_described(self._pending)}; it is checked when "
                f"{self._missing()}",
            )
        topic = self._node.resolve_topic_name(PAYLOAD)
        report_unreceived(self._node, topic, LATCHED, status)


def payload_message(payload: PayloadParameters) -> InertiaStamped:
    """Return the message that announces a payload."""
    message = InertiaStamped()
    message.header.frame_id = payload.payload_link
    inertia = message.inertia
    inertia.m = payload.payload_mass
    inertia.com.x, inertia.com.y, inertia.com.z = payload.payload_com
    moments = payload.payload_inertia
    inertia.ixx, inertia.iyy, inertia.izz, inertia.ixy, inertia.ixz, inertia.iyz = moments
    return message


def _described(payload: PayloadParameters) -> str:
    """Return the mass and the link of a payload as text."""
    link = payload.payload_link
    where = f" on {shortened(link, LONGEST_LINK)}" if link else ""
    return f"{payload.payload_mass:g} kg{where}"
