"""Reading of all messages in the queue of a subscription, and an estimate of lost messages."""

from __future__ import annotations

from typing import Any

from rclpy.subscription import Subscription

MOST_AT_ONCE = 10_000
"""Default maximum number of messages that one call of :meth:`Arrivals.take` returns."""

_MOST_PUBLISHERS = 16


class Arrivals:
    """Takes the messages that wait in the queue of a subscription, with their sequence numbers.

    The middleware does not count messages that newer messages overwrite in a full queue. Each
    message carries the sequence number of its publisher, but the events executor of rclpy 9.1
    cannot pass this number to a callback (``SystemError``). The sequence number of the message that
    the callback receives is therefore unknown. This class takes the messages that follow it in the
    queue together with their numbers. Messages are overwritten only in a full queue, which holds at
    least two messages and therefore at least one with a number. An overwritten message thus lies
    between two known numbers, unless it comes before the first one. The gap between two known
    numbers, less the messages taken meanwhile, is the number of losses.

    With several publishers on the topic, the messages of the other publishers are subtracted as
    well, and the estimate is too low.

    Args:
        subscription: a subscription with ``raw=True`` and a queue depth of at least 2, whose
            callback calls :meth:`take`.

    Attributes:
        missed: estimated number of messages that were published to this subscription and never
            taken, because they were overwritten in the queue or lost in transport.
    """

    def __init__(self, subscription: Subscription) -> None:
        self._handle = subscription.handle
        self._type = subscription.msg_type
        self.missed = 0
        self._taken = 0
        self._known: dict[bytes, tuple[int, int]] = {}

    def take(self, first: bytes | None, most: int = MOST_AT_ONCE) -> list[bytes]:
        """Take the waiting messages from the queue, update ``missed``, and return the messages.

        Messages beyond the maximum ``most`` stay in the queue.

        Args:
            first: serialized message that the callback has received, which is no longer in the
                queue; None if the method is not called by the callback.
            most: maximum number of messages, ``first`` included.

        Returns:
            The serialized messages, ``first`` included, oldest first.
        """
        found = [] if first is None else [first]
        self._taken += len(found)
        with self._handle:
            while len(found) < most:
                message = self._handle.take_message(self._type, True)
                if message is None:
                    break
                self._taken += 1
                found.append(message[0])
                self._count(message[1])
        return found

    def _count(self, info: dict[str, Any]) -> None:
        number = info.get("publication_sequence_number")
        if number is None:
            return
        publisher = bytes((info.get("publisher_gid") or {}).get("data", b""))
        known = self._known.get(publisher)
        if known is not None:
            self.missed += max(number - known[0] - (self._taken - known[1]), 0)
        elif len(self._known) >= _MOST_PUBLISHERS:
            self._known.clear()
        self._known[publisher] = (number, self._taken)


def read_waiting(subscription: Subscription) -> None:
    """Pass the messages that wait in the queue of a subscription to its callback, oldest first.

    Call it in a callback that takes long, during which the executor reads nothing.

    Args:
        subscription: a subscription with ``raw=True``.
    """
    for message in Arrivals(subscription).take(None):
        subscription.callback(message)
