"""Mutual exclusion of controllers that start at the same time on one arm."""

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
    controller that starts without waiting may not have discovered another controller that already
    sends torque, and two controllers that start together both find a free arm. Each controller
    therefore creates this publisher, which never publishes a message, and starts only after its
    claim has been the only claim for ``duration``. Two controllers that discover each other both
    withdraw their claims and try again after a random time (as in CSMA with random back-off).

    Args:
        node: the node.
        topic: name of the topic of the claims.
        duration: returns the time for which the claim must have been the only one [s].
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
        """Withdraw the claim."""
        if self._publisher is not None:
            self._node.destroy_publisher(self._publisher)
            self._publisher = None

    def give_way(self) -> bool:
        """Withdraw for a random time if another claim exists; return whether it exists."""
        others = int(self._node.count_publishers(self.topic)) - (self._publisher is not None)
        if others > 0 and self._publisher is not None:
            self.withdraw()
            self._again = self._clock() + random.uniform(0.0, 2.0 * self._duration())
        return others > 0

    def time_left(self) -> float:
        """Return the remaining time until the arm is claimed [s]; 0 if it is claimed.

        The method renews a withdrawn claim when the random back-off time is over.
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
