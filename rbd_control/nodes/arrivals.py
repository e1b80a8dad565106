"""What waits in the queue of a subscription, and what was overwritten in it."""

from __future__ import annotations

from typing import Any

from rclpy.subscription import Subscription

MOST_AT_ONCE = 10_000
"""Maximum number of messages taken from the queue in one call."""

_MOST_PUBLISHERS = 16


class Arrivals:
    """Takes the messages that wait in the queue of a subscription, with their sequence numbers.

    The middleware does not count messages that newer ones overwrite in a full queue. Each message
    carries the sequence number of its publisher, but the events executor of rclpy 9.1 cannot hand
    it to a callback (``SystemError``), so that of the message the callback gets is unknown. The
    messages behind it are taken here, with theirs. As only a full queue overwrites, and a full one
    holds at least two messages, every overwritten message lies between two known numbers; all that
    came without one in between are counted.

    With several publishers on the topic a message without number may come from any of them, and
    the estimate is too low by those of the others.

    Attributes:
        missed: number of messages that were published to this subscription and never taken.
    """

    def __init__(self, subscription: Subscription) -> None:
        self._handle = subscription.handle
        self._type = subscription.msg_type
        self.missed = 0
        self._taken = 0
        self._known: dict[bytes, tuple[int, int]] = {}

    def take(self, first: bytes | None, most: int = MOST_AT_ONCE) -> list[bytes]:
        """Return ``first``, the message of the callback, if any, and those that wait behind it.

        They are at most ``most`` in all.
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
