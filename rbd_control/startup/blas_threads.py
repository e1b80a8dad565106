"""One thread for the linear algebra of each process.

The matrices of this package are small, so that further threads save little time. On processors that
other processes keep busy, the threads of OpenBLAS wait for each other in a loop: with two threads,
``rbd-control calibrate`` took up to five times the processor time that it takes with one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that OpenBLAS and MKL read when NumPy is imported."""


def use_one_thread() -> None:
    """Restrict the linear algebra of this process and its children to one thread each.

    If the user has set one of :data:`VARIABLES`, nothing changes. Call this function before NumPy
    is imported; later it has no effect.
    """
    if "numpy" not in sys.modules:
        os.environ.update(_restriction())


@contextmanager
def one_thread_in_children() -> Iterator[None]:
    """Restrict the linear algebra of processes that are started in this context to one thread each.

    If the user has set one of :data:`VARIABLES`, nothing changes.
    """
    added = _restriction()
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _restriction() -> dict[str, str]:
    """Return the variables to set: all, or none if the user has set one."""
    is_set = any(name in os.environ for name in VARIABLES)
    return {} if is_set else dict.fromkeys(VARIABLES, "1")
