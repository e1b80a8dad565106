"""Input of the present payload, for every node that uses the model of the arm."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from geometry_msgs.msg import InertiaStamped
from numpy.typing import NDArray
from rclpy.parameter import Parameter
from rclpy.timer import Timer

from rbd_control.errors import ParameterError, RbdControlError
from rbd_control.node_parameters import ModelParameters
from rbd_control.robot.payload import PayloadParameters
from rbd_control.robot.robot import Robot
from rbd_control.ros.diagnostics import WARN, Status, report_unreceived
from rbd_control.ros.joint_state_input import read_waiting
from rbd_control.ros.managed_node import ManagedNode
from rbd_control.ros.messages import LATCHED
from rbd_control.wording import shortened

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
            self._timer = self._node.create_timer(
                SETTLE_PERIOD, self.settle, clock=self._node.steady
            )
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
            status.raise_to(WARN, f"payload refused: {self._refusal}")
        if self._pending is not None:
            status.raise_to(
                WARN,
                f"payload not in force yet: {_described(self._pending)}; it is checked when "
                f"{self._missing()}",
            )
        topic = self._node.resolve_topic_name(PAYLOAD)
        report_unreceived(self._node, topic, LATCHED, status)


def _described(payload: PayloadParameters) -> str:
    """Return the mass and the link of a payload as text."""
    link = payload.payload_link
    where = f" on {shortened(link, LONGEST_LINK)}" if link else ""
    return f"{payload.payload_mass:g} kg{where}"
