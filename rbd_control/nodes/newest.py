"""Subscriptions that are looked at now and then, so that nothing runs for each message."""

from __future__ import annotations

from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from rbd_control.nodes.detector_listener import Topic

NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""For topics of which only the newest message counts; no publisher waits for such a reader."""

EVERY = QoSProfile(depth=50)
"""For topics with few messages, all of which count."""


class PolledTopic:
    """Subscribes to a topic and hands on what waits there when :meth:`poll` is called.

    The node must not be spun by an executor.

    Args:
        node: node to subscribe with.
        topic: the topic and what takes its messages.
        qos: quality of service; by default :data:`NEWEST` or :data:`EVERY`, as the topic wants.
    """

    def __init__(self, node: Node, topic: Topic, qos: QoSProfile | None = None) -> None:
        self._take = topic.take
        profile = qos or (NEWEST if topic.only_newest else EVERY)
        self._most = profile.depth
        self._subscription = node.create_subscription(
            topic.kind, topic.name, lambda _message: None, profile
        )

    def poll(self) -> int:
        """Hand on the messages that wait, and return their number."""
        handle, kind = self._subscription.handle, self._subscription.msg_type
        found: list[Any] = []
        with handle:
            while len(found) < self._most:
                message = handle.take_message(kind, False)
                if message is None:
                    break
                found.append(message[0])
        for message in found:
            self._take(message)
        return len(found)
