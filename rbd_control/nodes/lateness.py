"""Joint states that waited in the queue while the node was paused or busy."""

from __future__ import annotations

from math import inf, isnan, nan

PAUSE = 0.1
"""Time without a callback that counts as a pause of the node [s].

A joint state is late if it has waited for more than this time.
"""

RECOVERY = 0.5
"""Time after a pause in which the middleware may still deliver joint states of the pause [s].

The middleware paused as well, and takes messages from the sockets only afterwards, so that an empty
queue does not prove that the next message is new.
"""


class Lateness:
    """Recognizes joint states that waited while the node was paused or busy.

    A process is paused by SIGSTOP, by a debugger, or without processor time. Afterwards it finds
    joint states of that time in its queue, which do not show the present state. A node that needs
    more time for a joint state than passes between two of them falls behind, and its queue fills.

    The node takes joint states from its queue in *turns*, one or several in each turn. No joint
    state has waited in the queue for longer than the time since the queue was last empty. If that
    time is more than :data:`PAUSE`, and for :data:`RECOVERY` after a pause, the time that a joint
    state has waited is its age less the normal age. The age is the time since its stamp. The normal
    age is the age at which the newest joint state was taken in the last turn that emptied the
    queue, turns after a pause excepted. The clock of the sender may therefore differ from the clock
    of the node, and may run slower, as for a recording that is played slowly. A delay on the way
    does not count.

    Without a usable stamp, all joint states count as late for :data:`RECOVERY` after a pause; a
    node that is too busy is then not recognized.
    """

    def __init__(self) -> None:
        self._ran = inf
        self._paused_until = self._emptied = -inf
        self._normal = nan

    def beat(self, now: float) -> None:
        """Record that the node runs; call it in every callback, and at least every 0.05 s.

        More than :data:`PAUSE` since the last call counts as a pause of the node.

        Args:
            now: time on the steady clock [s].
        """
        if now - self._ran > PAUSE:
            self._paused_until = now + RECOVERY
        self._ran = now

    def begin_turn(self, now: float, *, is_full: bool) -> None:
        """Record the beginning of a turn: the node has just taken joint states from its queue.

        Args:
            now: time on the steady clock [s].
            is_full: whether the queue may hold further joint states. If it may, and the time
                :data:`RECOVERY` after a pause is not over, this time begins again.
        """
        self.beat(now)
        if is_full and now < self._paused_until:
            self._paused_until = now + RECOVERY

    def end_turn(self, begin: float, newest: float | None) -> None:
        """Record that a turn has emptied the queue; do not call it after any other turn.

        Args:
            begin: time at which the turn began, on the steady clock [s].
            newest: age of the newest joint state of this turn at ``begin`` [s]; None if it is
                unknown, or the turn had no usable joint state. It becomes the normal age, except
                for :data:`RECOVERY` after a pause.
        """
        self._emptied = begin
        if newest is not None and begin >= self._paused_until:
            self._normal = newest

    def is_late(self, age: float | None, now: float) -> bool:
        """Return whether a joint state has waited in the queue for more than :data:`PAUSE`.

        If its age or the normal age is unknown, it is late for :data:`RECOVERY` after a pause, and
        never otherwise. The call also counts as :meth:`beat`.

        Args:
            age: time since its stamp, by the clock of the node [s]; None if it has no usable stamp.
            now: time at which it is read, on the steady clock [s].
        """
        self.beat(now)  # the node may also be paused between two joint states of one turn
        is_paused = now < self._paused_until
        if age is None or isnan(self._normal):
            return is_paused
        if not is_paused and now - self._emptied <= PAUSE:
            return False
        return age - self._normal > PAUSE
