"""``python -m bench.observers [arm ...]``: delay of each observer at equal false-alarm rate.

The study takes some minutes. The table goes to ``observers.md`` in the folder that ``--report``
names. With ``--held-out`` the calibrated detector is compared with a plain momentum observer, on
recordings of real arms as well (``real panda``, ``real ur10``); the table goes to ``held_out.md``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.observers.held_out import FORCES, compare
from bench.observers.study import Candidate, Outcome, study

KINDS = ("8 N", "20 N", "collision")


def main(arguments: Sequence[str]) -> None:
    """Study the arms that the arguments name, print the table and write it."""
    parser = argparse.ArgumentParser(prog="python -m bench.observers", description=__doc__)
    parser.add_argument("arms", nargs="*", default=["panda", "ur5", "arm7"], metavar="arm")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30, help="contacts of each kind")
    parser.add_argument("--free", type=float, default=40.0, help="contact-free motion [s]")
    parser.add_argument("--report", type=Path, default=Path("report"), metavar="FOLDER")
    parser.add_argument("--held-out", action="store_true", help="calibrated detector and plain one")
    given = parser.parse_args(arguments)
    console = Console(width=150, highlight=False)
    if given.held_out:
        _compare(given.arms, given.seed, given.rounds, given.report, console)
        return
    outcomes: dict[Candidate, list[Outcome]] = {}
    for name in given.arms:
        console.print(f"{name}: motions, friction, contacts")
        for outcome in study(name, given.seed, given.rounds, given.free):
            outcomes.setdefault(outcome.candidate, []).append(outcome)
    head, rows = _head(), [_row(candidate, found) for candidate, found in outcomes.items()]
    table = Table(*head, title="; ".join(given.arms))
    for row in rows:
        table.add_row(*row)
    console.print(table)
    _write(given.report, "observers.md", head, rows)


def _write(folder: Path, name: str, head: list[str], rows: list[list[str]]) -> None:
    """Write a table to a file."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [head, ["---"] * len(head), *rows]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    (folder / name).write_text(text, encoding="utf-8")


def _compare(arms: list[str], seed: int, count: int, folder: Path, console: Console) -> None:
    """Compare the detector with a plain observer, print the table and write it."""
    head = ["arm", "false contacts", "highest ratio"]
    for force in FORCES:
        head += [f"{force:g} N: ours", "at equal false alarms", "plain [ms]", "ratio of these"]
        head += ["missed: ours", "at equal false alarms", "plain"]
    table, rows = Table(*head), []
    for name in arms:
        found = compare(name, seed, count)
        row = [name, str(found.false_contacts), f"{found.highest:.2f}"]
        for force in FORCES:
            delays = found.ours[force], found.equal[force], found.plain[force]
            # Pushes that all find: the weaker ones that only one finds are late.
            all_find = np.isfinite(delays).all(axis=0)
            medians = [
                1e3 * float(np.median(x[all_find])) if all_find.any() else np.nan for x in delays
            ]
            row += [f"{median:.0f}" for median in medians]
            row.append(f"{medians[1] / medians[2]:.2f}")
            row += [str(int(np.isinf(x).sum())) for x in delays]
        rows.append(row)
        console.print(" ".join(f"{a}: {b};" for a, b in zip(head, row, strict=True)))
    for row in rows:
        table.add_row(*row)
    console.print(table)
    _write(folder, "held_out.md", head, rows)


def _head() -> list[str]:
    delays = [f"{kind}: median, p95 [ms]" for kind in KINDS]
    return ["observer", "statistic", "threshold [N·m]", *delays, "missed", "false alarms"]


def _row(candidate: Candidate, outcomes: list[Outcome]) -> list[str]:
    cells = [candidate.name, "yes" if candidate.statistic else "no"]
    cells.append(f"{np.exp(np.mean([np.log(o.threshold) for o in outcomes])):.2f}")
    for kind in KINDS:
        delays = 1e3 * np.concatenate([o.delays.get(kind, []) for o in outcomes])
        found = np.percentile(delays, [50, 95]) if delays.size else (np.nan, np.nan)
        cells.append("{:.0f}, {:.0f}".format(*found))
    cells.append(", ".join(str(sum(o.missed.get(kind, 0) for o in outcomes)) for kind in KINDS))
    cells.append(str(sum(o.false_alarms for o in outcomes)))
    return cells


if __name__ == "__main__":
    main(sys.argv[1:])
