"""What a contact detector tells the controller: its flag, its force, and its silence."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf

import numpy as np
from geometry_msgs.msg import WrenchStamped
from numpy.typing import NDArray
from rclpy.qos import QoSCompatibility, QoSProfile, qos_check_compatible
from std_msgs.msg import Bool

from rbd_control.nodes.diagnostics import WARN, Status
from rbd_control.nodes.managed_node import ManagedNode

CONTACT = "contact_detector/contact"
WRENCH = "contact_detector/external_wrench"

VERDICT_TIMEOUT = 0.5
"""Silence of the detector, which repeats its verdict at 50 Hz, after which it is missed [s]."""

LARGEST_VERDICT = 4096
"""Size above which a message of the detector is dropped before it is read [bytes]."""


class DetectorInput:
    """Subscribes to the contact flag and the contact force, and watches for silence.

    The subscriptions are reliable and volatile. Reliable, because a lost flag would delay the
    reaction by the 20 ms until it is repeated; a best-effort publisher is named in the diagnostics.
    Volatile, because a flag from before the subscription says nothing about now; it matches
    publishers of either durability.

    Args:
        node: the node.
        on_contact: takes each flag.
        on_force: takes the touched link and the force on it, (3,) in world axes [N].
        reaction: tells the configured reaction to contact; 'none' needs no detector.
        clock: steady clock [s].
    """

    def __init__(
        self,
        node: ManagedNode,
        on_contact: Callable[[bool], None],
        on_force: Callable[[str, NDArray[np.float64]], None],
        reaction: Callable[[], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node, self._clock, self._reaction = node, clock, reaction
        self._on_contact, self._on_force = on_contact, on_force
        self._heard = -inf
        self._is_missed = False
        self._qos = QoSProfile(depth=10)
        self._topic = node.resolve_topic_name(CONTACT)
        node.create_subscription(
            Bool, CONTACT, self._receive_contact, self._qos, largest=LARGEST_VERDICT
        )
        node.create_subscription(
            WrenchStamped, WRENCH, self._receive_wrench, self._qos, largest=LARGEST_VERDICT
        )

    @property
    def silence(self) -> float:
        """Time since the last flag [s]; infinite before the first."""
        return self._clock() - self._heard

    @property
    def missing(self) -> str:
        """What is wrong while the detector is silent; empty while it is heard."""
        silence = self.silence
        if silence <= VERDICT_TIMEOUT:
            return ""
        if silence == inf:
            return f"no contact detector has been heard on {self._topic}"
        return f"no verdict about contact on {self._topic} for {silence:.1f} s"

    def watch(self) -> None:
        """Log, once, that the detector is missed, and once that it is back."""
        missing = self.missing if self._reaction() != "none" else ""
        if bool(missing) == self._is_missed:
            return
        self._is_missed = bool(missing)
        if missing:
            self._node.get_logger().warning(self._advice(missing))
        else:
            self._node.get_logger().info(f"the contact detector is heard on {self._topic}")

    def report(self, status: Status) -> None:
        """Add the silence of the detector, and why it may not be heard, to the diagnostics."""
        if self._reaction() == "none" or not self.missing:
            return
        status.raise_to(WARN, self._advice(self.missing))
        for publisher in self._node.get_publishers_info_by_topic(self._topic):
            compatibility, reason = qos_check_compatible(publisher.qos_profile, self._qos)
            if compatibility == QoSCompatibility.ERROR:
                status.raise_to(
                    WARN, f"{self._topic} of {publisher.node_name} cannot be received: {reason}"
                )

    def _advice(self, missing: str) -> str:
        return (
            f"{missing}: the reaction {self._reaction()!r} cannot happen; start a detector or set "
            "contact_reaction to 'none'"
        )

    def _receive_contact(self, message: Bool) -> None:
        self._heard = self._clock()
        self._on_contact(bool(message.data))

    def _receive_wrench(self, message: WrenchStamped) -> None:
        force = message.wrench.force
        self._on_force(message.header.frame_id, np.array([force.x, force.y, force.z]))
