"""The tests' share of the processor, so that nodes answer in time on a busy machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NICENESS = -15
"""Niceness of tests with nodes, where it is permitted: 28 times the share of niceness 0."""

AUTOGROUP = Path("/proc/self/autogroup")
"""Niceness of this session among others, where Linux divides the processor among sessions first."""


@contextmanager
def first_at_the_processor() -> Iterator[None]:
    """Put this thread, and the threads and processes that it starts, before other processes.

    The nodes under test have real deadlines, and the probe that publishes their joint states must
    not be the one that misses them. Without permission (CAP_SYS_NICE) nothing changes, and a busy
    machine may fail a test that waits for the nodes to meet a deadline.

    The niceness of the session stays: other workers of the session may be amid a test.
    ``conftest.py`` restores it when all of them have ended.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
        set_session_niceness(NICENESS)
        yield
    finally:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, before)


def session_niceness() -> int | None:
    """Return the niceness of this session among others; None without autogroups."""
    try:
        return int(AUTOGROUP.read_text(encoding="ascii").rpartition(" ")[2])
    except (OSError, ValueError):
        return None


def set_session_niceness(niceness: int | None) -> None:
    """Set the niceness of this session, where it is permitted; None changes nothing."""
    if niceness is not None and AUTOGROUP.exists():
        with suppress(OSError):
            AUTOGROUP.write_text(str(niceness), encoding="ascii")
