"""Real-time priority of threads, and the threads that keep normal priority."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

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
