"""A thread that reads and plans trajectories outside the control loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Condition, Thread
from typing import Generic, TypeVar

from rbd_control.errors import TrajectoryError
from rbd_control.nodes.guard import describe

Order = TypeVar("Order")
Plan = TypeVar("Plan")

MOST_WAITING = 10
"""Maximum number of trajectories that wait for planning; the oldest is discarded."""


class PlanningThread(Generic[Order, Plan]):
    """Plans trajectories in the background.

    The newest trajectory is planned first. If it is valid, it supersedes the waiting older
    trajectories; if not, it is refused and the next older trajectory is planned. The result is the
    same as planning in order. :meth:`discard` drops the waiting trajectories and the trajectory
    being planned, because they were sent before the stop.

    Args:
        plan: plans a trajectory; raises a :class:`TrajectoryError`. Called by the thread.
        refuse: called by the thread with a trajectory that is refused, and the reason.
        supersede: called, by any thread, with a trajectory that is never followed because a newer
            one is.
    """

    def __init__(
        self,
        plan: Callable[[Order], Plan],
        refuse: Callable[[Order, TrajectoryError], None],
        supersede: Callable[[Order], None] = lambda _order: None,
    ) -> None:
        self._plan, self._refuse, self._supersede = plan, refuse, supersede
        self._changed = Condition()
        self._waiting: deque[tuple[int, Order]] = deque()
        self._submitted = self._era = 0
        self._taken = self._newest = 0
        """Numbers of the last plan that was taken, and of the newest that was finished."""
        self._planned: tuple[int, Order, Plan] | None = None
        self._current: Order | None = None
        self._is_ending = False
        self._thread = Thread(target=self._run, name="planning", daemon=True)
        self._thread.start()

    def submit(self, order: Order) -> None:
        """Plan this trajectory next."""
        with self._changed:
            self._submitted += 1
            self._waiting.append((self._submitted, order))
            if len(self._waiting) > MOST_WAITING:
                self._supersede(self._waiting.popleft()[1])
            self._changed.notify()

    def submit_again(self, order: Order) -> None:
        """Plan the trajectory of the last :meth:`take` again, unless a newer one supersedes it."""
        with self._changed:
            if self._newest > self._taken:
                self._supersede(order)
                return
            self._waiting.appendleft((self._taken, order))
            self._changed.notify()

    def take(self) -> Plan | None:
        """Take the newest finished plan, or None if no plan was finished since the last call."""
        if self._planned is None:  # nearly always, and without the lock
            return None
        with self._changed:
            planned, self._planned = self._planned, None
            if planned is not None:  # it is None if it was discarded meanwhile
                self._taken = planned[0]
            return None if planned is None else planned[2]

    def discard(self) -> list[Order]:
        """Discard the trajectories that are waiting, being planned or planned; return them."""
        with self._changed:
            found = [order for _, order in self._waiting]
            if self._planned is not None:
                found.append(self._planned[1])
            if self._current is not None:
                found.append(self._current)
            self._waiting.clear()
            self._planned = None
            self._era += 1
            return found

    def end(self) -> None:
        """Discard everything and end the thread."""
        self.discard()
        with self._changed:
            self._is_ending = True
            self._changed.notify()
        self._thread.join(1.0)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._current = None
                self._changed.wait_for(lambda: self._waiting or self._is_ending)
                if self._is_ending:
                    return
                (number, order), era = self._waiting.pop(), self._era
                self._current = order
            try:
                planned = self._plan(order)
            except TrajectoryError as error:
                self._refuse(order, error)
                continue
            except Exception as error:  # from numbers that passed all checks of the input
                self._refuse(order, TrajectoryError(f"planning failed: {describe(error)}"))
                continue
            with self._changed:
                self._current = None
                if era != self._era:
                    continue
                if number < self._newest:
                    self._supersede(order)
                    continue
                self._newest = number
                if self._planned is not None:
                    self._supersede(self._planned[1])
                self._planned = (number, order, planned)
                while self._waiting and self._waiting[0][0] < number:
                    self._supersede(self._waiting.popleft()[1])
