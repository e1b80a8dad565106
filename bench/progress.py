"""Progress of a long run on the console."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.status import Status


@contextmanager
def progress(console: Console, period: float) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a text as the progress of the run.

    On a terminal the text replaces the one before; elsewhere it is printed as a line.

    Args:
        console: console of the run.
        period: shortest time between two lines where there is no terminal [s].
    """
    with Status("", console=console) as status:
        printed = 0.0

        def show(what: str) -> None:
            nonlocal printed
            status.update(escape(what))
            if not console.is_terminal and time.monotonic() - printed > period:
                printed = time.monotonic()
                console.print(what, markup=False)

        yield show
