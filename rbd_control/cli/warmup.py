"""``rbd-control warmup``: compile ahead what would keep somebody waiting later."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from rbd_control.compilation import storage, watch_compilation
from rbd_control.warmup import Step, steps


class _Display:
    """A bar where somebody watches, and a line for what took long."""

    def __init__(self, total: int, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._console = console
        self._told = False
        self._bar = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> _Display:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def run(self, step: Step) -> int:
        """Go through one step; how many functions were compiled."""
        name, run = step
        times: list[float] = []
        self._doing(name)
        with watch_compilation(
            begins=lambda kernel: self._compiling(name, kernel),
            done=lambda kernel, seconds: times.append(seconds),
        ):
            run()
        if times:
            what = "function" if len(times) == 1 else "functions"
            text = f"{name}: {len(times)} {what} compiled in {sum(times):.1f} s"
            self._console.print(text, markup=False)
        self._bar.advance(self._task)
        return len(times)

    def _compiling(self, step: str, kernel: str) -> None:
        if not self._told and not self._console.is_terminal:
            self._console.print("compiling what is not there yet, which takes up to a minute")
        self._told = True
        self._doing(f"{step}: compiling {kernel}")

    def _doing(self, text: str) -> None:
        self._bar.update(self._task, description=text)


def run_warmup() -> int:
    """Compile, tell how long it took and where it is kept; 0, or 1 when it cannot be kept."""
    begin = time.perf_counter()
    every = list(steps())
    console = Console(highlight=False, soft_wrap=True)
    with _Display(len(every), console) as display:
        count = sum(display.run(step) for step in every)
    seconds = time.perf_counter() - begin
    folder = storage()
    if folder is None:
        print(
            "rbd-control: no folder for compiled code can be written, so every start compiles; "
            "set NUMBA_CACHE_DIR to one that can",
            file=sys.stderr,
        )
        return 1
    done = f"compiled {count} functions in" if count else "all compiled code is there; looking took"
    console.print(f"{done} {seconds:.1f} s", markup=False)
    console.print(f"it is kept in {folder}", markup=False)
    return 0
