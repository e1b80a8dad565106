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

    A verdict is contact (true) or no contact (false). The node repeats :attr:`value`.

    Args:
        node: the node.
        qos: quality of service of the topic.

    Attributes:
        value: the flag of the last verdict; None while there is no verdict.
        is_published: whether the middleware accepted the last publication of the flag; True before
            the first and after :meth:`end`.
        on_verdict: callback for each flag before it is published, for a controller in this process.
    """

    def __init__(self, node: GuardedNode, qos: QoSProfile) -> None:
        self._publisher = node.create_publisher(Bool, "~/contact", qos)
        self.value: bool | None = None
        self.is_published = True
        self.on_verdict: Callable[[bool], None] = _nobody

    def publish(self, flag: bool) -> None:
        """Store the flag of a verdict, pass it to ``on_verdict``, and publish it.

        Args:
            flag: whether there is contact.
        """
        self.value = flag
        self.on_verdict(flag)
        self.is_published = self._publisher.try_publish(Bool(data=flag))

    def end(self) -> None:
        """Set :attr:`value` to None, because there is no verdict; nothing is published."""
        self.value, self.is_published = None, True
