"""Exclusive access to an arm: no other node may send torque to it.

A controller sees another one by its publisher on the torque topic, which exists only while that
controller is active or about to be. The rules are those of listen before talk:

1. A controller looks for other publishers for ``discovery_time`` before it creates its own. Of two
   Fast DDS participants that start within some seconds of each other, one may wait up to 3 s for
   the periodic announcement of the other.
2. It looks again when its publisher exists, before the first torque. Controllers that see each
   other there give way, and try again after a random time.
3. An active controller looks every 0.1 s. Another publisher is a fault, so that of two controllers
   that send torque in spite of the first two rules both send safe torque within 0.1 s.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from rbd_control.ros.guarded_node import GuardedNode
from rbd_control.ros.managed_node import NotReadyError

POLL = 0.01
"""Polling period of an activation that waits for discovery [s]."""

LONGEST_STEP = 0.1
"""Longest time that one look adds to the observed time [s]; look at least this often."""

LONGEST_GAP = 0.5
"""Time between two looks after which the observed time is reset to zero [s].

A process that was paused has received nothing meanwhile, and other nodes could not discover it. The
default ``discovery_time`` exceeds the 3 s of discovery by this time.
"""

BACK_OFF = 1.0
"""Longest random wait after another controller has created its publisher at the same time [s]."""


class ExclusiveAccess:
    """Finds other publishers of torque before the activation and while the node is active.

    Only observed time counts as ``discovery_time``. Each look adds the time since the previous one,
    at most :data:`LONGEST_STEP`, so that a process that gets little processor time waits longer.
    After more than :data:`LONGEST_GAP` the observed time is reset to zero: the first look after a
    pause may show the state of ROS discovery from before the pause.

    Args:
        node: the node.
        topic: name of the torque topic.
        discovery_time: returns the time to look for other controllers [s].
        is_sending: returns whether this node is one of the publishers of the topic.
        refuse_when_stopping: raises a :class:`NotReadyError` if a signal has asked the node to end.
        clock: steady clock [s].

    Attributes:
        topic: resolved name of the torque topic.
    """

    def __init__(
        self,
        node: GuardedNode,
        topic: str,
        discovery_time: Callable[[], float],
        is_sending: Callable[[], bool],
        refuse_when_stopping: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node, self._is_sending, self._clock = node, is_sending, clock
        self._discovery_time, self._refuse_when_stopping = discovery_time, refuse_when_stopping
        self.topic = node.resolve_topic_name(topic)
        self._observed, self._last = 0.0, clock()

    def others(self) -> int:
        """Return the number of publishers of torque without the node's own, and count the time.

        Call it at least every :data:`LONGEST_STEP`.
        """
        others = int(self._node.count_publishers(self.topic)) - self._is_sending()
        # Read after the look, so that a pause during the look counts as a gap.
        now = self._clock()
        gap, self._last = now - self._last, now
        self._observed = 0.0 if gap > LONGEST_GAP else self._observed + min(gap, LONGEST_STEP)
        return others

    def time_left(self) -> float:
        """Return the time for which the node must still look for other controllers [s]."""
        return max(self._discovery_time() - self._observed, 0.0)

    def conflict(self) -> str:
        """Return a message about other publishers of torque; an empty text if there are none."""
        others = self.others()
        if others <= 0:
            return ""
        who = "another publisher" if others == 1 else f"{others} other publishers"
        return f"{who} of torque on {self.topic}"

    def missing(self, *, is_starting: bool) -> str:
        """Return the condition that the activation waits for, as text; empty if it is met.

        Args:
            is_starting: whether the node starts automatically, and must therefore have looked for
                ``discovery_time``. An activation by a service call waits in :meth:`wait` instead.
        """
        others = self.others()
        if others > 0:
            return f"other publishers of torque on {self.topic} ({others}) to end"
        left = self.time_left() if is_starting else 0.0
        return f"{left:.1f} s without another controller of {self.topic}" if left else ""

    def wait(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Block until the node has looked for other publishers for ``discovery_time``.

        With ``autostart`` it has; an activation by a service call may have to wait.

        Args:
            meanwhile: called every :data:`POLL` during the wait, and once after it.

        Raises:
            NotReadyError: if there is another publisher of torque, if a signal ends the node, or if
                the wait takes longer than three times ``discovery_time`` plus 1 s.
        """
        deadline = self._clock() + 3.0 * self._discovery_time() + 1.0
        while self.others() <= 0 and self.time_left() > 0.0:
            self._refuse_when_stopping()
            meanwhile()
            if self._clock() > deadline:
                raise NotReadyError(
                    f"waiting for {self.time_left():.1f} s without another controller of "
                    f"{self.topic} and without a pause of this process; activate again"
                )
            time.sleep(POLL)
        meanwhile()
        if self.others() > 0:
            raise NotReadyError(f"waiting for other publishers of torque on {self.topic} to end")

    def require_alone(self) -> None:
        """Refuse the first torque if another controller has appeared since :meth:`wait`.

        Call it when the publisher of this node exists and ``is_sending`` still returns False.

        Raises:
            NotReadyError: if another publisher exists beside that of this node, or if the process
                was paused after :meth:`wait`.
        """
        if self.others() > 1:
            # Otherwise two controllers that collide would collide again.
            self._observed = self._discovery_time() - random.uniform(0.0, BACK_OFF)
            raise NotReadyError(f"waiting for other publishers of torque on {self.topic} to end")
        if self.time_left() > 0.0:
            raise NotReadyError(
                f"waiting for {self.time_left():.1f} s without another controller of "
                f"{self.topic}, because this process was paused"
            )
