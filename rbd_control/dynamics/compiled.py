"""The decorators that compile kernels and their parts.

numba's on-disk cache looks at the file a kernel stands in, not at the helpers it calls from other
files: after an edit of ``spatial.py`` it would go on using the old ``coriolis.py`` kernel. Kernels
made with :func:`compiled` are stamped with every module of the package that their own imports, and
those import in turn.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit

_PACKAGE = __name__.partition(".")[0]


@cache
def _imports(file: Path) -> frozenset[Path]:
    """The files of the package that ``file`` imports from, packages' own files apart."""
    names = {
        item.module
        for item in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(item, ast.ImportFrom) and item.module
    }
    modules = [sys.modules.get(name) for name in names if name.partition(".")[0] == _PACKAGE]
    files = [Path(module.__file__) for module in modules if module and module.__file__]
    return frozenset(file for file in files if file.name != "__init__.py")


def _stamp(file: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of ``file`` and all it depends on."""
    found, new = {file}, {file}
    while new:
        new = set().union(*map(_imports, new)) - found
        found |= new
    return tuple((f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in sorted(found))


def compiled(function: Callable[..., Any]) -> Any:
    """Compile ``function`` on first use (numba, nopython) and keep the machine code on disk.

    Helpers that only kernels call are :func:`inlined` and need no entry of their own on disk.
    """
    try:
        dispatcher = njit(cache=True, error_model="numpy", nogil=True)(function)
    except RuntimeError:
        # No folder to write to, as in a read-only container: every process compiles for itself.
        return njit(error_model="numpy", nogil=True)(function)
    # The stamp decides whether the stored code is still current (numba.core.caching).
    cache_file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if cache_file is not None and hasattr(cache_file, "_source_stamp"):
        cache_file._source_stamp = _stamp(Path(function.__code__.co_filename))
    return dispatcher


def inlined(function: Callable[..., Any]) -> Any:
    """Compile ``function`` as a part of every kernel that calls it.

    Forcing the inlining takes a third off the 7-joint sweep of ``coriolis.py``.
    """
    return njit(forceinline=True, error_model="numpy")(function)
