"""``python -m bench.soak``: the nodes at 1 kHz for an hour, with pushes, motions and faults.

The results are written to ``soak.json`` and ``soak.png`` in the folder of ``--report``. The exit
code is 1 if a requirement (bench/soak/verdict.py) is missed or anything else failed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.progress import progress
from bench.soak import sheet
from bench.soak.picture import draw
from bench.soak.run import Soak, soak
from bench.speed.machine import machine

SHORTEST = 0.1
"""Shortest duration of a soak, with time for a few items [min]."""

QUIET = 20.0
"""Period of progress lines if the console is not a terminal [s]."""

WIDTH = 150


def main(arguments: Sequence[str]) -> int:
    """Run the soak, print and write its results.

    Returns:
        Exit code: 0, or 1 if a requirement was missed or anything else failed.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, metavar="M", help="length (60)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the schedule (1)")
    parser.add_argument(
        "--priority",
        type=int,
        default=50,
        metavar="N",
        help="real-time priority of the nodes, where that is permitted; 0: none (50)",
    )
    parser.add_argument(
        "--trace",
        action="store_true",
        help="show where Python's memory grows in each node, which makes them slower",
    )
    parser.add_argument("--report", type=Path, default=Path("report"), metavar="FOLDER")
    given = parser.parse_args(arguments)
    if not given.minutes >= SHORTEST:
        parser.error(f"give at least {SHORTEST:g} minutes")
    if not 0 <= given.priority <= 99:
        parser.error("give a priority from 0 to 99")
    # SIGTERM raises KeyboardInterrupt, so that the nodes are ended before this process.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(width=WIDTH, highlight=False)
    with progress(console, QUIET) as show:
        result = soak(given.seed, given.minutes, given.priority, given.trace, show)
    write(result, given.report, console)
    return 0 if result.passed else 1


def write(result: Soak, folder: Path, console: Console) -> None:
    """Print the tables and failures; write picture and numbers to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    this = machine()
    console.print(sheet.items_table(result), sheet.processes_table(result))
    console.print(sheet.figures_table(result), sheet.verdict_table(result))
    for failure in result.failures:
        console.print(f"failed: {failure}", markup=False)
    for name, text in result.traced.items():
        console.print(f"{name}\n{text}", markup=False)
    text = json.dumps(sheet.as_json(result, this), indent=1, allow_nan=False)
    (folder / "soak.json").write_text(text + "\n", encoding="utf-8")
    draw(result, folder / "soak.png")
    console.print(f"written to {folder}: soak.json, soak.png", markup=False)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
