"""Input of the controller from a contact detector: flag, force, and a warning on silence."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from geometry_msgs.msg import WrenchStamped
from numpy.typing import NDArray
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription
from std_msgs.msg import Bool

from rbd_control.node_parameters import NodeParameters
from rbd_control.ros.diagnostics import WARN, Status, report_unreceived
from rbd_control.ros.managed_node import ManagedNode
from rbd_control.ros.messages import read_waiting
from rbd_control.wording import shortened

LONGEST = 80
"""Number of characters of a frame's name that a message shows."""

SEPARATORS = ("/", "_")
"""Last characters of the prefixes that are recognized."""


def link_of_frame(frame: str, links: Collection[str], prefix: str) -> str:
    """Return the link that a frame on TF belongs to, or an empty text if it belongs to no link.

    A detector may have another ``frame_prefix`` than the controller. Therefore a frame that ends
    with the name of a link, after a slash or an underscore, belongs to that link; if several links
    match, to the link with the longest name.

    Args:
        frame: ``header.frame_id`` of the force estimate.
        links: the links of the arm.
        prefix: the parameter ``frame_prefix`` of the controller.
    """
    own = frame.removeprefix(prefix)
    if own in links:
        return own
    ends = [link for link in links if any(frame.endswith(each + link) for each in SEPARATORS)]
    return max(ends, key=len, default="")


class TouchedLink:
    """Finds the link of a force estimate, and logs once if ``frame_prefix`` does not fit.

    Args:
        node: the node, for its log.
    """

    def __init__(self, node: ManagedNode[Any]) -> None:
        self._node = node
        self._frame: str | None = None
        self._link = self._trouble = ""

    def forget(self) -> None:
        """Forget the last frame and its problem, because links or prefix may change."""
        self._frame, self._link, self._trouble = None, "", ""

    def of(self, frame: str, links: Collection[str], prefix: str) -> str:
        """Return the link that a frame belongs to, or an empty text if it belongs to no link.

        Args:
            frame: ``header.frame_id`` of the force estimate.
            links: the links of the arm.
            prefix: the parameter ``frame_prefix``.
        """
        if frame != self._frame:  # up to 1,000 estimates a second name the same frame
            self._frame, self._link = frame, link_of_frame(frame, links, prefix)
            self._look(frame, prefix)
        return self._link

    def report(self, status: Status) -> None:
        """Add a warning to the diagnostics if the last frame does not fit ``frame_prefix``."""
        if self._trouble:
            status.raise_to(WARN, self._trouble)

    def _look(self, frame: str, prefix: str) -> None:
        """Set the warning for the diagnostics; any node may publish any number of frames."""
        shown = shortened(frame, LONGEST)
        if self._link and frame == prefix + self._link:
            self._trouble = ""
            return
        if self._link:
            other = shortened(frame.removesuffix(self._link), LONGEST)
            self._trouble = (
                f"the force estimate is in frame {shown!r}, taken for link {self._link}: set "
                f"frame_prefix to {other!r}, as the detector has it"
            )
        else:
            self._trouble = (
                f"the force estimate is in frame {shown!r}, which is no link of this arm with "
                f"frame_prefix {prefix!r}: it is ignored; give both nodes the same description "
                f"and frame_prefix"
            )


CONTACT = "contact_detector/contact"
WRENCH = "contact_detector/external_wrench"

LARGEST_VERDICT = 4096
"""Size above which a message of the detector is dropped before deserialization [bytes]."""


class DetectorInput:
    """Subscribes to contact flag and contact force, and warns about a missing detector.

    The subscriptions are reliable and volatile. They are reliable because a lost flag would delay
    the reaction by 20 ms, until it is repeated. They cannot receive flags of a best-effort
    publisher, which the diagnostics name while the detector is missing. They are volatile because a
    flag from before the subscription is out of date; a volatile subscription matches publishers of
    either durability.

    Args:
        node: the node.
        on_contact: called with each contact flag that is received.
        on_force: called with the frame of the touched link on TF and the force on the link, (3,)
            in that frame [N].
        warning: returns why a required verdict is missing; an empty text if it is not missing.
        subscribes: whether to subscribe. False if the detector runs in the same process: a late
            flag from the topic would then start a reaction to a contact that has ended.

    Attributes:
        topic: resolved name of the topic of the contact flag.
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
        self._flags: Subscription | None = None
        if not subscribes:
            return
        self._flags = node.create_subscription(
            Bool, CONTACT, self._receive_contact, self._qos, largest=LARGEST_VERDICT
        )
        node.create_subscription(
            WrenchStamped, WRENCH, self._receive_wrench, self._qos, largest=LARGEST_VERDICT
        )

    def poll(self) -> None:
        """Process the contact flags that wait in the queue, during a callback that takes long.

        A flag counts from the time at which it is read.
        """
        if self._flags is not None:
            read_waiting(self._flags)

    def watch(self) -> None:
        """Log once that the detector is missing, and once that it is available again.

        Call it periodically. The detector is missing while ``warning`` returns a text.
        """
        warning = self._warning()
        if bool(warning) == self._is_missed:
            return
        self._is_missed = bool(warning)
        if warning:
            self._node.get_logger().warning(self._advice(warning))
        else:
            self._node.get_logger().info(
                f"receiving verdicts of the contact detector on {self.topic}"
            )

    def report(self, status: Status) -> None:
        """Add warnings about several detectors, and about a missing one, to the diagnostics.

        While the detector is missing, each publisher of the flag whose quality of service is
        incompatible is a further warning.
        """
        count = 0 if self._flags is None else self._node.count_publishers(self.topic)
        if count > 1:
            status.raise_to(WARN, f"{self.topic} has {count} publishers: the last flag counts")
        warning = self._warning()
        if not warning:
            return
        status.raise_to(WARN, self._advice(warning), is_logged=True)
        report_unreceived(self._node, self.topic, self._qos, status)

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
