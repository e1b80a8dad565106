"""``python -m bench.loop``: arm, controller and detector as processes at 1 and 4 kHz, measured.

Results go to ``loop.json`` and ``loop.png`` in the folder that ``--report`` names; ``loop.md`` has
the tables of README.md and docs/speed.md.
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
from bench.loop.run import Loop, measure
from bench.speed.machine import machine

RATES = (1000.0, 4000.0)
WIDTH = 150


def main(arguments: Sequence[str]) -> None:
    """Measure at each rate, print and write."""
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
        help="measure each rate once more with `rbd-control view` and a browser beside the nodes",
    )
    parser.add_argument("--report", type=Path, default=Path("report"), metavar="FOLDER")
    given = parser.parse_args(arguments)
    rates = given.rate or RATES
    if not 0 <= given.priority <= 99:
        parser.error("give a priority from 0 to 99")
    if not all(rate > 0.0 for rate in rates) or not given.duration >= 1.0:
        parser.error("give rates above 0 and a duration of at least 1 s")
    # Whatever ends this process, the others are to end with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(width=WIDTH, highlight=False)
    loops = []
    for rate, view in product(rates, (False, True) if given.view else (False,)):
        with Status("", console=console) as status:
            loops.append(
                measure(
                    rate,
                    given.duration,
                    given.priority,
                    lambda what, rate=rate, status=status: status.update(f"{rate:g} Hz: {what}"),
                    view=view,
                )
            )
    write(loops, given.report, console)


def write(loops: Sequence[Loop], folder: Path, console: Console) -> None:
    """Print the tables; write picture and numbers to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    this = machine() | {"real-time priority": loops[0].priority}
    console.print(sheet.latencies(loops), "", sheet.processes(loops), "")
    for loop in loops:
        if loop.rate == sheet.TARGET_RATE:
            console.print(sheet.asked(loop), "")
    console.print("\n".join(f"{name}: {value}" for name, value in this.items()))
    text = json.dumps(sheet.as_json(loops, this), indent=1, allow_nan=False)
    (folder / "loop.json").write_text(text + "\n", encoding="utf-8")
    draw(loops, this, folder / "loop.png")
    facts = "\n".join(f"- {name}: {value}" for name, value in this.items())
    (folder / "loop.md").write_text(pages.page(loops, facts), encoding="utf-8")
    console.print(f"written to {folder}: loop.json, loop.md, loop.png")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
