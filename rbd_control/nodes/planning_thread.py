"""A thread that reads and plans trajectories outside the control loop."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Thread
from typing import Generic, TypeVar

from rbd_control.errors import TrajectoryError
from rbd_control.nodes.guard import describe

Order = TypeVar("Order")
Plan = TypeVar("Plan")

MOST_WAITING = 10
"""Maximum number of trajectories that wait for planning; above it the oldest is superseded."""


class PlanningThread(Generic[Order, Plan]):
    """Plans trajectories in the background.

    The newest trajectory is planned first. If it is valid, it supersedes the waiting older
    trajectories; if not, it is refused and the next older trajectory is planned. The result is the
    same as planning in order. When the arm is stopped, :meth:`discard` drops the trajectories that
    were sent before the stop: those that wait, are being planned, or are not taken yet.

    ``Order`` is the type of a trajectory to plan, and ``Plan`` the type of the result.

    Args:
        plan: plans a trajectory, or refuses it with a :class:`TrajectoryError`. Called by the
            thread; any other exception also counts as a refusal.
        refuse: called by the thread with a trajectory that is refused, and the reason.
        supersede: called, by any thread, with a trajectory that is never followed because a newer
            trajectory replaces it.
        is_wanted: called by the thread; returns whether a trajectory is still to be followed. A
            trajectory that was cancelled is dropped and supersedes no other.
    """

    def __init__(
        self,
        plan: Callable[[Order], Plan],
        refuse: Callable[[Order, TrajectoryError], None],
        supersede: Callable[[Order], None] = lambda _order: None,
        is_wanted: Callable[[Order], bool] = lambda _order: True,
    ) -> None:
        self._plan, self._refuse, self._supersede = plan, refuse, supersede
        self._is_wanted = is_wanted
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
        """Plan this trajectory before all waiting trajectories; return at once.

        If more than :data:`MOST_WAITING` trajectories wait, the oldest is superseded.
        """
        with self._changed:
            self._submitted += 1
            self._waiting.append((self._submitted, order))
            if len(self._waiting) > MOST_WAITING:
                self._supersede(self._waiting.popleft()[1])
            self._changed.notify()

    def submit_again(self, order: Order) -> None:
        """Plan the trajectory of the last :meth:`take` again, for example because it was too late.

        If a newer trajectory was planned meanwhile, this trajectory is superseded instead.
        """
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
        """Discard and return the trajectories that wait, are being planned or are not taken yet."""
        with self._changed:
            found = [order for _, order in self._waiting]
            if self._planned is not None:
                found.append(self._planned[1])
            if self._current is not None:
                found.append(self._current)
                self._current = None
            self._waiting.clear()
            self._planned = None
            self._era += 1
            return found

    def end(self) -> None:
        """Discard all trajectories and end the thread; wait for it for at most 1 s."""
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
                if not self._is_wanted(order):
                    continue
                self._current = order
            planned: Plan | TrajectoryError
            try:
                planned = self._plan(order)
            except TrajectoryError as error:
                planned = error
            except Exception as error:  # from numbers that passed all checks of the input
                planned = TrajectoryError(f"planning failed: {describe(error)}")
            with self._changed:
                self._current = None
                # discard() has returned this trajectory, or it was cancelled meanwhile.
                if era != self._era or not self._is_wanted(order):
                    continue
                if not isinstance(planned, TrajectoryError):
                    self._keep(number, order, planned)
                    continue
            try:
                self._refuse(order, planned)
            except Exception:
                # The thread must not end: no later trajectory would be planned, without a message.
                with suppress(OSError):  # the output is not read
                    traceback.print_exc()

    def _keep(self, number: int, order: Order, planned: Plan) -> None:
        """Store a finished plan unless a newer plan exists; supersede the older trajectories."""
        if number < self._newest:
            self._supersede(order)
            return
        self._newest = number
        if self._planned is not None:
            self._supersede(self._planned[1])
        self._planned = (number, order, planned)
        while self._waiting and self._waiting[0][0] < number:
            self._supersede(self._waiting.popleft()[1])
