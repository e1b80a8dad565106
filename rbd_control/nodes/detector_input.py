"""What a contact detector tells the controller: its flag, its force, and its silence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from geometry_msgs.msg import WrenchStamped
from numpy.typing import NDArray
from rclpy.qos import QoSCompatibility, QoSProfile, qos_check_compatible
from std_msgs.msg import Bool

from rbd_control.node_parameters import NodeParameters
from rbd_control.nodes.diagnostics import WARN, Status
from rbd_control.nodes.managed_node import ManagedNode

CONTACT = "contact_detector/contact"
WRENCH = "contact_detector/external_wrench"

LARGEST_VERDICT = 4096
"""Size above which a message of the detector is dropped before it is read [bytes]."""


class DetectorInput:
    """Subscribes to contact flag and contact force, and tells when a detector is missed.

    The subscriptions are reliable and volatile. Reliable, because a lost flag would delay the
    reaction by the 20 ms until it is repeated; a best-effort publisher is named in the diagnostics.
    Volatile, because a flag from before the subscription says nothing about now; it matches
    publishers of either durability.

    Args:
        node: the node.
        on_contact: takes each flag.
        on_force: takes the touched link and the force on it, (3,) in the frame of the link [N].
        warning: tells that a verdict is missing which the parameters need; empty otherwise.
        subscribes: whether to subscribe; not where the detector calls in the same process, as a
            flag that comes late by the topic would then begin a contact that has ended.
    """

    def __init__(
        self,
        node: ManagedNode[NodeParameters],
        on_contact: Callable[[bool], None],
        on_force: Callable[[str, NDArray[np.float64]], None],
        warning: Callable[[], str],
        *,
        subscribes: bool = True,
    ) -> None:
        self._node, self._warning = node, warning
        self._on_contact, self._on_force = on_contact, on_force
        self._is_missed = False
        self._qos = QoSProfile(depth=10)
        self.topic = node.resolve_topic_name(CONTACT)
        if not subscribes:
            return
        node.create_subscription(
            Bool, CONTACT, self._receive_contact, self._qos, largest=LARGEST_VERDICT
        )
        node.create_subscription(
            WrenchStamped, WRENCH, self._receive_wrench, self._qos, largest=LARGEST_VERDICT
        )

    def watch(self) -> None:
        """Log, once, that the detector is missed, and once that it is back."""
        warning = self._warning()
        if bool(warning) == self._is_missed:
            return
        self._is_missed = bool(warning)
        if warning:
            self._node.get_logger().warning(self._advice(warning))
        else:
            self._node.get_logger().info(f"the contact detector is heard on {self.topic}")

    def report(self, status: Status) -> None:
        """Add to the diagnostics that the detector is missed, and why it may not be heard."""
        warning = self._warning()
        if not warning:
            return
        status.raise_to(WARN, self._advice(warning))
        for publisher in self._node.get_publishers_info_by_topic(self.topic):
            compatibility, reason = qos_check_compatible(publisher.qos_profile, self._qos)
            if compatibility == QoSCompatibility.ERROR:
                status.raise_to(
                    WARN, f"{self.topic} of {publisher.node_name} cannot be received: {reason}"
                )

    def _advice(self, warning: str) -> str:
        return (
            f"{warning}; start a detector that publishes {self.topic}, or set contact_reaction to "
            "'none'"
        )

    def _receive_contact(self, message: Bool) -> None:
        self._on_contact(bool(message.data))

    def _receive_wrench(self, message: WrenchStamped) -> None:
        force = message.wrench.force
        self._on_force(message.header.frame_id, np.array([force.x, force.y, force.z]))
