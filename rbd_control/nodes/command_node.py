"""A node without lifecycle, for the commands that publish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile

from rbd_control.nodes.publications import GuardedPublisher, Refusals, guarded


class CommandNode(Node):
    """A node whose publications raise no exception when the middleware refuses them.

    Args:
        name: name of the node.
        warn: writes one line about refused messages.
        namespace: namespace of the node; None for the default namespace.

    Attributes:
        refusals: counts the messages that the middleware refused to send.
    """

    def __init__(
        self, name: str, warn: Callable[[str], None], *, namespace: str | None = None
    ) -> None:
        # Before the base class creates the publisher of parameter events, and uses it.
        self.refusals = Refusals(warn)
        super().__init__(name, namespace=namespace)

    def create_publisher(
        self, msg_type: Any, topic: str, qos_profile: QoSProfile | int, **options: Any
    ) -> GuardedPublisher[Any]:
        """Create a publisher that counts refused messages; arguments as in rclpy."""
        options["publisher_class"] = GuardedPublisher
        publisher = super().create_publisher(msg_type, topic, qos_profile, **options)
        return guarded(publisher, self.refusals)
