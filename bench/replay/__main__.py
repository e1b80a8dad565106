"""``python -m bench.replay``: speed and memory of the replay of recordings.

The benchmark writes synthetic recordings of an arm of seven joints at 1 kHz, in each format and in
two lengths, and replays each of them several times in a separate process. The time includes
reading and excludes start-up; the median is reported. A run takes some minutes, most of them for
writing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.replay.recordings import KINDS, write

TARGET = 300.0
"""Smallest accepted real-time factor."""


def main() -> None:
    """Write the recordings to a temporary folder, replay them, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; all")
    parser.add_argument("--minutes", type=float, nargs="+", default=[1.0, 10.0], metavar="M")
    given = parser.parse_args()
    table = Table(title=f"replay of 7 joints at 1 kHz (target: {TARGET:g} x real time)")
    table.add_column("format")
    for heading in ("minutes", "x real time", "us a sample", "us of CPU", "memory [MB]"):
        table.add_column(heading, justify="right")
    with TemporaryDirectory() as folder:
        for kind in given.kinds or KINDS:
            for minutes in given.minutes:
                outcome = measure(write(Path(folder), kind, 60.0 * minutes))
                table.add_row(kind, f"{minutes:g}", *_cells(outcome))
    Console(width=100).print(table)


def measure(recording: Path) -> dict[str, Any]:
    """Replay a recording in a separate process, and return the result of :mod:`bench.replay.once`.

    Raises:
        CalledProcessError: if the process fails.
    """
    command = [sys.executable, "-m", "bench.replay.once", str(recording)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


def _cells(outcome: dict[str, Any]) -> list[str]:
    seconds, cpu = (sorted(outcome[key])[len(outcome[key]) // 2] for key in ("seconds", "cpu"))
    return [
        f"{outcome['duration'] / seconds:.0f}",
        f"{1e6 * seconds / outcome['samples']:.2f}",
        f"{1e6 * cpu / outcome['samples']:.2f}",
        f"{outcome['memory']:.0f}",
    ]


if __name__ == "__main__":
    main()
