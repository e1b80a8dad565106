"""``rbd-control warmup``: compilation ahead of time for fast later starts."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from rbd_control.cli.next_command import print_next
from rbd_control.dynamics.kernel_cache import use
from rbd_control.reports.page import count
from rbd_control.startup.compilation import CompilationWatch, storage
from rbd_control.startup.warmup import (
    BESIDE,
    Step,
    compilation_times,
    start_beside,
    steps,
    usable_cores,
)
from rbd_control.wording import listed


class _Display:
    """Shows a progress bar on a terminal, and prints a line for each step that compiles code.

    Args:
        total: number of steps.
        console: receives the output.
    """

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

    def __exit__(self, *_error: object) -> None:
        self._bar.stop()

    def run(self, step: Step) -> int:
        """Run one step of the warm-up; return the number of functions that were compiled."""
        name, run = step
        self._doing(name)
        return self._done(name, compilation_times(run, partial(self._compiling, name)))

    def wait(self, beside: Connection) -> int:
        """Wait for steps in another process; return the number of functions compiled there.

        Raises:
            EOFError: if the process has ended without them.
        """
        self._doing(listed(BESIDE))
        return sum(self._done(name, times) for name, times in beside.recv().items())

    def _done(self, name: str, times: list[float]) -> int:
        if times:
            text = f"{name}: {count(len(times), 'function')} compiled in {sum(times):.1f} s"
            self._console.print(text, markup=False)
        self._bar.advance(self._task)
        return len(times)

    def _compiling(self, step: str, kernel: str) -> None:
        if not self._told and not self._console.is_terminal:
            self._console.print("compiling missing functions, which takes a minute or two")
        self._told = True
        self._doing(f"{step}: compiling {kernel}")

    def _doing(self, text: str) -> None:
        self._bar.update(self._task, description=text)


def run_warmup() -> int:
    """Compile all code that nodes, ``replay``, ``calibrate`` and ``demo`` use, and store it.

    Code that is stored already is only loaded. With more than one processor, another process
    compiles half of the code at the same time. The number of compiled functions, the
    duration, the processor time of all processes and the folder of the compiled code are printed.

    Returns:
        The exit code: 0, or 1 if the code of a function cannot be stored in any folder, so that
        later starts compile it again.
    """
    begin, used = time.perf_counter(), _processor_time()
    here = dict(steps())
    console = Console(highlight=False, soft_wrap=True)
    with _Display(len(here), console) as display, CompilationWatch(warn=_warn):
        others = {name: here.pop(name) for name in BESIDE if name in here and usable_cores() > 1}
        beside, told = Pipe(duplex=False)
        process = start_beside(*others, told=told) if others else None
        told.close()
        compiled = sum(display.run(step) for step in here.items())
        if process is not None:
            try:
                compiled += display.wait(beside)
            except EOFError:  # too little memory for two, for example
                compiled += sum(display.run(step) for step in others.items())
            process.join()
    seconds, used = time.perf_counter() - begin, _processor_time() - used
    done = (
        f"compiled {count(compiled, 'function')} in"
        if compiled
        else "all code is compiled; the check took"
    )
    console.print(f"{done} {seconds:.1f} s ({used:.1f} s of processor time)", markup=False)
    if use.refused:
        return 1
    console.print(f"compiled code is stored in {storage()}", markup=False)
    print_next(console, "a simulated arm that is pushed", "demo")
    return 0


def _processor_time() -> float:
    """Return the processor time of this process and of its children that have ended [s]."""
    return sum(os.times()[:4])


def _warn(text: str) -> None:
    print(f"rbd-control: {text}", file=sys.stderr)
