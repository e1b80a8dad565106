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
        refuse: called by the thread with the reason why a trajectory is refused.
    """

    def __init__(self, plan: Callable[[Order], Plan], refuse: Callable[[str], None]) -> None:
        self._plan, self._refuse = plan, refuse
        self._changed = Condition()
        self._waiting: deque[tuple[int, Order]] = deque(maxlen=MOST_WAITING)
        self._submitted = self._era = 0
        self._planned: Plan | None = None
        self._is_planning = self._is_ending = False
        self._thread = Thread(target=self._run, name="planning", daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether a trajectory waits or is being planned."""
        return self._is_planning or bool(self._waiting)

    def submit(self, order: Order) -> None:
        """Plan this trajectory next."""
        with self._changed:
            self._submitted += 1
            self._waiting.append((self._submitted, order))
            self._changed.notify()

    def take(self) -> Plan | None:
        """Return the newest finished plan once; None without a new plan."""
        if self._planned is None:  # nearly always, and without the lock
            return None
        with self._changed:
            planned, self._planned = self._planned, None
            return planned

    def discard(self) -> bool:
        """Drop all trajectories and plans not taken yet; return whether there were any."""
        with self._changed:
            found = self.is_busy or self._planned is not None
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
                self._is_planning = False
                self._changed.wait_for(lambda: self._waiting or self._is_ending)
                if self._is_ending:
                    return
                (number, order), era = self._waiting.pop(), self._era
                self._is_planning = True
            try:
                planned = self._plan(order)
            except TrajectoryError as error:
                self._refuse(str(error))
                continue
            except Exception as error:  # for values that no check has anticipated
                self._refuse(f"planning failed: {describe(error)}")
                continue
            with self._changed:
                if era == self._era:
                    self._planned = planned
                    while self._waiting and self._waiting[0][0] < number:
                        self._waiting.popleft()
