"""The result of a check as a page for the terminal and as JSON."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from rbd_control.check.run import CheckResult
from rbd_control.files.output_files import write_json
from rbd_control.reports.check_page import (
    OUTCOMES,
    PUSH_NOTE,
    check_page,
    effort_table,
    lines_table,
    push_table,
)
from rbd_control.reports.console import level_text
from rbd_control.reports.html import HtmlOutput, analysed_now
from rbd_control.wording import printable


def print_check(result: CheckResult, console: Console) -> None:
    """Print findings, effort of each joint, and weakest pushes as tables to the console."""
    found = result.to_json()
    title = f"{printable(result.recording)}, {result.duration:.1f} s"
    console.print(f"[bold]check of {escape(title)}[/]")
    console.print(replace(lines_table(found), title="", headings=("", "")).on_console())
    if found["efforts"]:
        console.print(effort_table(found).on_console())
    if found["weakest_pushes"]:
        console.print(push_table(found).on_console())
        console.print(PUSH_NOTE, style="dim")
    console.print(
        level_text(result.level).append(f": {OUTCOMES[result.level]}", "not bold default")
    )


def write_check(result: CheckResult, folder: Path) -> None:
    """Write ``check.json`` and ``check.html`` into a folder, which is made if it does not exist.

    Raises:
        OSError: naming the file that cannot be written.
    """
    write_json(result.to_json(), folder / "check.json")
    page = check_page(result.to_json(), result.evidence, analysed_now([Path(result.recording)]))
    HtmlOutput(None, folder / "check.html").write(page, Console(quiet=True))
