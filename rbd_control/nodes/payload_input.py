"""The payload that somebody says the arm carries, for every node that works with the arm."""

from __future__ import annotations

from geometry_msgs.msg import InertiaStamped
from rclpy.parameter import Parameter

from rbd_control.nodes.diagnostics import WARN, Status
from rbd_control.nodes.managed_node import LATCHED, ManagedNode

PAYLOAD = "payload"
"""Name of the topic."""


class PayloadInput:
    """Subscribes to ``payload`` and sets the parameters ``payload_*`` of the node.

    One message reaches every node of the arm, whenever it starts: the topic keeps the last one.
    ``header.frame_id`` is the link that carries the payload (empty: that of the last joint),
    ``inertia`` its mass, centre of mass and rotational inertia about that centre, in the frame of
    that link. A mass of zero means that nothing is carried. What the node refuses as a parameter is
    refused here, too: the payload stays what it was, and the diagnostics say so.

    Args:
        node: the node.
    """

    def __init__(self, node: ManagedNode) -> None:
        self._node, self._refusal = node, ""
        node.create_subscription(InertiaStamped, PAYLOAD, self._on_payload, LATCHED)
        node.diagnostics.append(self._report)

    def _on_payload(self, message: InertiaStamped) -> None:
        inertia = message.inertia
        com = (inertia.com.x, inertia.com.y, inertia.com.z)
        moments = (inertia.ixx, inertia.iyy, inertia.izz, inertia.ixy, inertia.ixz, inertia.iyz)
        node, link = self._node, message.header.frame_id
        answer = node.set_parameters_atomically(
            [
                Parameter("payload_mass", value=float(inertia.m)),
                Parameter("payload_link", value=link),
                Parameter("payload_com", value=[float(x) for x in com]),
                Parameter("payload_inertia", value=[float(x) for x in moments]),
            ]
        )
        self._refusal = "" if answer.successful else str(answer.reason)
        if self._refusal:
            node.get_logger().error(
                f"payload refused, the one before stays: {self._refusal}",
                throttle_duration_sec=1.0,
            )
        else:
            where = f" on {link}" if link else ""
            node.get_logger().info(f"payload: {inertia.m:g} kg{where}", throttle_duration_sec=1.0)

    def _report(self, status: Status) -> None:
        status.add("payload [kg]", float(self._node.parameters.payload_mass))
        if self._refusal:
            status.raise_to(WARN, f"payload refused: {self._refusal}")
