"""Notifications of compilation, the one step of a start that takes long."""

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
    """Reports what is compiled, and trouble with compiled code on disk, while its context is open.

    Attributes:
        begins: takes the name of each kernel before it is compiled. Helpers are compiled within
            kernels and not reported, nor is code that is found on disk.
        done: takes the name of each kernel and how long it took to compile [s].
        warn: takes the warnings of :mod:`~rbd_control.dynamics.kernel_cache`, at most one of each
            kind in a process; None leaves them to Python's ``logging``.
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
        """Whether a kernel is being compiled."""
        return self._depth > 0

    def __enter__(self) -> CompilationWatch:
        self._open.enter_context(install_listener("numba:compile", self))
        if self.warn:
            self._open.enter_context(_forwarded(self.warn))
        return self

    def __exit__(self, *_error: object) -> None:
        self._open.close()

    def on_start(self, event: Event) -> None:
        """Take numba's notice that a function is going to be compiled."""
        if self._depth == 0:
            self._since = time.perf_counter()
            self.begins(_name(event))
        self._depth += 1

    def on_end(self, event: Event) -> None:
        """Take numba's notice that a function was compiled, or could not be."""
        self._depth -= 1
        if self._depth == 0:
            self.done(_name(event), time.perf_counter() - self._since)


def watch_compilation(
    begins: Callable[[str], None] = lambda _name: None,
    done: Compiled = lambda _name, _seconds: None,
) -> CompilationWatch:
    """Return a :class:`CompilationWatch`, to be opened as a context."""
    return CompilationWatch(begins, done)


class _Forward(logging.Handler):
    """Hands the text of log records on."""

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
    """Return the folder that holds the compiled code of this package, or will.

    This is the folder of the sources where they can be written or come with compiled code, else
    ``rbd_control`` in NUMBA_CACHE_DIR or in the user's cache folder. None where no folder takes
    the code and every start compiles.
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
