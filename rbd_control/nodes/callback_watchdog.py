"""A watchdog thread that acts when the callback thread hangs or is late."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread

from rbd_control.nodes.priority import join_priority

SHORTEST_PERIOD = 0.002
"""Shortest period of the watchdog [s]."""

LOOKS = 5
"""Number of watchdog periods within the timeout."""


class CallbackWatchdog:
    """Calls ``act`` periodically while :meth:`beat` has not been called for ``timeout``.

    The controller then sends zero torque, and the contact guard stops the arm.

    It covers an endless loop in Python, a system call of Python that blocks, and compiled kernels,
    which all allow other threads to run. It does not cover code that holds Python's global
    interpreter lock for ever, a call of ``publish`` that blocks, or a stopped process; there the
    timeout of the receiver of torque must act. A log line holds that lock as long as it is written,
    see :func:`~rbd_control.startup.standard_streams.never_wait_for_readers`. After a stop of the
    process either thread may run first, so the controller's callback thread also checks
    :meth:`take_late` and :attr:`deadline`, and the guard acts only at the fifth call.

    Args:
        timeout: returns the longest time between two calls of :meth:`beat` [s].
        act: called by the watchdog thread; must not raise.
        clock: returns the time of a steady clock [s].
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

    @property
    def deadline(self) -> float:
        """Time after which a torque that is computed since :meth:`beat` is too old [s]."""
        return self._beaten + self._timeout()

    @property
    def age(self) -> float:
        """Time since the last :meth:`beat` [s]."""
        return self._clock() - self._beaten

    def start(self) -> None:
        """Start the watchdog thread; the time until the first :meth:`beat` counts from now."""
        self._stop.clear()
        self.beat()
        self._late = 0.0
        thread = Thread(target=self._run, name="callback watchdog", daemon=True)
        thread.start()
        self._thread = thread

    def stop(self) -> None:
        """End the watchdog thread; wait for its end for at most 1 s."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1.0)
            self._thread = None

    def beat(self) -> None:
        """Reset the watchdog; the callback thread calls this method."""
        self._beaten = self._clock()

    def take_late(self) -> float:
        """Return the longest time without a :meth:`beat` since the last call of this method [s].

        It is the time when ``act`` was last called, or the time since the last :meth:`beat` if
        that exceeds the timeout and the watchdog thread has not run yet; otherwise zero.
        """
        late, self._late = self._late, 0.0
        present = self.age
        return present if present > self._timeout() else late

    def _run(self) -> None:
        join_priority()
        while not self._stop.wait(max(self._timeout() / LOOKS, SHORTEST_PERIOD)):
            late = self.age
            if late > self._timeout():
                self._late = late
                self._act()
