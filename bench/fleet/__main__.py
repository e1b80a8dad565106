"""``python -m bench.fleet``: hundreds of recordings with one worker, two workers and Dask.

The benchmark creates short recordings (of simulated arms over half a year, and copies of the
recordings in test/data) and damages five of them. It replays all recordings with ``rbd-control
replay --fleet``: with one worker process, with two, and on a local Dask cluster with two workers,
one of which the benchmark kills during the run. Each run starts without earlier results; the time
of the whole command is measured. The exit code is 1 if a run lost an undamaged recording, or if the
results of two runs differ. The table is written to ``fleet.md`` in the folder of ``--report``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from bench.fleet.measure import Run, run, run_on_dask
from bench.fleet.recordings import make_fleet

_HEAD = (
    "| workers | recordings | bad | killed | hours | time [s] | hours/min | CPU time [s] |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|\n"
)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and write the table.

    Returns:
        Exit code: 0, or 1 if a run lost an undamaged recording, the results of two runs differ, or
        the runs were too short to kill a worker.
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench.fleet",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--recordings", type=int, default=500, help="number of recordings")
    parser.add_argument("--seconds", type=float, default=24.0, help="of a simulated recording")
    parser.add_argument("--folder", type=Path, help="of the recordings (default: temporary)")
    parser.add_argument("--report", type=Path, default=Path("report"), metavar="FOLDER")
    given = parser.parse_args(arguments)
    console = Console(width=140, highlight=False)
    with TemporaryDirectory() as temporary:
        begin = time.monotonic()
        folder = (given.folder or Path(temporary)).resolve()
        fleet = make_fleet(folder, given.recordings, given.seconds, given.recordings // 5)
        took = time.monotonic() - begin
        console.print(
            f"{fleet.count} recordings made in {took:.0f} s, {len(fleet.damaged)} damaged"
        )
        runs = []
        for name, options in (("1 worker", ("--workers", "1")), ("2 workers", ("--workers", "2"))):
            runs.append(run(fleet, name, options))
            console.print(_line(runs[-1]))
        runs.append(run_on_dask(fleet, 2))
        console.print(_line(runs[-1]))
        problems = [text for each in runs for text in each.problems(fleet, runs[0])]
        if not runs[-1].killed:
            problems.append("no Dask worker was killed, the runs were too short")
    given.report.mkdir(parents=True, exist_ok=True)
    text = _HEAD + "".join(_line(each) + "\n" for each in runs)
    (given.report / "fleet.md").write_text(text, encoding="utf-8")
    for problem in problems:
        console.print(f"problem: {problem}", markup=False)
    return 1 if problems else 0


def _line(each: Run) -> str:
    bad = sum(result is None for result in each.results.values())
    return (
        f"| {each.name} | {len(each.results)} | {bad} | {each.killed} | {each.hours:.2f} | "
        f"{each.seconds:.1f} | {each.hours_per_minute:.2f} | {each.cpu:.1f} |"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
