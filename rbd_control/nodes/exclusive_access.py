"""Exclusive access to an arm: no other node may send torque to it."""

from __future__ import annotations

import time
from collections.abc import Callable

from rbd_control.nodes.autostart import NotReadyError
from rbd_control.nodes.claim import Claim
from rbd_control.nodes.guarded_node import GuardedNode

POLL = 0.01
"""Polling period of an activation that waits for discovery [s]."""


class ExclusiveAccess:
    """Claims an arm before the activation, and finds other publishers of torque.

    A claim is a publisher on ``<topic>/claim``, see :class:`Claim`. The constructor creates it.

    Args:
        node: the node.
        topic: name of the torque topic.
        discovery_time: returns the time for which the claim must have been the only one [s].
        is_sending: returns whether this node is one of the publishers of the topic.
        refuse_when_stopping: raises a :class:`NotReadyError` if a signal has asked the node to end.

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
    ) -> None:
        self._node, self._is_sending = node, is_sending
        self._discovery_time, self._refuse_when_stopping = discovery_time, refuse_when_stopping
        self.topic = node.resolve_topic_name(topic)
        self._claim = Claim(node, f"{self.topic}/claim", discovery_time)
        self._claim.make()

    def others(self) -> int:
        """Return the number of publishers on the torque topic, without the node's own."""
        return int(self._node.count_publishers(self.topic)) - self._is_sending()

    def conflict(self) -> str:
        """Return a message about other publishers of torque.

        The message is an empty text if there are none.
        """
        others = self.others()
        if others <= 0:
            return ""
        who = "another publisher" if others == 1 else f"{others} other publishers"
        return f"{who} of torque on {self.topic}"

    def missing(self, *, is_starting: bool) -> str:
        """Return the condition that the activation waits for, as text; empty if it is met.

        Args:
            is_starting: whether the node starts automatically, and must therefore wait until the
                claim has been the only claim for ``discovery_time``. An activation by a service
                call waits in :meth:`wait` instead.
        """
        others = self.others()
        if others:
            return f"other publishers of torque on {self.topic} ({others}) to end"
        left = self._claim.time_left() if is_starting else 0.0
        return f"{left:.1f} s without another controller of {self.topic}" if left else ""

    def look(self) -> None:
        """Look for other claims, to which the own claim gives way, see :meth:`Claim.look`.

        Call it at least every 0.1 s while the node is not active.
        """
        self._claim.look()

    def wait(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Block until the claim has been the only claim for ``discovery_time``.

        With ``autostart`` this holds already; an activation by a service call may have to wait.

        Args:
            meanwhile: called every :data:`POLL` during the wait, and once after it.

        Raises:
            NotReadyError: if there is another publisher of torque, if a signal ends the node, or if
                the wait takes longer than three times ``discovery_time`` plus 1 s.
        """
        deadline = time.monotonic() + 3.0 * self._discovery_time() + 1.0
        while self._claim.time_left() > 0.0:
            self._refuse_when_stopping()
            meanwhile()
            if self.others():
                break
            if time.monotonic() > deadline:
                raise NotReadyError(
                    f"waiting for {self._claim.time_left():.1f} s without another controller of "
                    f"{self.topic} and without a pause of this process; activate again"
                )
            time.sleep(POLL)
        meanwhile()
        if self.others():
            raise NotReadyError(f"waiting for other publishers of torque on {self.topic} to end")

    def refuse_after_pause(self) -> None:
        """Refuse the activation if another controller may have started since the last look.

        Call it when the publisher of this node exists and ``is_sending`` still returns False.

        Raises:
            NotReadyError: if the process was paused after :meth:`wait`, another claim exists, or
                another publisher of torque exists beside the new publisher of this node.
        """
        left = self._claim.time_left()
        if left > 0.0:
            raise NotReadyError(
                f"waiting for {left:.1f} s without another controller of {self.topic}, because "
                "this process was paused or another controller has started"
            )
        if self.others() > 1:
            raise NotReadyError(f"waiting for other publishers of torque on {self.topic} to end")

    def withdraw_claim(self) -> None:
        """Withdraw the claim, because the publisher of torque takes its place."""
        self._claim.withdraw()
