"""A second thread that sends zero torque when the thread of the callbacks hangs."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread

from rbd_control.nodes.priority import join_priority

SHORTEST_PERIOD = 0.002
"""Shortest time between two looks of the watchdog [s]."""

LOOKS = 5
"""Number of looks within the timeout."""


class TorqueWatchdog:
    """Calls ``act`` over and over while :meth:`beat` has not been called for ``timeout``.

    It covers an endless loop in Python, a blocked system call (a log line to a pipe that nobody
    reads) and compiled kernels, which all let other threads run. It does not cover code that holds
    Python's global lock without end, nor a process that is stopped; there the receiver's own
    timeout must act.

    Args:
        timeout: tells the longest time between two beats [s].
        act: sends zero torque; called by the thread of the watchdog.
        clock: steady clock [s].
    """

    def __init__(
        self,
        timeout: Callable[[], float],
        act: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout, self._act, self._clock = timeout, act, clock
        self._late = 0.0
        self._beaten = clock()
        self._stop = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        self._stop.clear()
        self.beat()
        self._late = 0.0
        self._thread = Thread(target=self._run, name="torque watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1.0)
            self._thread = None

    def beat(self) -> None:
        """Tell that the thread of the callbacks is alive."""
        self._beaten = self._clock()

    def take_late(self) -> float:
        """Return for how long the callbacks were late when zero was sent [s], and forget it.

        It is zero when that has not happened since the last call.
        """
        late, self._late = self._late, 0.0
        return late

    def _run(self) -> None:
        join_priority()
        while not self._stop.wait(max(self._timeout() / LOOKS, SHORTEST_PERIOD)):
            late = self._clock() - self._beaten
            if late > self._timeout():
                self._late = late
                self._act()
