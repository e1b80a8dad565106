"""Real-time priority: who is not kept waiting by processes that are in no hurry."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def take_priority(priority: int) -> str:
    """Put all threads of this process, and those they start later, under SCHED_FIFO.

    As ros2_control's ``thread_priority`` does. Such threads go before all ordinary ones, so nothing
    that takes long, as compiling does, should be left to do.

    Args:
        priority: 1 to 99, the higher the sooner.

    Returns:
        Why that is not possible; empty when it is done.
    """
    if not sys.platform.startswith("linux"):
        return "only Linux has it"
    rank = os.sched_param(priority)
    for thread in Path("/proc/self/task").iterdir():
        try:
            os.sched_setscheduler(int(thread.name), os.SCHED_FIFO, rank)
        except ProcessLookupError:
            continue  # it has ended meanwhile
        except PermissionError:
            return "not permitted; see rtprio in limits.conf(5)"
    return ""
