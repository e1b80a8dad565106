"""Trajectories are read and planned in a thread of their own, beside the control loop."""

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
"""Maximum number of trajectories that wait to be planned; the oldest is discarded."""


class PlanningThread(Generic[Order, Plan]):
    """Plans trajectories in the background.

    The newest trajectory is planned first. If it can be followed, those that came before it and
    still wait are superseded; if not, it is refused and the next older one is planned. So the
    outcome is that of planning them in order. :meth:`discard` drops all that wait and the one
    that is being planned: they were sent before the stop.

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
        """Plan this one next."""
        with self._changed:
            self._submitted += 1
            self._waiting.append((self._submitted, order))
            self._changed.notify()

    def take(self) -> Plan | None:
        """Return the newest finished plan, once; None when there is none."""
        if self._planned is None:  # nearly always, and without the lock
            return None
        with self._changed:
            planned, self._planned = self._planned, None
            return planned

    def discard(self) -> bool:
        """Drop all that is not taken yet; return whether there was anything."""
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
            except Exception as error:  # of numbers that no check has thought of
                self._refuse(f"planning failed: {describe(error)}")
                continue
            with self._changed:
                if era == self._era:
                    self._planned = planned
                    while self._waiting and self._waiting[0][0] < number:
                        self._waiting.popleft()
