"""EW21 Table 2: time for symbolic Christoffel symbols.

The symbols are computed by partial derivatives of the mass matrix and by Algorithm 2. The table
needs sympy: ``python -m bench.tables ew21_symbolic``.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from rich.table import Table

from bench.tables.cylinders import Cylinders
from rbd_control.dynamics.christoffel import christoffel_sweep
from rbd_control.dynamics.constants import constants_of
from rbd_control.dynamics.coriolis import mass_matrix_sweep
from rbd_control.dynamics.model_arrays import ModelArrays
from rbd_control.dynamics.papers.symbolic import on_expressions, symbolic_arrays
from rbd_control.dynamics.sweep import new_sweep

ON_REQUEST = True

BODIES = (5, 10, 15)
PUBLISHED = {"partials of M": (1.23, 7.83, 27.1), "Algorithm 2": (0.97, 3.11, 5.88)}
"""Published times of each method for each of BODIES, in MATLAB [s]."""

CAPTION = """\
EW21 used MATLAB on an i7 of 3.2 GHz; ours is sympy on this machine, whatever else it is doing.
Compare the two lines of one system, and how they grow. Size counts the operations in the
expressions as they come out, and does not depend on the machine.
EW21 does not describe its tree. Chosen here: hinged cylinders of 1 kg and 1 m, all hinges
parallel, each carrying two more. Numbers of the mechanism are exact fractions.
Brought to their normal form, the two results are equal term by term."""


def problem(n: int) -> tuple[ModelArrays, np.ndarray]:
    """Return a binary tree of ``n`` bodies with exact fractions, and the symbols of its joints."""
    import sympy

    arrays = symbolic_arrays(Cylinders(n, children=2).model)
    return arrays, np.array(sympy.symbols(f"q1:{n + 1}", real=True))


def by_partials(arrays: ModelArrays, q: np.ndarray) -> np.ndarray:
    """Return the Christoffel symbols as expressions, by partial derivatives of M (EW21 eq. 4).

    ``Gamma_ijk = ½ (dM_ij/dq_k + dM_ik/dq_j - dM_jk/dq_i)``, (n, n, n).

    Args:
        arrays: the mechanism, from :func:`problem`.
        q: symbols of the joint positions, (n,).
    """
    n = q.size
    M, dM, Gamma = (np.empty(shape, dtype=object) for shape in ((n, n), (n, n, n), (n, n, n)))
    on_expressions(mass_matrix_sweep)(constants_of(arrays), q, on_expressions(new_sweep)(n), M)
    for i, j in np.ndindex(n, n):
        if j <= i:
            dM[i, j] = dM[j, i] = [M[i, j].diff(x) for x in q]
    for i, j, k in np.ndindex(n, n, n):
        if k <= j:
            Gamma[i, j, k] = Gamma[i, k, j] = (dM[i, j, k] + dM[i, k, j] - dM[j, k, i]) / 2
    return Gamma


def by_algorithm_2(arrays: ModelArrays, q: np.ndarray) -> np.ndarray:
    """Return the Christoffel symbols as expressions, by our kernel of EW21 Algorithm 2.

    Arguments and result are as for :func:`by_partials`.
    """
    n = q.size
    Gamma = np.empty((n, n, n), dtype=object)
    on_expressions(christoffel_sweep)(constants_of(arrays), q, on_expressions(new_sweep)(n), Gamma)
    return Gamma


def measured(method: Callable[[ModelArrays, np.ndarray], Any], n: int) -> tuple[float, int]:
    """Return the time of a method and the size of its result, for a binary tree of ``n`` bodies.

    Args:
        method: :func:`by_partials` or :func:`by_algorithm_2`.
        n: number of bodies.

    Returns:
        Time [s], and number of operations in the expressions.
    """
    from sympy import count_ops
    from sympy.core.cache import clear_cache

    arrays, q = problem(n)
    clear_cache()
    start = perf_counter()
    Gamma = method(arrays, q)
    return perf_counter() - start, sum(count_ops(x) for x in Gamma.flat)


def tables() -> list[Table]:
    """Return Table 2 of EW21 with our results."""
    table = Table(
        title="EW21 Table 2: time for symbolic Christoffel symbols of binary trees",
        caption=CAPTION,
        caption_justify="left",
    )
    table.add_column("method")
    for n in BODIES:
        for heading in ("EW21 [s]", "ours [s]", "size"):
            table.add_column(f"{n} bodies\n{heading}", justify="right")
    methods = (by_partials, by_algorithm_2)
    # The first use of sympy includes its set-up, which is not part of the times.
    measured(by_partials, 2)
    for (label, published), method in zip(PUBLISHED.items(), methods, strict=True):
        cells = []
        for n, theirs in zip(BODIES, published, strict=True):
            seconds, size = measured(method, n)
            cells += [f"{theirs:g}", f"{seconds:.2f}", f"{size:.1e}"]
        table.add_row(label, *cells)
    return [table]
