"""Joint states that waited in the queue while the node did not run."""

from __future__ import annotations

import math

PAUSE = 0.1
"""Time without a callback that counts as a pause of the node [s].

A joint state is late if its age exceeds the normal age by more than this time.
"""

RECOVERY = 0.5
"""Time after a pause in which joint states may be late [s].

The middleware paused as well: it takes messages from the sockets only after the pause, so that an
empty queue does not prove that the next message is new.
"""


class Lateness:
    """Recognizes joint states that waited while the node was paused.

    A process is paused by SIGSTOP, by a debugger, or without processor time. Afterwards it finds
    joint states of the time of the pause in its queue, which do not show the present state. Their
    age follows from their stamp. The clock of the sender may differ from the clock of the node, so
    that the age is compared with the age of the last joint state before the pause. Without a usable
    stamp, all joint states count as late for :data:`RECOVERY` after a pause.
    """

    def __init__(self) -> None:
        self._ran = math.inf
        self._until = -math.inf
        self._normal = math.nan

    def beat(self, now: float, *, has_more: bool = False) -> None:
        """Note that the node runs; call it in every callback, and at least every 0.05 s.

        Args:
            now: time on the steady clock [s].
            has_more: whether joint states were left in the queue.
        """
        if now - self._ran > PAUSE or (has_more and now < self._until):
            self._until = now + RECOVERY
        self._ran = now

    def is_late(self, age: float | None, now: float) -> bool:
        """Return whether a joint state waited during a pause.

        A joint state is late only within :data:`RECOVERY` after a pause, and then if its age
        exceeds the normal age by more than :data:`PAUSE`, or if either age is unknown. At any other
        time the method stores the age, if it is known, as the normal age.

        Args:
            age: time since its stamp, by the clock of the node [s]; None if it has no usable stamp.
            now: time on the steady clock [s].
        """
        if now >= self._until:
            if age is not None:
                self._normal = age
            return False
        # Also late if the normal age is unknown (NaN).
        return age is None or not age - self._normal <= PAUSE
