"""Output files of the HTML report of a command: ``--html FILE``, and the folder of ``--report``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich.console import Console

from rbd_control.errors import RbdControlError
from rbd_control.files.output_files import prepare_output, write_whole
from rbd_control.reports.analysed import Analysed
from rbd_control.reports.html import html_of
from rbd_control.reports.library import PlotLibrary
from rbd_control.reports.page import Page


@dataclass(frozen=True)
class HtmlOutput:
    """The HTML files that one command writes.

    Attributes:
        file: the file of ``--html``; None without this option.
        beside: the HTML file in the folder of ``--report``; None without this option.
    """

    file: Path | None
    beside: Path | None

    @classmethod
    def of(cls, file: Path | None, folder: Path | None, name: str) -> HtmlOutput:
        """Return the requested files of a command, checked before its work begins.

        The folder of ``file`` is created; ``folder`` is neither checked nor created.

        Args:
            file: value of ``--html``, or None.
            folder: value of ``--report``, or None.
            name: name of the HTML file in ``folder``.

        Raises:
            RbdControlError: for ``--html`` if the extra ``report`` (Bokeh) is not installed.
            OSError: naming ``file``, if it cannot be written.
        """
        if file is not None:
            PlotLibrary.load()
            prepare_output(file)
        return cls(file, None if folder is None else folder / name)

    @classmethod
    def of_command(cls, arguments: argparse.Namespace, name: str, result: str) -> HtmlOutput:
        """Return the requested HTML files, after checking all outputs before the work begins.

        The folders of ``--json``, ``--report`` and ``--html`` are created.

        Args:
            arguments: parsed arguments of the command, with ``json``, ``report`` and ``html``.
            name: name of the HTML file in the folder of ``--report``.
            result: name of another file that the command writes into that folder; it stands for all
                of them in the check.

        Raises:
            RbdControlError: for ``--html`` if the extra ``report`` (Bokeh) is not installed.
            OSError: naming a file that cannot be written.
        """
        if arguments.json:
            prepare_output(arguments.json)
        if arguments.report:
            prepare_output(arguments.report / result)
        return cls.of(arguments.html, arguments.report, name)

    @property
    def is_wanted(self) -> bool:
        """Whether any file is to be written."""
        return self.file is not None or self.beside is not None

    def write(self, page: Page, console: Console) -> None:
        """Write the report to each requested file, and print the names of the files.

        If the extra ``report`` (Bokeh) is not installed, the report has no plots, and a note is
        printed.

        Raises:
            OSError: naming a file that cannot be written.
        """
        if not self.is_wanted:
            return
        try:
            library: PlotLibrary | None = PlotLibrary.load()
        except RbdControlError as error:
            library = None
            note = f"note: {self.beside} has no plots: {error.message}"
            console.print(note, markup=False, soft_wrap=True)
        content = html_of(page, library).encode("utf-8", errors="backslashreplace")
        for path in (self.file, self.beside):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, content)
                console.print(f"HTML in {path}", markup=False, soft_wrap=True)


def analysed_now(
    recordings: Sequence[Path], robot: str = "", config: Path | None = None
) -> Analysed:
    """Return the input of an analysis for its report, with the present date and time.

    Args:
        recordings: paths of the recordings.
        robot: path or name of the robot description; empty if the parameter file names it, or if it
            is unknown.
        config: parameter file; None for defaults.
    """
    made = datetime.now().astimezone()
    return Analysed(tuple(map(str, recordings)), robot, str(config) if config else "", made)
