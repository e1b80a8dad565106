"""The decorators that compile kernels and their parts.

numba's on-disk cache looks at the file a kernel stands in, not at the helpers it calls from other
files: after an edit of ``spatial.py`` it would go on using the old ``coriolis.py`` kernel. Kernels
made with :func:`compiled` are stamped with every source file of this folder and of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit


@cache
def _stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    files = sorted(folder.glob("*.py"))
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile ``function`` on first use (numba, nopython) and keep the machine code on disk.

    Helpers that only kernels call are :func:`inlined` and need no entry of their own on disk.
    """
    try:
        dispatcher = njit(cache=True, error_model="numpy")(function)
    except RuntimeError:
        # No folder to write to, as in a read-only container: every process compiles for itself.
        return njit(error_model="numpy")(function)
    # The stamp decides whether the stored code is still current (numba.core.caching).
    cache_file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if cache_file is not None and hasattr(cache_file, "_source_stamp"):
        own = Path(function.__code__.co_filename).parent
        cache_file._source_stamp = (_stamp(Path(__file__).parent), _stamp(own))
    return dispatcher


def inlined(function: Callable[..., Any]) -> Any:
    """Compile ``function`` as a part of every kernel that calls it.

    Forcing the inlining takes a third off the 7-joint sweep of ``coriolis.py``.
    """
    return njit(forceinline=True, error_model="numpy")(function)
