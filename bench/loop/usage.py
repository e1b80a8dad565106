"""Processor time and memory of a running process, from /proc."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process in user mode and in the kernel [s].

    Raises:
        OSError: if there is no such process.
    """
    # The name of the process may contain spaces, so fields are counted from its closing bracket.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident(pid: int) -> int:
    """Return the resident memory of a process [kB].

    Raises:
        OSError: if there is no such process.
        StopIteration: if the process has ended, but its parent has not read its exit code yet.
    """
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS"))
