"""Change of coordinates ``q = q(q_bar)`` for M, C, g and the Christoffel symbols.

With ``A = dq / dq_bar`` (eq. 22 of EW21: Echeandia & Wensing 2021)::

    M_bar = Aᵀ M A      C_bar = Aᵀ C A + Aᵀ M A_dot      g_bar = Aᵀ g      tau_bar = Aᵀ tau

An admissible C stays admissible (EW21 Prop. 3), also for generalised speeds ``v = A nu`` that are
not derivatives of coordinates (Remark 5). The Christoffel-consistent C becomes the
Christoffel-consistent C of the new coordinates (Theorem 1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.arguments import state
from rbd_control.dynamics.compiled import compiled
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.coriolis import coriolis_matrix, dynamics_terms
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.spatial import (
    add,
    add_row,
    cross,
    inertia_times,
    load6,
    load_inertia,
    scale,
    sub,
)
from rbd_control.dynamics.sweep import (
    compute_momenta,
    move_bodies,
    new_sweep,
    place_bodies,
    place_inertias,
)
from rbd_control.errors import InputError


class TransformedTerms(NamedTuple):
    """Terms of ``M nu_dot + C nu + g = Aᵀ tau`` for m generalised speeds nu with ``v = A nu``.

    Units follow from those of nu, which the caller chooses.
    """

    M: np.ndarray
    """(..., m, m) mass matrix."""
    C: np.ndarray
    """(..., m, m) admissible Coriolis matrix."""
    g: np.ndarray
    """(..., m) gravity force Aᵀ g."""
    A: np.ndarray
    """(..., nv, m) matrix of v = A nu."""
    A_dot: np.ndarray
    """(..., nv, m) rate of A."""


def change_coordinates(
    model: Model, q: np.ndarray, v: np.ndarray, A: np.ndarray, A_dot: np.ndarray
) -> TransformedTerms:
    """Return M, C and g for other generalised speeds ``nu`` with ``v = A nu``.

    ``nu`` may be the rates of new coordinates.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        A: dv / dnu, (..., nv, m); with m < nv the motion is constrained. Leading axes must
            broadcast with those of ``q`` and ``v``.
        A_dot: rate of A along ``v``, the same shape as A.

    Returns:
        A named tuple ``M C g A A_dot`` with M and C (..., m, m) and g (..., m).

    Raises:
        InputError: for arguments of the wrong shape or not finite.

    Source: EW21 eqs. 23 to 26, Prop. 3, Theorem 1, Remark 5.
    """
    A, A_dot = np.asarray(A, dtype=float), np.asarray(A_dot, dtype=float)
    for name, array in (("A", A), ("A_dot", A_dot)):
        if array.ndim < 2 or array.shape[-2] != model.nv or array.shape != A.shape:
            raise InputError(
                f"{name} has shape {array.shape}; A and A_dot must both be (..., {model.nv}, m)"
            )
        if not np.isfinite(array).all():
            raise InputError(f"{name} is not finite")
    terms = dynamics_terms(model, q, v)
    AT = A.swapaxes(-1, -2)
    return TransformedTerms(
        M=AT @ terms.M @ A,
        C=AT @ (terms.C @ A + terms.M @ A_dot),
        g=(AT @ terms.g[..., None])[..., 0],
        A=A,
        A_dot=A_dot,
    )


def change_christoffel_symbols(
    Gamma: np.ndarray, M: np.ndarray, A: np.ndarray, dA: np.ndarray
) -> np.ndarray:
    """Return the Christoffel symbols of the first kind in new coordinates ``q_bar``, unchecked.

    ``Gamma_bar_ijk = A_ai A_bj A_ck Gamma_abc + A_ai M_ab d²q_b / dq_bar_j dq_bar_k``, summed over
    a, b and c.

    Args:
        Gamma: symbols in the old coordinates, (n, n, n).
        M: mass matrix in the old coordinates, (n, n).
        A: dq / dq_bar, (n, m).
        dA: dA[b, j, k] = d²q_b / dq_bar_j dq_bar_k, (n, m, m).

    Returns:
        Symbols in the new coordinates, (m, m, m).

    Source: EW21, proof of Theorem 1.
    """
    moved = np.einsum("ai,bj,ck,abc->ijk", A, A, A, Gamma, optimize=True)
    return moved + np.einsum("ai,ab,bjk->ijk", A, M, dA, optimize=True)


def torque_velocity_derivative(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the derivative of inverse dynamics by velocity, d tau / d v = 2 C(q, v).

    Args:
        model: the robot, with a fixed base.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].

    Returns:
        (..., nv, nv) [torque or force per unit of joint velocity].

    Raises:
        InputError: for arguments of the wrong shape or not finite, and for a floating base, whose
            speeds are not derivatives of coordinates, so that Gamma_ijk is not symmetric in j and
            k.

    Source: EW21 Remark 3, eq. 28.
    """
    if model.floating_base:
        raise InputError("d tau / d v = 2 C holds for a fixed base only (EW21 Remark 3)")
    return 2.0 * coriolis_matrix(model, q, v)


