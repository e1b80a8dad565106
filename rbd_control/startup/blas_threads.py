"""One thread for the linear algebra of each process.

The matrices of this package are small. On processors that other processes keep busy, the threads of
OpenBLAS wait for each other in a loop, and ``rbd-control calibrate`` took up to five times its
processor time; on idle processors they hardly shorten it.
"""

from __future__ import annotations

import os
import sys

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that OpenBLAS and MKL read when NumPy is imported."""


def use_one_thread() -> None:
    """Restrict the linear algebra of this process and its children to one thread.

    Variables that the user has set keep their values. Call it before NumPy is imported; later it
    has no effect.
    """
    if "numpy" not in sys.modules:
        for name in VARIABLES:
            os.environ.setdefault(name, "1")
