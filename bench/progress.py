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

    On a terminal each text replaces the previous text. Without a terminal the text is printed as a
    line, unless the previous line was printed less than ``period`` before.

    Args:
        console: console of the run.
        period: shortest time between two lines without a terminal [s].
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
