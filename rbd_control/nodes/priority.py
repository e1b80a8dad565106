"""Real-time priority: whose threads go before all ordinary ones, and whose do not."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

ORDINARY = "dds.asyn"
"""Beginning of the names of Fast DDS's threads that stay ordinary.

They send again what a receiver could not take, without a pause. With real-time priority on all
processors they would keep that receiver from ever running: each waits for the other for ever, and
so does the rest of the machine. They hold locks that a real-time thread waits for when it
publishes, for 100 ms at most, after which it fails; so they go before other ordinary threads.
"""

NICENESS = -15
"""Niceness of the threads that stay ordinary, where that is permitted."""

_taken = 0
"""Priority of this process's real-time threads; 0 without."""


def take_priority(priority: int) -> str:
    """Put the present threads of this process under SCHED_RR, but for :data:`ORDINARY` ones.

    Such threads go before all ordinary ones, so nothing that takes long, as compiling does, should
    be left to do. Unlike under SCHED_FIFO, threads of one priority take turns. Threads that are
    started later are ordinary, for they may have long work to do; one that must not wait calls
    :func:`join_priority`.

    Args:
        priority: 1 to 99, the higher the sooner.

    Returns:
        Why that is not possible; empty when it is done.
    """
    global _taken
    if not sys.platform.startswith("linux"):
        return "only Linux has it"
    threads = []
    for path in Path("/proc/self/task").iterdir():
        if _is_ordinary(path):
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, int(path.name), NICENESS)
        else:
            threads.append(path)
    refused = _set(priority, (int(path.name) for path in threads))
    _taken = 0 if refused else priority
    return refused


def join_priority() -> None:
    """Give the calling thread the priority that the process has taken, if it has."""
    if _taken:
        _set(_taken, [threading.get_native_id()])


def _set(priority: int, threads: Iterable[int]) -> str:
    rank = os.sched_param(priority)
    for thread in threads:
        try:
            os.sched_setscheduler(thread, os.SCHED_RR | os.SCHED_RESET_ON_FORK, rank)
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
