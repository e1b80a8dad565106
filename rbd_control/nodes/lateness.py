"""Joint states that waited in the queue while the node was paused or busy."""

from __future__ import annotations

from math import inf, isinf

PAUSE = 0.1
"""Time without a callback that counts as a pause of the node [s].

A joint state is late if its age exceeds the normal age by more than this time.
"""

RECOVERY = 0.5
"""Time after a pause, or after a turn in which many joint states waited [s].

Joint states may be late in this time. After a pause the middleware paused as well: it takes
messages from the sockets only then, so that an empty queue does not prove that the next message is
new.
"""

LONG_TURN = 0.05
"""Time between the oldest and the newest joint state of a turn above which the node is busy [s]."""

WINDOW = 1.0
"""Period of the minimum that gives the normal age [s]."""


class Lateness:
    """Recognizes joint states that waited while the node was paused or busy.

    A process is paused by SIGSTOP, by a debugger, or without processor time. Afterwards it finds
    joint states of that time in its queue, which do not show the present state. A node that needs
    more time for a joint state than passes between two of them falls behind: many joint states wait
    when it takes them from its queue, in one *turn*. In both cases the age of a joint state follows
    from its stamp. The clock of the sender may differ from the clock of the node, so that the age
    is compared with the normal age: the smallest age of the newest joint state of a turn in the
    last one to two seconds. Turns after a pause, and turns that may not have emptied the queue, do
    not count.

    At any other time no joint state is late, because its age may change for other reasons: a clock
    was set, or a recording is played slowly. Without a usable stamp, all joint states count as late
    for :data:`RECOVERY` after a pause, and none because the node is busy.
    """

    def __init__(self) -> None:
        self._ran = self._smallest = self._earlier = inf
        self._paused_until = self._busy_until = self._window = -inf

    def beat(self, now: float) -> None:
        """Note that the node runs; call it in every callback, and at least every 0.05 s.

        Args:
            now: time on the steady clock [s].
        """
        if now - self._ran > PAUSE:
            self._paused_until = now + RECOVERY
        self._ran = now

    def begin_turn(self, now: float, span: float, *, is_full: bool) -> None:
        """Note that the node has taken joint states from its queue.

        Args:
            now: time on the steady clock [s].
            span: time from the stamp of the oldest to that of the newest [s]; 0 if it is unknown.
            is_full: whether the queue may hold more of them.
        """
        self.beat(now)
        if is_full and now < self._paused_until:
            self._paused_until = now + RECOVERY
        if is_full or span > LONG_TURN:
            self._busy_until = now + RECOVERY

    def end_turn(self, now: float, newest: float) -> None:
        """Note the age of the newest joint state of a turn that has emptied the queue.

        Args:
            now: time at which the turn began, on the steady clock [s].
            newest: age of the joint state at that time [s].
        """
        if now < self._paused_until:
            return
        if now - self._window > WINDOW:
            self._earlier, self._smallest, self._window = self._smallest, inf, now
        self._smallest = min(self._smallest, newest)

    def is_late(self, age: float | None, now: float) -> bool:
        """Return whether a joint state waited while the node was paused or busy.

        A joint state is late only within :data:`RECOVERY` after a pause, after a turn that was full
        or longer than :data:`LONG_TURN`, or after a late joint state, and then if its age exceeds
        the normal age by more than :data:`PAUSE`. After a pause it is also late if either age is
        unknown.

        Args:
            age: time since its stamp, by the clock of the node [s]; None if it has no usable stamp.
            now: time at which it is read, on the steady clock [s].
        """
        self.beat(now)  # the node may also be paused between two joint states of one turn
        is_paused = now < self._paused_until
        normal = min(self._smallest, self._earlier)
        if age is None or isinf(normal):
            return is_paused
        if not (is_paused or now < self._busy_until) or age - normal <= PAUSE:
            return False
        self._busy_until = now + RECOVERY
        return True
