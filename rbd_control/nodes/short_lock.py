"""A lock of callback thread and watchdog thread, neither of which may block the other for long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

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
