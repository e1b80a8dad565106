"""``python -m bench.guard``: stops of position-controlled arms on contact, and false stops.

Results go to ``guard.json`` in the folder that ``--report`` names.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.contacts.arms import arm
from bench.contacts.plant import Plant
from bench.guard.study import Stop, calibrated, false_stops, stop, touches

NAMES = ("panda", "ur5", "xarm7")


def main(arguments: Sequence[str]) -> None:
    """Run the study on the arms that the arguments name, print the tables and write the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.guard", description=__doc__)
    parser.add_argument("arms", nargs="*", default=NAMES, help="arms of bench.contacts")
    parser.add_argument("--contacts", type=int, default=40, metavar="N", help="for each arm (40)")
    parser.add_argument("--force", type=float, default=20.0, metavar="N", help="of a push (20)")
    parser.add_argument("--free", type=float, default=600.0, metavar="S", help="without (600)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, default=Path("report"), metavar="FOLDER")
    given = parser.parse_args(arguments)
    results = {}
    for name in given.arms:
        plant = Plant(arm(name), given.seed)
        model, parameters = calibrated(plant, given.seed + 1, 120.0)
        drawn = enumerate(touches(given.seed + 2, given.contacts, given.force))
        found = [stop(plant, model, parameters, touch, given.seed + 10 + k) for k, touch in drawn]
        stops = [each for each in found if each is not None]
        free = false_stops(plant, model, parameters, given.seed + 3, given.free)
        results[name] = {"stops": [asdict(each) for each in stops], "false stops": free}
        Console(width=110, highlight=False).print(_table(name, stops, free, given.free))
    given.report.mkdir(parents=True, exist_ok=True)
    (given.report / "guard.json").write_text(json.dumps(results, indent=1), encoding="utf-8")


def _table(name: str, stops: Sequence[Stop], false: int, free: float) -> Table:
    title = f"{name}: {false} false stops in {free:g} s; times in ms, median and largest"
    columns = (
        "contacts",
        "missed",
        "onset to flag",
        "cancel to rest",
        "deceleration",
        "onset to rest",
    )
    table = Table("kind", *columns, "motion [rad]", title=title)
    for kind in ("push", "collision"):
        own = [each for each in stops if each.kind == kind]
        seen = [each for each in own if not np.isnan(each.flag)]
        table.add_row(
            kind,
            str(len(own)),
            str(len(own) - len(seen)),
            _both([each.flag - each.onset for each in seen]),
            _both([each.standstill - each.cancel for each in seen]),
            _both([each.planned for each in seen]),
            _both([each.standstill - each.onset for each in seen]),
            _both([1e-3 * each.travelled for each in seen], 4),
        )
    return table


def _both(values: Sequence[float], digits: int = 0) -> str:
    """Return median and largest of times [s] in milliseconds."""
    if not values:
        return ""
    return f"{1e3 * float(np.median(values)):.{digits}f}, {1e3 * max(values):.{digits}f}"


if __name__ == "__main__":
    main(sys.argv[1:])
