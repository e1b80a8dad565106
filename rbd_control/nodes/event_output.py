"""Output of the events of contacts: the topic ``~/events``, and the log."""

from __future__ import annotations

from collections import deque

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import QoSProfile

from rbd_control.estimation import ContactEvent
from rbd_control.nodes.contact_messages import event_line, event_message
from rbd_control.nodes.guarded_node import GuardedNode
from rbd_control.nodes.messages import Stamp

LOG_PERIOD = 0.1
"""Period at which events are logged [s]."""

MOST_UNLOGGED = 20
"""Maximum number of events that wait to be logged; older events are not logged."""

MOST_REFUSED = 50
"""Maximum number of stored events that the middleware has refused; older ones are discarded."""


class EventOutput:
    """Publishes contact events in their order on ``~/events``, and logs them afterwards.

    Args:
        node: the node.
    """

    def __init__(self, node: GuardedNode) -> None:
        self._node = node
        self._publisher = node.create_publisher(DiagnosticArray, "~/events", QoSProfile(depth=50))
        self._waiting: deque[DiagnosticArray] = deque(maxlen=MOST_REFUSED)
        self._unlogged: deque[str] = deque(maxlen=MOST_UNLOGGED)
        node.create_timer(LOG_PERIOD, self._log, clock=node.steady)

    def add(self, event: ContactEvent, stamp: Stamp, frame: str) -> None:
        """Publish an event; if the middleware refuses it, :meth:`publish` tries again.

        Args:
            event: the onset or the release of a contact.
            stamp: time of the sample, for the header.
            frame: name of the root link, for the header; force, direction and point are in its
                axes.
        """
        name = self._node.get_fully_qualified_name().lstrip("/")
        self._waiting.append(event_message(name, event, stamp, frame))
        self.publish()
        # A log line takes as long as ten samples, so a timer writes it later.
        self._unlogged.append(event_line(event))

    def publish(self) -> None:
        """Publish waiting events; keep those that the middleware refuses. Call it periodically."""
        while self._waiting and self._publisher.try_publish(self._waiting[0]):
            self._waiting.popleft()

    def _log(self) -> None:
        while self._unlogged:
            self._node.get_logger().info(self._unlogged.popleft())
