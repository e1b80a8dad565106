"""Mutual exclusion of controllers that start at the same time on one arm."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from rclpy.node import Node
from rclpy.publisher import Publisher
from std_msgs.msg import Empty

LONGEST_STEP = 0.1
"""Longest time that one call of :meth:`Claim.look` adds to the observed time [s].

Call the method at least this often. The observed time is the time that counts towards the
``duration`` of a :class:`Claim`: the time without another claim, and up to :data:`SHOWN` beside
one.
"""

SHOWN = 2.0 * LONGEST_STEP
"""Shortest life of a claim that :meth:`Claim.look` withdraws [s], so that others see it."""

PATIENCE = 3.0
"""Longest time without an own claim because of another claim, in multiples of ``duration``.

A controller that starts holds its claim for about one ``duration``. A claim that lasts longer
belongs to a controller that does not start; it withdraws its claim when it sees another claim.
"""

LONGEST_GAP = 0.5
"""Time between two calls of :meth:`Claim.look` after which the observed time is reset to zero [s].

A process that was paused has received nothing meanwhile, and other nodes could not discover it. The
default ``discovery_time`` exceeds the 3 s of discovery by this time.
"""


class Claim:
    """A publisher on ``<commands>/claim`` that announces a controller that wants to start.

    ROS needs up to 3 s to discover another node: of two Fast DDS participants that start within
    some seconds of each other, one often waits for the periodic announcement of the other. A
    controller that starts without waiting may not have discovered another controller that already
    sends torque, and two controllers that start together both find a free arm. Each controller
    therefore creates this publisher, which never publishes a message, and starts only after its
    claim has been the only claim for ``duration``. Two controllers that discover each other both
    withdraw their claims and try again after a random time (as in CSMA with random back-off).

    Only observed time counts. Each call of :meth:`look` adds the time since the previous call, at
    most :data:`LONGEST_STEP`, so that a process that gets little processor time waits longer. After
    more than :data:`LONGEST_GAP` without a call the observed time is reset to zero: the first call
    after a pause may show the state of ROS discovery from before the pause.

    Args:
        node: the node.
        topic: name of the topic of the claims, ``<commands>/claim``.
        duration: returns the observed time for which the claim must be the only claim [s].
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
        self._looked = 0.0
        self._last = self._again = self._made = self._free = clock()

    def make(self) -> None:
        """Create the publisher of the claim, and reset the observed time.

        The method has no effect while the publisher exists.
        """
        if self._publisher is None:
            self._publisher = self._node.create_publisher(Empty, self.topic, 1)
            self._looked, self._last = 0.0, self._clock()
            self._made = self._last

    def withdraw(self) -> None:
        """Destroy the publisher of the claim, if it exists."""
        if self._publisher is not None:
            self._node.destroy_publisher(self._publisher)
            self._publisher = None

    def look(self) -> bool:
        """Look for another claim, to which the own claim gives way, and count the observed time.

        If there is another claim, the own claim is withdrawn once it has existed for
        :data:`SHOWN`. It stays withdrawn for a random time between zero and twice ``duration``,
        after which :meth:`time_left` renews it. Call this method at least every
        :data:`LONGEST_STEP`.

        Returns:
            Whether another claim exists.
        """
        others = int(self._node.count_publishers(self.topic)) - (self._publisher is not None)
        # Read after the look, so that a pause during the look counts as a gap.
        now = self._clock()
        gap, self._last = now - self._last, now
        self._looked = 0.0 if gap > LONGEST_GAP else self._looked + min(gap, LONGEST_STEP)
        # Long enough for other controllers, which look at least once in this time, to see it.
        is_seen = now - self._made >= SHOWN
        if others > 0 and is_seen and self._publisher is not None:
            self.withdraw()
            self._again = now + random.uniform(0.0, 2.0 * self._duration())
        return others > 0

    def time_left(self) -> float:
        """Call :meth:`look`, and return the time until the controller may start [s]; 0 if it may.

        The method renews a withdrawn claim when the random back-off time is over and there is no
        other claim, or when other claims have existed for ``duration`` times :data:`PATIENCE`.

        Returns:
            ``duration`` less the observed time; during the back-off its remainder plus
            ``duration``; while another claim exists ``duration``, although the wait may be longer.
        """
        duration, there_are_others = self._duration(), self.look()
        now = self._clock()
        if not there_are_others:
            self._free = now
        if self._publisher is None:
            if there_are_others and now - self._free < PATIENCE * duration:
                return duration
            if not there_are_others and self._again > now:
                return self._again - now + duration
            # Claim the arm even beside a claim that lasts: a controller that does not start
            # withdraws its claim when it sees this one.
            self.make()
            self._free = now
        return duration if there_are_others else max(duration - self._looked, 0.0)
