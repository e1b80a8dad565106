"""``python -m bench.conditions [arm ...]``: a calibrated detector under hard conditions.

Each row of the table is a condition for which the detector was not calibrated; ``--only TEXT``
selects the rows with all words of the text in their name. Results go to ``conditions.md`` and
``conditions.json`` in the folder that ``--report`` names.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from bench.conditions.pool import study
from bench.conditions.rows import ROWS
from bench.conditions.setups import SETUPS
from bench.conditions.study import Outcome
from bench.conditions.tables import sentences, sheet, verdict
from bench.progress import progress

PROGRESS_PERIOD = 20.0
"""Shortest time between two lines of progress without a terminal [s]."""


def main(arguments: Sequence[str]) -> None:
    """Run the rows that the arguments select, print the tables and write them."""
    parser = argparse.ArgumentParser(prog="python -m bench.conditions", description=__doc__)
    parser.add_argument("arms", nargs="*", metavar="arm", help=f"of {', '.join(SETUPS)}; all")
    parser.add_argument(
        "--only", nargs="+", metavar="ROW", help="rows with these words in their name"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the specimen (1)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--report", type=Path, default=Path("report"), metavar="FOLDER")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.arms) - set(SETUPS))
    if unknown:
        parser.error(f"no arm {', '.join(unknown)}; arms are {', '.join(SETUPS)}")
    rows = chosen(given.only)
    if not rows:
        parser.error(f"no row with {', '.join(given.only)}; rows are {', '.join(_names())}")
    console = Console(width=170, highlight=False)
    with progress(console, PROGRESS_PERIOD) as show:
        found = study(given.arms or list(SETUPS), rows, given.seed, given.jobs, show)
    write(found, given.report, console)


def chosen(texts: Sequence[str] | None) -> list[int]:
    """Return the indices of the rows whose name has all words of a text; all without texts.

    The nominal row is always among them, as others are compared with it.
    """
    if texts is None:
        return list(range(len(ROWS)))
    wanted = [text.lower().split() for text in texts]
    found = [
        k
        for k, row in enumerate(ROWS)
        if any(all(f" {word}" in f" {row.name.lower()}" for word in words) for words in wanted)
    ]
    return sorted({0, *found}) if found else []


def write(found: dict[str, list[Outcome]], folder: Path, console: Console) -> None:
    """Print the tables, and write them and all numbers to ``folder``, which is created."""
    folder.mkdir(parents=True, exist_ok=True)
    text, numbers = "# A calibrated detector under hard conditions\n", []
    for name, outcomes in found.items():
        table = sheet(name, outcomes)
        console.print(table.rich(), "")
        text += f"\n{table.markdown()}\n### What it says: {name}\n\n{sentences(outcomes)}"
        numbers += [_numbers(outcome, outcomes[0]) for outcome in outcomes]
    (folder / "conditions.md").write_text(text, encoding="utf-8")
    (folder / "conditions.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    console.print(f"written to {folder}: conditions.md, conditions.json")


def _numbers(outcome: Outcome, nominal: Outcome) -> dict[str, object]:
    return {
        "arm": outcome.arm,
        "condition": outcome.condition,
        "product": asdict(outcome.product) if outcome.product else None,
        "plain": asdict(outcome.plain) if outcome.plain else None,
        "named by": outcome.named_by(),
        "verdict": verdict(outcome, nominal),
        "sentences": [asdict(sentence) for sentence in outcome.sentences],
    }


def _names() -> list[str]:
    return [row.name for row in ROWS]


if __name__ == "__main__":
    main(sys.argv[1:])
