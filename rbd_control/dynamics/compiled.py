"""The one decorator that compiles a kernel, with a cache that notices every source it depends on.

numba's on-disk cache looks at the file a kernel stands in, not at the helpers it calls from other
files: an edited ``spatial.py`` would leave a stale ``coriolis.py`` kernel in use. Kernels made
with :func:`compiled` are stamped with all source files of this folder instead.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit


def _sources() -> tuple[tuple[str, int, int], ...]:
    files = sorted(Path(__file__).parent.glob("*.py"))
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)


_STAMP = _sources()


def compiled(function: Callable[..., Any]) -> Any:
    """Compile ``function`` on first use (numba, nopython) and keep the machine code on disk.

    Helpers that only kernels call need no entry of their own on disk: give them ``numba.njit``.
    """
    dispatcher = njit(cache=True)(function)
    # The stamp decides whether the stored code is still current (numba.core.caching).
    cache_file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if cache_file is not None and hasattr(cache_file, "_source_stamp"):
        cache_file._source_stamp = _STAMP
    return dispatcher
