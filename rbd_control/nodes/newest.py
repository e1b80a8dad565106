"""Polled subscriptions: no Python code runs while messages arrive, only when they are polled."""

from __future__ import annotations

from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from rbd_control.nodes.detector_listener import Topic

NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Quality of service of topics whose newest message suffices; it never delays a publisher."""

EVERY = QoSProfile(depth=50)
"""Quality of service of topics with few messages, all of which are needed."""


class PolledTopic:
    """Subscribes to a topic and processes waiting messages when :meth:`poll` is called.

    No executor may spin the node, because it would take the messages and discard them.

    Args:
        node: node to subscribe with.
        topic: the topic and its callback.
        qos: quality of service; by default :data:`NEWEST` or :data:`EVERY`, as the topic requires.
    """

    def __init__(self, node: Node, topic: Topic, qos: QoSProfile | None = None) -> None:
        self._take = topic.take
        profile = qos or (NEWEST if topic.only_newest else EVERY)
        self._most = profile.depth
        self._subscription = node.create_subscription(
            topic.kind, topic.name, lambda _message: None, profile
        )

    def poll(self) -> int:
        """Pass the waiting messages to the callback, the oldest first, and return their number.

        At most as many messages wait as the depth of the quality of service.
        """
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
