"""``python -m bench.robots [robot ...]``: the controller on arms as their drivers are.

The arms move in MuJoCo with delays, friction, wrong masses, elastic joints, limits of the drives
and sensors of real robots. The study counts false faults in ordinary use, compares tracking with
PD, measures stops, and puts in failures. Results go to ``robots.md`` and ``robots.json`` in the
folder that ``--report`` names.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from bench.progress import progress
from bench.robots.robots import ROBOTS
from bench.robots.study import Results, study, targets
from bench.robots.tables import sheets

PARTS = {"ordinary": ("use", "tracking"), "failures": ("failures",)}
PROGRESS_PERIOD = 20.0
"""Shortest time between two lines of progress without a terminal [s]."""


def main(arguments: Sequence[str]) -> None:
    """Run the study for the robots that the arguments name, and write the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.robots", description=__doc__)
    parser.add_argument("robots", nargs="*", metavar="robot", help=f"of {', '.join(ROBOTS)}")
    parser.add_argument("--minutes", type=float, default=10.0, help="of ordinary use (default: 10)")
    parser.add_argument("--report", type=Path, default=Path("report"), metavar="FOLDER")
    parser.add_argument("--only", choices=tuple(PARTS), help="only one half of the study")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.robots) - set(ROBOTS))
    if unknown:
        sys.exit(f"no robot {', '.join(unknown)}; robots are {', '.join(ROBOTS)}")
    if not 0.0 < given.minutes < float("inf"):
        sys.exit(f"--minutes is {given.minutes:g}; give a positive number")
    names = given.robots or list(ROBOTS)
    parts = PARTS[given.only] if given.only else [part for half in PARTS.values() for part in half]
    console = Console(width=100, highlight=False)
    with progress(console, PROGRESS_PERIOD) as show:
        found = study(names, given.minutes, parts, show)
    write(found, given.report, console)


def write(found: Results, folder: Path, console: Console) -> None:
    """Print the tables, and write them and all numbers to ``folder``, which is created.

    Args:
        found: the results.
        folder: folder of the files.
        console: console for the tables.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tables = sheets(found)
    for sheet in tables:
        console.print(sheet.rich(), "")
    text = "\n".join(["# The controller on robots\n", *(sheet.markdown() for sheet in tables)])
    (folder / "robots.md").write_text(text, encoding="utf-8")
    numbers = {**asdict(found), "targets": [asdict(one) for one in targets(found)]}
    (folder / "robots.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    console.print(f"written to {folder}: robots.md, robots.json")


if __name__ == "__main__":
    main(sys.argv[1:])
