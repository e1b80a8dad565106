"""The result of a check as a page for the terminal and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rbd_control.check.findings import Level
from rbd_control.check.run import CheckResult
from rbd_control.files.output_files import write_whole
from rbd_control.reports.check_page import OUTCOMES, check_page
from rbd_control.reports.html import HtmlOutput, analysed_now
from rbd_control.reports.page import WORDS
from rbd_control.wording import printable

_STYLES: dict[Level, str] = {
    "good": "bold green",
    "doubtful": "bold yellow",
    "bad": "bold red",
}
_LEGEND = (
    "best, worst: in the directions that need the smallest and the largest force; x, y, z: along "
    "the axes of the root; -: never detected. Medians over the poses; a push must last longer "
    "than the observer's delay."
)


def print_check(result: CheckResult, console: Console) -> None:
    """Print findings, effort of each joint, and weakest pushes as tables to the console."""
    title = f"{printable(result.recording)}, {result.duration:.1f} s"
    console.print(f"[bold]check of {escape(title)}[/]")
    console.print(_lines(result))
    if result.efforts:
        console.print(_joints(result))
    if result.pushes:
        console.print(_pushes(result))
        console.print(_LEGEND, style="dim")
    console.print(f"{_marked(result.level)}: {OUTCOMES[result.level]}")


def write_check(result: CheckResult, folder: Path) -> None:
    """Write ``check.json`` and ``check.html`` into a folder, which is made if it does not exist.

    Raises:
        OSError: naming the file that cannot be written.
    """
    write_check_json(result, folder / "check.json")
    page = check_page(result.to_json(), result.evidence, analysed_now([Path(result.recording)]))
    HtmlOutput(None, folder / "check.html").write(page, Console(quiet=True))


def write_check_json(result: CheckResult, path: Path) -> None:
    """Write ``result.to_json()`` to ``path``, whose folder is made if it does not exist.

    Raises:
        OSError: naming the file that cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result.to_json(), indent=2, allow_nan=False, ensure_ascii=False)
    write_whole(path, (text + "\n").encode("utf-8", errors="backslashreplace"))


def _marked(level: Level) -> str:
    """Return the name of a level in its colour."""
    return f"[{_STYLES[level]}]{WORDS[level]}[/]"


def _lines(result: CheckResult) -> Table:
    table = Table(show_header=False)
    table.add_column("", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("")
    for line in result.lines:
        table.add_row(_marked(line.level), escape(line.topic), escape(printable(line.text)))
    return table


def _joints(result: CheckResult) -> Table:
    table = Table(
        title="effort of each joint; scale: effort per torque of the model", title_justify="left"
    )
    table.add_column("")
    table.add_column("joint", no_wrap=True)
    table.add_column("effort is")
    table.add_column("scale", justify="right", no_wrap=True)
    friction = ("Coulomb [N·m]", "viscous [N·m·s/rad]", "constant [N·m]")
    for heading in ("confidence", *friction, "unexplained [N·m]"):
        longest = max(map(len, heading.split()))
        table.add_column(escape(heading), justify="right", min_width=longest)
    for one in result.efforts:
        known = one.confidence != "none"
        table.add_row(
            _marked(one.level),
            escape(printable(one.joint)),
            one.kind.replace("_", " "),
            f"{one.scale:.3g} ± {one.deviation:.1g}" if known else "-",
            one.confidence,
            *(f"{number:.2f}" for number in (*one.friction, one.misfit)),
        )
    return table


def _pushes(result: CheckResult) -> Table:
    table = Table(title="weakest detectable push at a link's origin [N]", title_justify="left")
    table.add_column("link", no_wrap=True)
    for heading in ("best", "worst", "x", "y", "z"):
        table.add_column(heading, justify="right")
    for push in result.pushes:
        forces = (push.best, push.worst, *push.axes)
        shown = ("-" if np.isinf(force) else f"{force:.1f}" for force in forces)
        table.add_row(escape(printable(push.link)), *shown)
    return table
