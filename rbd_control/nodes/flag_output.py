"""Output of the contact flag ``~/contact``."""

from __future__ import annotations

from collections.abc import Callable

from rclpy.qos import QoSProfile
from std_msgs.msg import Bool

from rbd_control.nodes.guarded_node import GuardedNode


def _nobody(_flag: bool) -> None:
    """Ignore the flag; the default callback."""


class FlagOutput:
    """Publishes the contact flag while there is a verdict; without a verdict the topic is silent.

    Args:
        node: the node.
        qos: quality of service of the topic.

    Attributes:
        value: the flag of the last verdict; None while there is no verdict.
        is_published: whether the middleware accepted the last publication of the flag.
        on_verdict: callback for each flag before it is published, for a controller in this process.
    """

    def __init__(self, node: GuardedNode, qos: QoSProfile) -> None:
        self._publisher = node.create_publisher(Bool, "~/contact", qos)
        self.value: bool | None = None
        self.is_published = True
        self.on_verdict: Callable[[bool], None] = _nobody

    def publish(self, flag: bool) -> None:
        """Store and publish the flag of a verdict."""
        self.value = flag
        self.on_verdict(flag)
        self.is_published = self._publisher.try_publish(Bool(data=flag))

    def end(self) -> None:
        """End the repetition, because there is no verdict."""
        self.value, self.is_published = None, True
