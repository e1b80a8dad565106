"""Symmetric linear systems with few unknowns, for kernels.

A call of LAPACK's solver instead would take numba two seconds to compile.
"""

import math

from rbd_control.dynamics.compiled import inlined


@inlined
def factor_cholesky(A):
    """Replace the lower triangle of ``A`` (n, n) by the Cholesky factor L of A = L Lᵀ.

    A must be symmetric and positive definite, which is not checked; only its lower triangle is
    read.
    """
    for i in range(A.shape[0]):
        for j in range(i + 1):
            total = A[i, j]
            for k in range(j):
                total -= A[i, k] * A[j, k]
            A[i, j] = math.sqrt(total) if i == j else total / A[j, j]


@inlined
def solve_factored(L, b):
    """Solve L Lᵀ x = b: ``b`` (n,) is replaced by x; only the lower triangle of L (n, n) is read.

    L is a result of :func:`factor_cholesky`.
    """
    n = L.shape[0]
    for i in range(n):
        for k in range(i):
            b[i] -= L[i, k] * b[k]
        b[i] /= L[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            b[i] -= L[k, i] * b[k]
        b[i] /= L[i, i]
