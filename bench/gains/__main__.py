"""``python -m bench.gains``: standard errors of identified drive gains against their true errors.

The benchmark takes some seconds for each simulated arm.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.gains.arm import JOINTS
from bench.gains.study import CASES, Result, record, study

HEAD = (
    "joint",
    "accepted",
    "standard error, median [%]",
    "true error, rms [%]",
    "largest accepted [%]",
    "largest [standard errors]",
)


def main(arguments: Sequence[str]) -> None:
    """Identify the gains of some simulated arms, and print a table for each case."""
    parser = argparse.ArgumentParser(prog="python -m bench.gains", description=__doc__)
    parser.add_argument("--arms", type=int, default=20, help="number of arms (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first arm (default: 0)")
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FOLDER",
        help="only write the URDF and two recordings of the first arm, to calibrate from",
    )
    given = parser.parse_args(arguments)
    console = Console(width=120, highlight=False)
    if given.record:
        record(given.record, given.seed)
        console.print(f"ur10e.urdf, free.csv and load.csv in {given.record}", markup=False)
        return
    results = [study(given.seed + k) for k in range(given.arms)]
    for case, found in zip(CASES, zip(*results, strict=True), strict=True):
        table = Table(*HEAD, title=f"{case}, {given.arms} arms", title_justify="left")
        for i, joint in enumerate(JOINTS):
            table.add_row(joint, *_cells(i, found))
        console.print(table)


def _cells(i: int, results: Sequence[Result]) -> list[str]:
    """Return the figures of one joint."""
    accepted = np.array([one.accepted[i] for one in results])
    claimed = 100.0 * float(np.median([one.claimed[i] for one in results]))
    error = 100.0 * np.array([one.relative_error[i] for one in results])
    off = max(abs(one.in_standard_errors[i]) for one in results)
    known = np.isfinite(claimed)
    return [
        f"{accepted.sum()} of {accepted.size}",
        f"{claimed:.1f}" if known else "unknown",
        f"{np.sqrt((error**2).mean()):.1f}" if known else "-",
        f"{np.abs(error[accepted]).max():.1f}" if accepted.any() else "-",
        f"{off:.1f}" if known else "-",
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
