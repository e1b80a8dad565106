"""Told when code is compiled: the one thing in this package that keeps somebody waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from numba.core.event import Event, Listener, install_listener

import rbd_control
from rbd_control.dynamics.kinematics import _body_placements

Compiled = Callable[[str, float], None]
"""Takes the name of a kernel and how long it took to compile [s]."""


class _Watch(Listener):
    """Kernels alone: what they are made of is compiled within them."""

    def __init__(self, begins: Callable[[str], None], done: Compiled) -> None:
        self._begins, self._done = begins, done
        self._depth = 0
        self._since = 0.0

    def on_start(self, event: Event) -> None:
        if self._depth == 0:
            self._since = time.perf_counter()
            self._begins(_name(event))
        self._depth += 1

    def on_end(self, event: Event) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._done(_name(event), time.perf_counter() - self._since)


@contextmanager
def watch_compilation(
    begins: Callable[[str], None] = lambda name: None,
    done: Compiled = lambda name, seconds: None,
) -> Iterator[None]:
    """Call ``begins(name)`` and ``done(name, seconds)`` for each kernel compiled meanwhile.

    Code that is found on disk is loaded, not compiled, and nobody is called.
    """
    with install_listener("numba:compile", _Watch(begins, done)):
        yield


def storage() -> Path | None:
    """The folder that holds the compiled code of this package.

    Beside the sources where they can be written, else below the user's cache or NUMBA_CACHE_DIR;
    None where there is no place for it and each process compiles for itself.
    """
    path = _body_placements.stats.cache_path  # one kernel tells of all
    if path is None:
        return None
    sources = Path(rbd_control.__file__).resolve().parent
    return sources if sources in Path(path).resolve().parents else Path(path).parent


def _name(event: Event) -> str:
    function = event.data["dispatcher"].py_func
    module = function.__module__.rpartition(".")[2]
    return f"{module}.{function.__name__.lstrip('_')}"
