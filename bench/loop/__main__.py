"""``python -m bench.loop``: latency, losses and load of the nodes over DDS at 1 and 4 kHz.

The loop consists of a simulated arm, controller and detector. Controller and detector run as two
processes, then as one process. A third run measures the stages of the processing in one process.
Results go to ``loop.json`` and ``loop.png`` in the folder that ``--report`` names; ``loop.md`` has
the tables of docs/speed.md.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from rich.console import Console
from rich.status import Status

from bench.loop import pages, sheet
from bench.loop.picture import draw
from bench.loop.run import ONE, STAGED, TWO, Arrangement, Loop, measure
from bench.speed.machine import machine

RATES = (1000.0, 4000.0)
LONGEST_STAGED = 20.0
"""Duration of the runs that measure the stages [s], unless the other runs are shorter."""
WIDTH = 150


def main(arguments: Sequence[str]) -> None:
    """Measure at each rate, print the tables and write the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.loop", description=__doc__)
    parser.add_argument(
        "--rate",
        type=float,
        action="append",
        metavar="HZ",
        help="joint states a second; may be repeated (1000 and 4000)",
    )
    parser.add_argument("--duration", type=float, default=60.0, metavar="S", help="each (60)")
    parser.add_argument(
        "--priority",
        type=int,
        default=50,
        metavar="N",
        help="real-time priority of all processes, where that is permitted; 0: none (50)",
    )
    parser.add_argument(
        "--view",
        action="store_true",
        help="measure each rate and arrangement once more, with `rbd-control view` and a browser "
        "beside the nodes",
    )
    parser.add_argument("--report", type=Path, default=Path("report"), metavar="FOLDER")
    given = parser.parse_args(arguments)
    rates = given.rate or RATES
    if not 0 <= given.priority <= 99:
        parser.error("give a priority from 0 to 99")
    if not all(rate > 0.0 for rate in rates) or not given.duration >= 1.0:
        parser.error("give rates above 0 and a duration of at least 1 s")
    # SIGTERM raises KeyboardInterrupt, so that the other processes are ended before this one.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(width=WIDTH, highlight=False)
    loops, staged = [], []
    for rate in rates:
        for arrangement, view in product((TWO, ONE), (False, True) if given.view else (False,)):
            loops.append(
                _measured(rate, given.duration, given.priority, arrangement, console, view=view)
            )
        shorter = min(given.duration, LONGEST_STAGED)
        staged.append(_measured(rate, shorter, given.priority, STAGED, console))
    write(loops, given.report, console, staged)


def _measured(
    rate: float,
    duration: float,
    priority: int,
    arrangement: Arrangement,
    console: Console,
    *,
    view: bool = False,
) -> Loop:
    """Measure, with the progress on the console."""
    with Status("", console=console) as status:

        def show(what: str) -> None:
            beside = ", with view" if view else ""
            status.update(f"{rate:g} Hz, {arrangement.name}{beside}: {what}")

        return measure(rate, duration, priority, show, arrangement, view=view)


def write(
    loops: Sequence[Loop], folder: Path, console: Console, staged: Sequence[Loop] = ()
) -> None:
    """Print the tables; write tables, picture and numbers to ``folder``.

    Args:
        loops: results of the runs without measured stages, at least one.
        folder: folder of the files; it is created if it does not exist.
        console: console for the tables.
        staged: results of the runs that measure the stages.
    """
    folder.mkdir(parents=True, exist_ok=True)
    this = machine() | {"real-time priority": loops[0].priority}
    console.print(sheet.latencies(loops), "", sheet.processes(loops), "")
    for loop in loops:
        if sheet.targets(loop):
            console.print(sheet.asked(loop), "")
    for loop in staged:
        console.print(sheet.budget(loop), "")
    console.print("\n".join(f"{name}: {value}" for name, value in this.items()))
    text = json.dumps(sheet.as_json([*loops, *staged], this), indent=1, allow_nan=False)
    (folder / "loop.json").write_text(text + "\n", encoding="utf-8")
    draw(loops, this, folder / "loop.png")
    facts = "\n".join(f"- {name}: {value}" for name, value in this.items())
    (folder / "loop.md").write_text(pages.page(loops, facts, staged), encoding="utf-8")
    console.print(f"written to {folder}: loop.json, loop.md, loop.png")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
