"""The console of a command, and tables on it: in blocks where they are too wide, no number cut."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from rbd_control.wording import printable

if TYPE_CHECKING:
    from rbd_control.reports.page import Level, Table

WIDTH = 120
"""Width of the output if it is neither a terminal nor given by ``COLUMNS`` [characters]."""

NARROWEST = 60
"""Smallest width of the output [characters]; a narrower terminal wraps its lines itself."""

WORDS: dict[Level, str] = {"good": "GOOD", "doubtful": "LOOK", "bad": "WRONG"}
"""Label of each level in reports and on the console."""

STYLES: dict[Level, str] = {
    "good": "bold green",
    "doubtful": "bold yellow",
    "bad": "bold red",
}

NAMES = ("joint", "link")
"""Headings of the columns whose texts lose the beginning that all names share."""

_EDGE, _BORDER = 1, 3
"""Characters of the left edge of a table, and of border and padding for each column."""


def console_for_output() -> Console:
    """Return a console on standard output, as wide as the terminal or ``COLUMNS``, else 120."""
    console = Console(highlight=False)
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        console.width = WIDTH
    console.width = max(console.width, NARROWEST)
    return console


def common_prefix(names: Sequence[str]) -> str:
    """Return the beginning that all names share, such as ``panda_`` of ``panda_joint1`` and so on.

    It ends with ``_``, ``/``, ``-`` or ``.``, and each name goes on with a letter after it; it is
    empty for less than two names, or if they share no such beginning.
    """
    shared = os.path.commonprefix(list(names)) if len(set(names)) > 1 else ""
    ends = [match.end() for match in re.finditer(r"[_/.-]", shared)]
    fitting = (
        end for end in reversed(ends) if all(name[end : end + 1].isalpha() for name in names)
    )
    return shared[: next(fitting, 0)]


def without(prefix: str, text: str) -> str:
    """Return a text in which no name begins with ``prefix``."""
    return re.sub(rf"(?<![\w/]){re.escape(prefix)}", "", text) if prefix else text


@dataclass
class _Column:
    """A column: heading, cells, least and largest useful width, and the width it gets."""

    heading: str
    cells: list[Text]
    is_left: bool
    is_whole: bool
    width: int = 0

    def __post_init__(self) -> None:
        texts = [cell.plain for cell in self.cells]
        pieces = [texts, self.heading.split()]
        if not self.is_whole:
            # Numbers that belong together, such as a vector, stay on one line.
            pieces[0] = [part for text in texts for part in re.split(r" (?![\d.+±-])", text)]
        self.width = max((len(part) for parts in pieces for part in parts), default=0)
        self.most = max(map(len, (*texts, self.heading)))


@dataclass(frozen=True)
class ConsoleTable:
    """A table as ``rich`` prints it.

    If the columns do not fit into the width of the console, they are printed in blocks below each
    other, each of which begins with the columns that name the row. Numbers are never cut or broken.

    Attributes:
        table: the table.
        names: names of all joints, whose common beginning is left out in columns of joints and
            links; without them, that of the names in the column itself.
    """

    table: Table
    names: tuple[str, ...] = ()

    def __rich_console__(
        self, _console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        table = self.table
        if table.title:
            yield Text(table.title, style="italic")
        keys, others = self._columns()
        room = options.max_width - _EDGE - sum(key.width + _BORDER for key in keys)
        while keys:
            block, spare = list(keys), room
            while others and (len(block) == len(keys) or others[0].width + _BORDER <= spare):
                block.append(others.pop(0))
                spare -= block[-1].width + _BORDER
            yield self._block(block, spare)
            if not others:
                break
        if table.note:
            yield Text(table.note, style="dim italic")

    def _columns(self) -> tuple[list[_Column], list[_Column]]:
        """Return the columns that name the rows, and the others."""
        table = self.table
        columns = []
        if table.is_marked:
            columns.append(_Column("", [level_text(row.level) for row in table.rows], True, True))
        for k, heading in enumerate(table.headings):
            cells = [printable(str(row.cells[k])) for row in table.rows]
            shown = heading
            if heading in NAMES:
                prefix = common_prefix(self.names or cells)
                if any(prefix in cell for cell in cells if prefix):
                    cells = [without(prefix, cell) for cell in cells]
                    shown = f"{heading} {prefix}…"
            is_left = table.is_text or heading in table.left
            is_whole = heading in table.no_wrap
            columns.append(_Column(shown, list(map(Text, cells)), is_left, is_whole))
        keys = table.is_marked + table.keys
        return columns[:keys], columns[keys:]

    def _block(self, columns: Sequence[_Column], spare: int) -> RichTable:
        """Return columns as a table; spare characters go to those that lack the fewest."""
        widths = [column.width for column in columns]
        lacking = [max(column.most - column.width, 0) for column in columns]
        for k in sorted(range(len(columns)), key=lacking.__getitem__):
            more = min(lacking[k], spare)
            widths[k] += more
            spare -= more
        shown = RichTable(show_header=any(self.table.headings))
        for column, width in zip(columns, widths, strict=True):
            side: Literal["left", "right"] = "left" if column.is_left else "right"
            shown.add_column(Text(column.heading), justify=side, width=width)
        for cells in zip(*(column.cells for column in columns), strict=True):
            shown.add_row(*cells)
        return shown


def level_text(level: Level | Literal[""]) -> Text:
    """Return the label of a level in its colour; empty for no level."""
    return Text(WORDS[level], STYLES[level]) if level in WORDS else Text()


def program() -> list[str]:
    """Return the words of ``rbd-control``, as it can be started in this terminal.

    They are the name if ``PATH`` has this program, ``ros2 run`` in a workspace, and else its path.
    """
    path = Path(sys.argv[0])
    if path.name != "rbd-control" or shutil.which("rbd-control") == str(path.absolute()):
        return ["rbd-control"]
    if path.parts[-3:-1] == ("lib", "rbd_control"):
        return ["ros2", "run", "rbd_control", "rbd-control"]
    return [str(path)]
