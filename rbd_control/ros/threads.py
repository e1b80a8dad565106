"""Threads of a node: real-time priority, garbage collection, and the watchdog of the callbacks."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, RLock, Thread

_has_frozen = False
"""Whether :func:`freeze_garbage` has been called in this process."""


def freeze_garbage() -> None:
    """Collect all garbage, and exclude the objects that remain from later collections.

    Each pass of the collector over them would delay samples by tens of milliseconds. Objects that
    an earlier call excluded are included in this collection: those of an earlier configuration of a
    node may have become garbage.
    """
    global _has_frozen
    if _has_frozen:
        gc.unfreeze()
    gc.collect()
    gc.freeze()
    _has_frozen = True


ORDINARY = "dds.asyn"
"""Prefix of the names of the Fast DDS threads that keep normal priority.

These threads resend messages that a receiver could not accept, without a pause. With real-time
priority on all processors they would prevent that receiver from running: a live-lock of the whole
machine. They hold locks that a real-time thread needs for publishing; it waits for at most 100 ms
and then fails. Therefore these threads get a lower niceness than other normal threads.
"""

NICENESS = -15
"""Niceness of the threads that keep normal priority, where it is permitted."""

_taken = 0
"""Priority of the real-time threads of this process; 0 for normal priority."""

_wanted: dict[str, int] = {}
"""Priority that each node of this process wants; 0 for normal priority."""


def share_priority(node: str, priority: int) -> str:
    """Give this process the highest priority that one of its nodes wants.

    If no node wants a priority any longer, the process returns to normal priority.

    Args:
        node: name of the node.
        priority: 1 to 99, see :func:`take_priority`; 0 if the node wants normal priority.

    Returns:
        The reason if the priority cannot be set, in which case the wish of this node is forgotten;
        an empty text if it is set.
    """
    _wanted[node] = priority
    highest = max(_wanted.values())
    refused = take_priority(highest) if highest or _taken else ""
    if refused:
        _wanted[node] = 0  # another node may want a priority that is permitted
    return refused


def take_priority(priority: int) -> str:
    """Schedule the present threads of this process under SCHED_RR, except :data:`ORDINARY` ones.

    The :data:`ORDINARY` threads get the niceness :data:`NICENESS`, if that is permitted.

    Threads under SCHED_RR preempt all normal threads, so finish long work such as compilation
    first. Unlike under SCHED_FIFO, threads of equal priority share the processor. Threads that
    start later have normal priority, because they may have long work to do; a thread that must not
    wait calls :func:`join_priority`.

    Args:
        priority: 1 to 99; a higher number is a higher priority. 0 returns all threads to normal
            priority (SCHED_OTHER).

    Returns:
        The reason if the priority cannot be set; an empty text if it is set.
    """
    global _taken
    if not sys.platform.startswith("linux"):
        return "SCHED_RR exists on Linux only"
    niceness = NICENESS if priority else os.getpriority(os.PRIO_PROCESS, os.getpid())
    threads = []
    for path in Path("/proc/self/task").iterdir():
        if _is_ordinary(path):
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, int(path.name), niceness)
        else:
            threads.append(path)
    refused = _set(priority, (int(path.name) for path in threads))
    if not refused:
        _taken = priority
    return refused


def join_priority() -> None:
    """Give the calling thread the priority of the last successful :func:`take_priority`."""
    if _taken:
        _set(_taken, [threading.get_native_id()])


def _set(priority: int, threads: Iterable[int]) -> str:
    policy = os.SCHED_RR if priority else os.SCHED_OTHER
    rank = os.sched_param(priority)
    for thread in threads:
        try:
            os.sched_setscheduler(thread, policy | os.SCHED_RESET_ON_FORK, rank)
        except ProcessLookupError:
            continue  # it has ended meanwhile
        except PermissionError:
            return "not permitted; see rtprio in limits.conf(5)"
    return ""


def _is_ordinary(thread: Path) -> bool:
    try:
        return (thread / "comm").read_text(encoding="utf-8").startswith(ORDINARY)
    except OSError:
        return True  # it has ended meanwhile


LONGEST_WAIT = 0.05
"""Longest time that a thread waits for the lock [s]; it is held for a few milliseconds."""


class ShortLock:
    """A reentrant lock that a thread waits for at most :data:`LONGEST_WAIT`.

    After this time the thread continues without the lock. A thread that hangs while it holds the
    lock, for example in a system call of Python, cannot keep the other one from stopping the arm.
    """

    def __init__(self) -> None:
        self._lock = RLock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock in a ``with`` block, unless the other thread holds it for too long."""
        is_acquired = self._lock.acquire(timeout=LONGEST_WAIT)
        try:
            yield
        finally:
            if is_acquired:
                self._lock.release()


SHORTEST_PERIOD = 0.002
"""Shortest period of the watchdog [s]."""

CHECKS_PER_TIMEOUT = 5
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
        while not self._stop.wait(max(self._timeout() / CHECKS_PER_TIMEOUT, SHORTEST_PERIOD)):
            late = self.age
            if late > self._timeout():
                self._late = late
                self._act()
