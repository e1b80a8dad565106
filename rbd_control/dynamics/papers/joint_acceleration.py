"""Forward dynamics by the mass matrix: the solution of one dense linear system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rbd_control.dynamics.arguments import state
from rbd_control.dynamics.coriolis import mass_matrix
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.newton_euler import inverse_dynamics
from rbd_control.errors import InputError


def forward_dynamics_by_mass_matrix(
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    tau: np.ndarray,
    wrenches: Mapping[str, Any] | None = None,
) -> np.ndarray:
    """Return the acceleration that a torque causes: the solution a of ``M a = tau - b``.

    Inverse dynamics computes ``b = C v + g - sum of J_kᵀ wrench_k``, with the Jacobian J_k of link
    k. The result is that of :func:`~rbd_control.dynamics.forward_dynamics`, which costs O(N) and is
    faster for all but the shortest chains.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        tau: joint torques, (..., nv) [N·m or N].
        wrenches: wrenches that the environment applies, ``{link: [moment ; force]}``, (..., 6) each
            [N·m, N], world-aligned at the link's origin.

    Returns:
        (..., nv) [rad/s² or m/s²].

    Raises:
        InputError: for an unknown link, arguments of the wrong shape or not finite, or where the
            mass matrix is singular.

    Source: Lynch & Park, *Modern Robotics* (LP), section 9.5, algorithm GetJointAccel, eq. 9.89.
    O(nv³).
    """
    (positions, velocities, torques), shape = state(model, q, v=v, tau=tau)
    positions, velocities, torques = (
        array.reshape(*shape, array.shape[-1]) for array in (positions, velocities, torques)
    )
    still = np.zeros(model.nv)
    b = inverse_dynamics(model, positions, velocities, still, wrenches)
    M = mass_matrix(model, positions)
    R = cholesky_factor(M)
    return np.linalg.solve(R.swapaxes(-1, -2), np.linalg.solve(R, (torques - b)[..., None]))[..., 0]


def cholesky_factor(M: np.ndarray) -> np.ndarray:
    """Return the lower triangular R with ``M = R Rᵀ``, for mass matrices ``M``, (..., nv, nv).

    Raises:
        InputError: if a matrix is singular: it is not positive definite, or a squared pivot of the
            factorisation is at most 1e-13 of the diagonal entry of M, or 1e-14 of the largest one.
    """
    try:
        R = np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        R = np.zeros_like(M)
    # Squared pivot of each joint, and its entry of M; a pivot of 1e-13 of that entry is roundoff.
    # The entry itself may be roundoff, as where the joint carries only a point on its axis.
    left, own = (np.diagonal(X, axis1=-2, axis2=-1) for X in (R, M))
    if np.any(left * left <= 1e-13 * np.maximum(own, 0.1 * own.max(axis=-1, keepdims=True))):
        raise InputError("the mass matrix is singular at this configuration: massless bodies")
    return R
