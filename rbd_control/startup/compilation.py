"""Notifications of compilation by numba, which is the slowest step of a start."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from numba.core.event import Event, Listener, install_listener

import rbd_control
from rbd_control.dynamics import kernel_cache

Compiled = Callable[[str, float], None]
"""A callback for the name of a kernel and its compilation time [s]."""

_PROBE = 2**18
"""Size of the test file for writing compiled code to a folder [bytes]; a kernel needs less."""


class CompilationWatch(Listener):
    """Reports compilations, and problems with compiled code on disk, while its context is open.

    A kernel is a function that numba compiles for direct calls from Python.

    Attributes:
        begins: called with the name of each kernel before its compilation. Helpers are compiled as
            parts of kernels and not reported; code that is found on disk is not reported either.
        done: called with the name of each kernel and its compilation time [s].
        warn: called with the warnings of :mod:`~rbd_control.dynamics.kernel_cache`, at most one of
            each kind in a process; None leaves them to Python's ``logging``.
    """

    def __init__(
        self,
        begins: Callable[[str], None] = lambda _name: None,
        done: Compiled = lambda _name, _seconds: None,
        warn: Callable[[str], object] | None = None,
    ) -> None:
        self.begins, self.done, self.warn = begins, done, warn
        self._depth = 0
        self._since = 0.0
        self._open = ExitStack()

    @property
    def is_compiling(self) -> bool:
        """Whether numba is compiling a kernel."""
        return self._depth > 0

    def __enter__(self) -> CompilationWatch:
        self._open.enter_context(install_listener("numba:compile", self))
        if self.warn:
            self._open.enter_context(_forwarded(self.warn))
        return self

    def __exit__(self, *_error: object) -> None:
        self._open.close()

    def on_start(self, event: Event) -> None:
        """Handle numba's event before the compilation of a function."""
        if self._depth == 0:
            self._since = time.perf_counter()
            self.begins(_name(event))
        self._depth += 1

    def on_end(self, event: Event) -> None:
        """Handle numba's event after the compilation of a function, successful or not."""
        self._depth -= 1
        if self._depth == 0:
            self.done(_name(event), time.perf_counter() - self._since)


def watch_compilation(
    begins: Callable[[str], None] = lambda _name: None,
    done: Compiled = lambda _name, _seconds: None,
) -> CompilationWatch:
    """Return a watch that calls functions when numba begins and ends to compile a kernel.

    Use it in a ``with`` statement: ``with watch_compilation(begins, done): ...``.

    Args:
        begins: called with the name of each kernel before its compilation.
        done: called with the name of each kernel and its compilation time [s], after it.
    """
    return CompilationWatch(begins, done)


class _Forward(logging.Handler):
    """Passes on the text of log records."""

    def __init__(self, warn: Callable[[str], object]) -> None:
        super().__init__(logging.WARNING)
        self._warn = warn

    def emit(self, record: logging.LogRecord) -> None:
        self._warn(record.getMessage())


@contextmanager
def _forwarded(warn: Callable[[str], object]) -> Iterator[None]:
    log, forward = logging.getLogger(kernel_cache.__name__), _Forward(warn)
    propagate, log.propagate = log.propagate, False
    log.addHandler(forward)
    try:
        yield
    finally:
        log.removeHandler(forward)
        log.propagate = propagate


def storage() -> Path | None:
    """Return the folder in which compiled code of this package is stored, or will be stored.

    This is the folder of the sources if it can be written or contains compiled code, otherwise
    ``rbd_control`` in NUMBA_CACHE_DIR or in the user's cache folder. The result is None if no
    folder can store the code, so that every start compiles.
    """
    for folder in kernel_cache.folders(Path(kernel_cache.__file__)):
        if any(folder.glob("*.nbc")) or _takes_files(folder):
            sources = Path(rbd_control.__file__).resolve().parent
            return sources if sources in folder.resolve().parents else folder
    return None


def _takes_files(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_PROBE))
    except OSError:
        return False
    return True


def _name(event: Event) -> str:
    function = event.data["dispatcher"].py_func
    module = function.__module__.rpartition(".")[2]
    return f"{module}.{function.__name__.lstrip('_')}"
