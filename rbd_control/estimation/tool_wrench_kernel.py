"""The compiled part of the tool wrench; see :mod:`~rbd_control.estimation.tool_wrench`."""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.kinematics import link_point
from rbd_control.dynamics.small_systems import factor_cholesky, solve_factored
from rbd_control.dynamics.spatial import add, cross, dot, load6, load_matrix, transform
from rbd_control.dynamics.sweep import new_sweep, place_bodies
from rbd_control.estimation.isolation_kernel import PROPORTIONAL

ROUNDING = 1e-13
"""Least prior precision, as a fraction of the measured precision, so that S can be computed."""


@inlined
def _fill_jacobian(model, s, body, placement, units, A):
    """Write Jᵀ (nv, 6) of a frame of a body, each column times its unit; J has frame axes.

    Bodies whose joints mimic one another share a degree of freedom, so their contributions add up.
    """
    point = link_point(s, body, (placement[0, 3], placement[1, 3], placement[2, 3]))
    A[:] = 0.0
    for c in range(3):
        column = (placement[0, c], placement[1, c], placement[2, c])
        axis = transform(load_matrix(s.R, body), column)
        i = body
        while i >= 0:
            angular, linear = load6(s.Phi, i)
            dof = model.dof[i]
            A[dof, c] += units[c] * dot(axis, angular)
            A[dof, 3 + c] += units[3 + c] * dot(axis, add(linear, cross(angular, point)))
            i = model.parent[i]


@inlined
def _fill_noise(covariance, doubt, residual, R):
    """Write the covariance (nv, nv) of the noise of the residual."""
    for i in range(R.shape[0]):
        for j in range(R.shape[0]):
            R[i, j] = covariance[i, j]
        R[i, i] += doubt[i] ** 2 + (PROPORTIONAL * residual[i]) ** 2


@inlined
def _whiten(L, y, A):
    """Divide y (nv,) and A (nv, 6) by the Cholesky factor L, in place."""
    for i in range(L.shape[0]):
        for j in range(i):
            y[i] -= L[i, j] * y[j]
            for c in range(6):
                A[i, c] -= L[i, j] * A[j, c]
        y[i] /= L[i, i]
        for c in range(6):
            A[i, c] /= L[i, i]


@inlined
def _fill_normal_equations(A, y, N, x):
    """Write 1 + AᵀA (6, 6), lower triangle, and Aᵀy (6,)."""
    trace = 0.0
    for c in range(6):
        x[c] = 0.0
        for i in range(A.shape[0]):
            x[c] += A[i, c] * y[i]
        for d in range(c + 1):
            N[c, d] = 0.0
            for i in range(A.shape[0]):
                N[c, d] += A[i, c] * A[i, d]
        trace += N[c, c]
    for c in range(6):
        N[c, c] += 1.0 + ROUNDING * trace


@compiled
def estimate_wrenches(
    packed, body, placement, prior, covariance, q, residual, doubt, wrench, uncertainty
):
    """Fill in wrenches (k, 6) and their covariances (k, 6, 6); return whether all are finite.

    Args:
        packed: ``packed`` of the model.
        body, placement: row of the body, and placement of the frame in it, (4, 4).
        prior: prior standard deviations of the wrench ``[moment; force]``, (6,) [N·m, N].
        covariance: of the residual without contact, (nv, nv) [(N·m)² or N²].
        q: joint positions, (k, nq) [rad or m].
        residual: (k, nv) [N·m or N].
        doubt: standard deviation that the motion adds to each residual, (k, nv) [N·m or N].
        wrench, uncertainty: wrenches, (k, 6) [N·m, N], and their covariances, (k, 6, 6), written.
    """
    model, n = unpacked(packed), covariance.shape[0]
    s = new_sweep(model.parent.shape[0])
    R, A, y = np.empty((n, n)), np.empty((n, 6)), np.empty(n)
    N, x = np.empty((6, 6)), np.empty(6)
    finite = True
    for k in range(q.shape[0]):
        place_bodies(model, q[k], s)
        # In units of the prior the covariance of the wrench before the measurement is 1.
        _fill_jacobian(model, s, body, placement, prior, A)
        _fill_noise(covariance, doubt[k], residual[k], R)
        factor_cholesky(R)
        for i in range(n):
            y[i] = residual[k, i]
        _whiten(R, y, A)
        _fill_normal_equations(A, y, N, x)
        factor_cholesky(N)
        solve_factored(N, x)
        for c in range(6):
            wrench[k, c] = prior[c] * x[c]
            finite &= np.isfinite(wrench[k, c])
        for c in range(6):
            x[:] = 0.0
            x[c] = prior[c]
            solve_factored(N, x)
            for d in range(6):
                uncertainty[k, c, d] = prior[d] * x[d]
                finite &= np.isfinite(uncertainty[k, c, d])
    return finite
