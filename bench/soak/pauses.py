"""Pauses of the processors, in which even a thread of the highest priority does not run.

On each processor a process of the highest real-time priority sleeps for :data:`PERIOD`, again and
again. If it wakes late, no real-time thread ran there meanwhile:

- the host of a virtual machine did not run the processor or had to fetch its memory;
- the kernel was in a part that cannot be interrupted;
- Linux ran normal threads, for which it reserves 50 ms of each second if real-time threads leave
  them less.

``python pauses.py PROCESSOR FILE`` is such a process; it appends a line to the file for each pause.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PERIOD = 0.002
"""Period at which the processes wake [s]."""

LEAST = 0.01
"""Shortest time that counts as a pause [s]; waking is late by 0.1 ms on a free processor."""

PRIORITY = 99
"""Priority of the processes under SCHED_FIFO, the highest that Linux has."""

Pause = tuple[int, int]
"""Begin and end of a pause, in the time of ``time.time_ns`` [ns]."""


class Pauses:
    """Starts a process on each processor that this process may use, and reads the pauses.

    Without the permission for real-time priority no pause is found, and :attr:`watches` is False.

    Args:
        folder: folder for the files of the processes.
    """

    def __init__(self, folder: Path) -> None:
        self._files = [folder / f"pauses.{cpu}" for cpu in sorted(os.sched_getaffinity(0))]
        self._processes = [
            subprocess.Popen(
                [sys.executable, __file__, path.suffix[1:], str(path)], stderr=subprocess.DEVNULL
            )
            for path in self._files
        ]

    @property
    def watches(self) -> bool:
        """Whether all processes run."""
        return all(process.poll() is None for process in self._processes)

    def of_processors(self) -> list[list[Pause]]:
        """Return the pauses of each processor so far, in their order."""
        return [read_pauses(path) for path in self._files]

    def stop(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.kill()
            process.wait()


def read_pauses(path: Path) -> list[Pause]:
    """Return the pauses in a file; an unfinished last line is left out."""
    found = []
    with suppress(FileNotFoundError):
        for line in path.read_text(encoding="ascii").splitlines(keepends=True):
            if line.endswith("\n"):
                begin, end = line.split()
                found.append((int(begin), int(end)))
    return found


def time_paused(processors: list[list[Pause]], begin: int, end: int) -> float:
    """Return how long a processor paused within an interval, of all processors the longest [s].

    Args:
        processors: the pauses of each processor.
        begin, end: the interval [ns].
    """
    totals = (
        sum(max(min(end, to) - max(begin, since), 0) for since, to in pauses)
        for pauses in processors
    )
    return 1e-9 * max(totals, default=0)


def longest_pause(processors: list[list[Pause]]) -> float:
    """Return the length of the longest pause [s]; 0 without a pause."""
    return 1e-9 * max((end - begin for each in processors for begin, end in each), default=0)


def watch(processor: int, path: Path) -> None:
    """Append the pauses of a processor to a file, without end.

    Raises:
        OSError: without permission for real-time priority.
    """
    os.sched_setaffinity(0, {processor})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    period, least = round(1e9 * PERIOD), round(1e9 * LEAST)
    with path.open("a", encoding="ascii", buffering=1) as file:
        last = time.monotonic_ns()
        while True:
            time.sleep(PERIOD)
            now = time.monotonic_ns()
            late, last = now - last - period, now
            if late > least:
                end = time.time_ns()
                file.write(f"{end - late} {end}\n")


if __name__ == "__main__":
    watch(int(sys.argv[1]), Path(sys.argv[2]))
