"""The two O(N) sweeps, gather and scatter, that evaluate every spatial operator expression.

With ``phi = (1 - E_phi)⁻¹`` of a tree, ``y = phi x`` solves ``y = E_phi y + x``: from the tips to
the base, each body adds its value to that of its parent (gather). ``y = phiᵀ x`` solves
``y = E_phiᵀ y + x``: from the base to the tips, each body adds the value of its parent to its own
(scatter). The forward Lyapunov equation of composite bodies, ``R = E_phi R E_phiᵀ + M``, is a
gather of inertias.

All functions take the tree as ``parent`` (n,), with -1 for the world and parents before children,
and the rigid body transformations phi(parent(i), i) as ``hops`` (..., n, 6, 6). No larger matrix is
formed.

Source: J24, "Recap" and "CRBs gather recursive algorithm"; on a chain ``parent(k) = k - 1``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def gather(parent: NDArray[np.int64], hops: Array, x: Array) -> Array:
    """Return y = phi x, tips to base: ``y(k) = x(k) + sum of phi(k, child) y(child)``.

    The sum is over the children of k.

    Args:
        parent: the tree, (n,).
        hops: phi(parent(i), i), (..., n, 6, 6).
        x: stacked forces, (..., n, 6).

    Returns:
        (..., n, 6), force k about the origin of body k.
    """
    y = np.array(np.broadcast_to(x, np.broadcast_shapes(x.shape, hops.shape[:-1])))
    for i in reversed(range(parent.size)):
        if parent[i] >= 0:
            y[..., parent[i], :] += times(hops[..., i, :, :], y[..., i, :])
    return y


def scatter(parent: NDArray[np.int64], hops: Array, x: Array) -> Array:
    """Return y = phiᵀ x, base to tips: ``y(k) = phi(parent, k)ᵀ y(parent) + x(k)``.

    Args:
        parent: the tree, (n,).
        hops: phi(parent(i), i), (..., n, 6, 6).
        x: stacked motions, (..., n, 6).

    Returns:
        (..., n, 6), motions of the bodies.
    """
    y = np.array(np.broadcast_to(x, np.broadcast_shapes(x.shape, hops.shape[:-1])))
    for i in range(parent.size):
        if parent[i] >= 0:
            y[..., i, :] += times(hops[..., i, :, :].swapaxes(-1, -2), y[..., parent[i], :])
    return y


def gather_inertias(parent: NDArray[np.int64], hops: Array, M: Array) -> Array:
    """Return the composite inertias, tips to base: ``R(k) = M(k) + sum of phi R(child) phiᵀ``.

    The sum is over the children of k, with ``phi = phi(k, child)``.

    Args:
        parent: the tree, (n,).
        hops: phi(parent(i), i), (..., n, 6, 6).
        M: spatial inertias of the single bodies, (..., n, 6, 6).

    Returns:
        Inertia of each body and its subtree as one rigid body, (..., n, 6, 6).
    """
    R = np.array(np.broadcast_to(M, np.broadcast_shapes(M.shape, hops.shape)))
    for i in reversed(range(parent.size)):
        if parent[i] >= 0:
            hop = hops[..., i, :, :]
            R[..., parent[i], :, :] += hop @ R[..., i, :, :] @ hop.swapaxes(-1, -2)
    return R


def times(A: Array, x: Array) -> Array:
    """Return the products A x of matrices (..., m, n) and vectors (..., n), (..., m)."""
    return np.asarray((A @ x[..., None])[..., 0])
