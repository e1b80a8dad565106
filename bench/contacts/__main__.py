"""``python -m bench.contacts``: evaluate the detector on simulated contacts, in some minutes.

The table is written to ``contacts.md`` in the folder that ``--report`` names. ``--hour`` evaluates
an hour of motion without contact instead, ``--tool`` the wrench at the tool, and ``--promise`` the
weakest pushes that ``rbd-control check`` promises (``promise.md``). ``--record FOLDER`` writes
recordings for ``rbd-control``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.contacts.arms import ARMS, arm
from bench.contacts.bag import write_recording
from bench.contacts.episode import simulate, stream
from bench.contacts.plant import Plant
from bench.contacts.promise import PROMISE_HEAD, judge_promise, kept, promise_rows
from bench.contacts.study import FREE, Outcome, false_alarms, judge
from bench.contacts.tables import HEAD, rows, targets
from bench.contacts.tool_wrench import (
    TOOL_COUNT,
    TOOL_HEAD,
    ToolResult,
    is_accurate,
    judge_tool,
    tool_row,
)
from bench.contacts.touch import draw, end_of

HOUR = 3600.0


def main(arguments: Sequence[str]) -> int:
    """Run the study that the arguments select; print and write its results.

    Returns:
        Exit code: 0, or 1 if a target is missed.
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench.contacts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("arms", nargs="*", metavar="arm", help=f"of {', '.join(ARMS)}; all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15, help="contacts of each kind for each arm")
    parser.add_argument("--specimens", type=int, default=5, help="of each arm, seeds 1000 apart")
    parser.add_argument("--hour", action="store_true", help="an hour without contact instead")
    parser.add_argument("--tool", action="store_true", help="the wrench at the tool instead")
    parser.add_argument("--promise", action="store_true", help="the promise of check instead")
    parser.add_argument("--repeats", type=int, default=2, help="pushes of each staged size")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="write recordings instead")
    parser.add_argument("--report", type=Path, default=Path("report"), metavar="FOLDER")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.arms) - set(ARMS))
    if unknown:
        parser.error(f"no arm {', '.join(unknown)}; arms are {', '.join(ARMS)}")
    names = given.arms or list(ARMS)
    if given.record:
        return _record(names, given.seed, given.rounds, given.record)
    console = Console(width=170, highlight=False)
    if given.hour:
        return _hour(names, given.seed, console)
    if given.tool:
        return _tool(names, given.seed, given.specimens, console)
    if given.promise:
        return _promise(names, given, console)
    console.print(f"{given.specimens} specimens of each of {', '.join(names)}: a minute or two")
    seeds = [given.seed + 1000 * k for k in range(given.specimens)]
    shown = track(seeds, "specimens", console=console, transient=True)
    outcome = Outcome.together([judge(names, seed, given.rounds) for seed in shown])
    table = Table(*HEAD, title=f"{len(outcome.verdicts)} contacts; {', '.join(names)}")
    lines = rows(outcome)
    for line in lines:
        table.add_row(*line)
    console.print(table)
    found = targets(outcome)
    for target in found:
        console.print(f"{'met   ' if target.met else 'missed'}  {target.text}: {target.found}")
    text = _markdown(HEAD, lines)
    text += "\n" + "".join(
        f"- {target.text}: {target.found}, {'met' if target.met else 'missed'}\n"
        for target in found
    )
    _write(given.report / "contacts.md", text)
    return 0 if all(target.met for target in found) else 1


def _hour(names: Sequence[str], seed: int, console: Console) -> int:
    """Evaluate an hour without contact, divided among the arms; return 1 above one false alarm."""
    total = 0
    for k, name in enumerate(names):
        share = HOUR / len(names)
        count = false_alarms(name, seed + 100 * k, share)
        console.print(f"{name}: {count} false alarms in {share / 60.0:.0f} min")
        total += count
    console.print(f"{total} false alarms in an hour")
    return 0 if total <= 1 else 1


def _tool(names: Sequence[str], seed: int, specimens: int, console: Console) -> int:
    """Evaluate the wrench at the tool of each arm; return 1 if a target is missed."""
    table = Table(*TOOL_HEAD, title=f"wrenches at the tool; {specimens} specimens of each arm")
    shown = [(name, seed + 1000 * k) for name in names for k in range(specimens)]
    found: dict[str, list[ToolResult]] = {name: [] for name in names}
    for name, own in track(shown, "specimens", console=console, transient=True):
        found[name].append(judge_tool(name, own, TOOL_COUNT))
    results = {name: ToolResult.together(each) for name, each in found.items()}
    if len(names) > 1:
        results["all"] = ToolResult.together(list(results.values()))
    for name, result in results.items():
        table.add_row(name, *tool_row(result))
    console.print(table)
    return 0 if all(is_accurate(result) for result in results.values()) else 1


def _promise(names: Sequence[str], given: argparse.Namespace, console: Console) -> int:
    """Compare the promise of ``check`` with staged pushes; return 1 if it is broken for a link."""
    shown = [(name, given.seed + 1000 * k) for name in names for k in range(given.specimens)]
    tracked = track(shown, "specimens", console=console, transient=True)
    staged = [push for name, own in tracked for push in judge_promise(name, own, given.repeats)]
    lines = promise_rows(staged)
    title = f"force at which half of the pushes are found / promised; {given.specimens} specimens"
    table = Table(*PROMISE_HEAD, title=title)
    for line in lines:
        table.add_row(*line)
    console.print(table)
    good, number = kept(staged)
    console.print(f"the promise is right within 30 % for {good} of {number} links")
    _write(given.report / "promise.md", _markdown(PROMISE_HEAD, lines))
    return 0 if good == number else 1


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *lines))


def _write(path: Path, text: str) -> None:
    """Write a report; the folder is created if it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _record(names: Sequence[str], seed: int, rounds: int, folder: Path) -> int:
    """Write the recordings of the study and the description of each arm."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, name in enumerate(names):
        own = seed + 100 * k
        plant = Plant(arm(name), own)
        (folder / f"{name}.urdf").write_text(plant.arm.urdf, encoding="utf-8")
        write_recording(folder / f"{name}_free", stream(plant, own + 1, FREE))
        touches = draw(own + 2, rounds=rounds)
        write_recording(
            folder / f"{name}_contacts", [simulate(plant, own + 3, end_of(touches), touches)]
        )
        print(f"{name}: {name}.urdf, {name}_free and {name}_contacts in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
