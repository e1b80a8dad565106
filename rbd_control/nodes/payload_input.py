"""Input of the present payload, for every node that uses the model of the arm."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from geometry_msgs.msg import InertiaStamped
from numpy.typing import NDArray
from rclpy.parameter import Parameter

from rbd_control.errors import ParameterError, RbdControlError
from rbd_control.node_parameters import ModelParameters
from rbd_control.nodes.diagnostics import WARN, Status
from rbd_control.nodes.managed_node import ManagedNode
from rbd_control.nodes.messages import LATCHED
from rbd_control.robot.payload import PayloadParameters
from rbd_control.wording import shortened

Array = NDArray[np.float64]

PAYLOAD = "payload"
"""Name of the topic."""

LONGEST_LINK = 80
"""Longest name of a link in the log; without a mass, any name is accepted."""


class PayloadInput:
    """Subscribes to ``payload`` and sets the parameters ``payload_*`` of the node.

    The topic keeps the last message, so that one message also reaches nodes that start later.
    ``header.frame_id`` is the link that carries the payload (empty: the link of the last joint),
    ``inertia`` its mass, centre of mass and rotational inertia about that centre, in the frame of
    that link. A mass of zero means no payload. The input refuses values that the node refuses as
    parameters, and a weight that the motors cannot hold in the present posture. The previous
    payload then stays in force, and the diagnostics report the refusal.

    Args:
        node: the node.
        position: returns the joint positions, (nq,) [rad or m]; None while they are unknown.
    """

    def __init__(
        self, node: ManagedNode[ModelParameters], position: Callable[[], Array | None]
    ) -> None:
        self._node, self._position, self._refusal = node, position, ""
        node.create_subscription(InertiaStamped, PAYLOAD, self._on_payload, LATCHED)
        node.diagnostics.append(self._report)

    def _on_payload(self, message: InertiaStamped) -> None:
        inertia = message.inertia
        com = (inertia.com.x, inertia.com.y, inertia.com.z)
        moments = (inertia.ixx, inertia.iyy, inertia.izz, inertia.ixy, inertia.ixz, inertia.iyz)
        node, link = self._node, message.header.frame_id
        try:
            self._set(PayloadParameters(inertia.m, link, com, moments))
            self._refusal = ""
        except RbdControlError as error:
            self._refusal = str(error)
        if self._refusal:
            node.get_logger().error(
                f"payload refused, the previous payload stays: {self._refusal}",
                throttle_duration_sec=1.0,
            )
        else:
            where = f" on {shortened(link, LONGEST_LINK)}" if link else ""
            node.get_logger().info(f"payload: {inertia.m:g} kg{where}", throttle_duration_sec=1.0)

    def _set(self, payload: PayloadParameters) -> None:
        """Set the parameters of the node.

        Raises:
            RbdControlError: if the node refuses them.
        """
        node, position = self._node, self._position()
        if position is not None:
            node.robot.with_payload(payload).refuse_heavy(position)
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

    def _report(self, status: Status) -> None:
        status.add("payload [kg]", float(self._node.parameters.payload_mass))
        if self._refusal:
            status.raise_to(WARN, f"payload refused: {self._refusal}")
