"""``python -m bench.speed [mechanism ...]``: time the dynamics and write the results.

The first run builds a small C++ program and compiles our functions for each robot, which takes some
minutes; later runs use the stored results of this step. Results go to ``bench.md``, ``bench.png``
and ``bench.json`` in the folder that ``--report`` names; ``tables.md`` has the tables of README.md
and docs/speed.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from bench.speed import pages, sheets
from bench.speed.contest import Contest, Timing
from bench.speed.ew21 import curve, of_family, slope
from bench.speed.machine import machine
from bench.speed.measure import ROUNDS
from bench.speed.mechanisms import FAMILIES, Mechanism, all_mechanisms
from bench.speed.picture import draw
from bench.speed.quantities import Column, Quantity
from bench.speed.rivals import Rivals
from bench.speed.targets import Outcome, outcomes
from bench.speed.with_pinocchio_cpp import Build

WIDTH = 220


def main(arguments: Sequence[str]) -> None:
    """Prepare and time the mechanisms that the arguments name; print and write the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.speed", description=__doc__)
    parser.add_argument("mechanisms", nargs="*", metavar="mechanism", help="only these")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, metavar="N", help=f"measurements of each ({ROUNDS})"
    )
    parser.add_argument("--report", type=Path, default=Path("report"), metavar="FOLDER")
    given = parser.parse_args(arguments)
    if given.rounds < 1:
        parser.error(f"--rounds is {given.rounds}; give at least 1")
    console = Console(width=WIDTH, highlight=False)
    build = Build()
    contests, disagreement = _prepared(_chosen(given.mechanisms), console)
    if build.running:
        console.print("waiting for the C++ compiler")
    library = build.wait()
    if library:
        for contest in contests:
            contest.add_cpp(library)
            disagreement = max(disagreement, contest.disagreement())
    rivals = Rivals()
    for contest in contests:
        contest.add_rivals(rivals)
        disagreement = max(disagreement, contest.disagreement())
    timings = [
        timing
        for contest in track(contests, "timing", console=console)
        for timing in contest.timings(given.rounds)
    ]
    absent = {Column.PINOCCHIO_CPP: build.problem} if build.problem else {}
    remarks = sheets.remarks(contests, {**absent, **rivals.problems}, disagreement)
    write(timings, remarks, given.report, console)


def _chosen(names: Sequence[str]) -> list[Mechanism]:
    every = {mechanism.name: mechanism for mechanism in all_mechanisms()}
    unknown = sorted(set(names) - set(every))
    if unknown:
        sys.exit(f"no mechanism {', '.join(unknown)}; mechanisms are {', '.join(every)}")
    return [every[name] for name in names or every]


def _prepared(mechanisms: Sequence[Mechanism], console: Console) -> tuple[list[Contest], float]:
    contests, disagreement = [], 0.0
    for mechanism in track(mechanisms, "compiling and comparing", console=console):
        contest = Contest(mechanism)
        disagreement = max(disagreement, contest.disagreement())
        contests.append(contest)
    return contests, disagreement


def write(timings: Sequence[Timing], remarks: str, folder: Path, console: Console) -> None:
    """Print the tables; write them, the picture and all numbers to ``folder``.

    Args:
        timings: the measurements, one per mechanism and quantity.
        remarks: lines on missing libraries and on differences of results.
        folder: folder of the files; it is created if it does not exist.
        console: console for the tables.
    """
    folder.mkdir(parents=True, exist_ok=True)
    this, results = machine(), outcomes(timings)
    featured = [timing for timing in timings if timing.mechanism.featured]
    others = [timing for timing in timings if not timing.mechanism.featured]
    shown = [
        sheets.times(featured, "Dynamics: one state in µs, and ratios to Pinocchio"),
        sheets.rivals(timings),
        sheets.growth(timings),
        sheets.gdahj(timings),
        sheets.targets(results),
    ]
    on = "\n".join(f"{name}: {value}" for name, value in this.items())
    for sheet in shown:
        console.print(sheet.rich(), "")
    console.print(on, remarks, sep="\n")
    kept = [*shown, sheets.times(others, "Other sizes", explained=False)]
    facts = "\n".join(f"- {line}" for line in f"{on}\n{remarks}".splitlines())
    text = "\n".join(["# Speed\n", facts, "", *(sheet.markdown() for sheet in kept)])
    (folder / "bench.md").write_text(text, encoding="utf-8")
    (folder / "tables.md").write_text(pages.page(timings, facts), encoding="utf-8")
    numbers = as_json(timings, results, this, remarks)
    (folder / "bench.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    draw(timings, this, folder / "bench.png")
    console.print(f"written to {folder}: bench.md, bench.png, bench.json, tables.md")


def as_json(
    timings: Sequence[Timing], results: Sequence[Outcome], this: dict[str, str], remarks: str
) -> dict[str, Any]:
    """Return all numbers as plain values: medians and quartiles of times [µs] and target ratios."""
    return {
        "machine": this,
        "remarks": remarks.splitlines(),
        "times": [
            {
                "mechanism": timing.mechanism.name,
                "nv": timing.mechanism.model.nv,
                "quantity": timing.quantity.value,
                "microseconds": {
                    " ".join(column.value.split()): asdict(spread)
                    for column in timing.seconds
                    if (spread := timing.microseconds(column))
                },
            }
            for timing in timings
        ],
        "slopes": {
            f"{family}: {quantity.value}": {
                " ".join(column.value.split()): slope(points)
                for column in (Column.LOOP, Column.PINOCCHIO_CPP)
                if len(points := curve(of_family(timings, family, quantity), column)) > 1
            }
            for family in FAMILIES
            for quantity in (Quantity.TERMS, Quantity.CHRISTOFFEL)
        },
        "targets": [
            {
                "text": outcome.text,
                "measured": asdict(outcome.measured),
                "limit": outcome.limit,
                "met": outcome.met,
            }
            for outcome in results
        ],
    }


if __name__ == "__main__":
    main(sys.argv[1:])