@compiled
def _linear_momentum_matrices(packed, q, v, h, h_dot):
    """Write the matrix of linear momentum, (3, nv), and its rate, in world axes."""
    model = unpacked(packed)
    n = model.parent.shape[0]
    s = new_sweep(n)
    for b in range(q.shape[0]):
        place_bodies(model, q[b], s)
        move_bodies(model, v[b], s)
        place_inertias(model, s)
        compute_momenta(model, s)
        h[b] = 0.0
        h_dot[b] = 0.0
        for i in range(n - 1, -1, -1):
            inertia = load_inertia(s.inertia, i)
            Phi_i, Phi_dot_i = load6(s.Phi, i), load6(s.Phi_dot, i)
            _, column = inertia_times(inertia, Phi_i)
            # The rate of m u - h x w; the rate of the first moment h is the linear momentum.
            m, c, _ = inertia
            _, c_dot = load6(s.momentum, i)
            turning = add(cross(c_dot, Phi_i[0]), cross(c, Phi_dot_i[0]))
            rate = sub(scale(m, Phi_dot_i[1]), turning)
            for k in range(3):
                h[b, k, model.dof[i]] += column[k]
                h_dot[b, k, model.dof[i]] += rate[k]
            if model.parent[i] >= 0:
                add_row(s.inertia, model.parent[i], i)
                add_row(s.momentum, model.parent[i], i)


def decoupled_dynamics(model: Model, q: np.ndarray, v: np.ndarray) -> TransformedTerms:
    """Return floating-base dynamics with the centre of mass decoupled: block-diagonal M and C.

    With the speeds ``nu = [velocity of the centre of mass, world axes; omega; joint velocities]``
    and the mass m, ``M = diag(m 1, M_22)`` and ``C = diag(0, C_22)``.

    Args:
        model: a robot with a floating base.
        q: base pose and joint positions, (..., nq) [m, quaternion, rad or m].
        v: base twist in base axes and joint velocities, (..., nv) [rad/s or m/s].

    Returns:
        A named tuple ``M C g A A_dot`` for the nv speeds nu.

    Raises:
        InputError: for a fixed base, or arguments of the wrong shape or not finite.

    Source: EW21 Remark 6, eq. 32.
    """
    if not model.floating_base:
        raise InputError("the centre of mass splits off for a floating base only")
    (batch, velocities), shape = state(model, q, v=v)
    count, n = velocities.shape
    h, h_dot = np.empty((count, 3, n)), np.empty((count, 3, n))
    _linear_momentum_matrices(model.packed, batch, velocities, h, h_dot)
    # nu = T v: the velocity of the centre of mass replaces the root's linear velocity, v[3:6].
    T, T_dot = np.zeros((count, n, n)), np.zeros((count, n, n))
    T[:, :3], T_dot[:, :3] = h / model.mass, h_dot / model.mass
    T[:, 3:6, :3] = np.eye(3)
    T[:, 6:, 6:] = np.eye(n - 6)
    A = np.linalg.inv(T)
    A_dot = -A @ T_dot @ A
    return change_coordinates(model, q, v, A.reshape(*shape, n, n), A_dot.reshape(*shape, n, n))
