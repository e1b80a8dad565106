"""How controllers that start at the same time leave the arm to one of them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from rclpy.node import Node
from rclpy.publisher import Publisher
from std_msgs.msg import Empty


class Claim:
    """A publisher on ``<commands>/claim`` that announces a controller that wants to start.

    ROS needs up to 3 s to discover another node: of two Fast DDS participants that start within
    some seconds of each other, one often waits for the periodic announcement of the other. A
    controller that starts without that wait may not know of one that sends torque already, and two
    that start together both see a free arm. So each one creates this publisher, on which nothing
    is ever published, and starts only when its claim has been the only one for ``duration``. Two
    that see each other both withdraw and try again after a random time, as stations on one cable
    do.

    Args:
        node: the node.
        topic: name of the topic of the claims.
        duration: tells for how long the claim must have been alone [s].
        clock: steady clock [s].
    """

    def __init__(
        self,
        node: Node,
        topic: str,
        duration: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node, self.topic, self._duration, self._clock = node, topic, duration, clock
        self._publisher: Publisher[Empty] | None = None
        self._since = self._again = clock()

    def make(self) -> None:
        """Claim the arm from now on."""
        if self._publisher is None:
            self._publisher = self._node.create_publisher(Empty, self.topic, 1)
            self._since = self._clock()

    def withdraw(self) -> None:
        """Claim the arm no longer."""
        if self._publisher is not None:
            self._node.destroy_publisher(self._publisher)
            self._publisher = None

    def give_way(self) -> bool:
        """Withdraw for a random time when there is another claim; return whether there is one."""
        others = int(self._node.count_publishers(self.topic)) - (self._publisher is not None)
        if others > 0 and self._publisher is not None:
            self.withdraw()
            self._again = self._clock() + random.uniform(0.0, 2.0 * self._duration())
        return others > 0

    def time_left(self) -> float:
        """Return for how long the claim must still be alone [s]; 0 when the arm is claimed.

        Makes the claim where there is none and the time to try again has come.
        """
        now = self._clock()
        if self.give_way():
            return self._duration()
        if self._publisher is None:
            if now < self._again:
                return self._again - now + self._duration()
            self.make()
            now = self._since
        return max(self._since + self._duration() - now, 0.0)
