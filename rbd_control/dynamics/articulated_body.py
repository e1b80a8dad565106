"""Articulated bodies: forward dynamics in O(N), without forming or factoring M.

In world axes about one origin (Featherstone 2008, chapter 7, with the transforms gone)::

    outward   xi_i  = Phi_dot_i v_i                       (velocity-product acceleration)
              pA_i  = v_i x* I_i v_i - wrench_i
    inward    U_i   = IA_i Phi_i,  D_i = Phi_iᵀ U_i,  u_i = tau_i - Phi_iᵀ (pA_i + IA_i xi_i)
              IA_p += IA_i - U_i U_iᵀ / D_i
              pA_p += pA_i + IA_i xi_i + U_i u_i / D_i
    outward   a_i   = (u_i - U_iᵀ a_p) / D_i,   b_i = b_p + xi_i + Phi_i a_i

The root falls upward with ``-gamma``, which is all of gravity.

A rotor ``R`` geared to joint ``i`` rides on the parent and is pushed around by the same
acceleration ``a_i``, so it joins in before joint ``i`` is eliminated::

    W_i = IA_i Phi_i + I_R Phi_R,   D_i = Phi_iᵀ IA_i Phi_i + Phi_Rᵀ I_R Phi_R
    u_i = tau_i - Phi_iᵀ (pA_i + IA_i xi_i) - Phi_Rᵀ (p_R + I_R xi_R)
    IA_p += IA_i + I_R - W_i W_iᵀ / D_i
    pA_p += pA_i + IA_i xi_i + p_R + I_R xi_R + W_i u_i / D_i
    a_i   = (u_i - W_iᵀ a_p) / D_i

This is E20 chapter 4 (Gauss' principle), corrected: Algorithm 6 as printed there leaves out the
cross terms of ``W_i W_iᵀ`` between link and rotor and counts the motor torque twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rbd_control.dynamics.arguments import external_wrenches, state
from rbd_control.dynamics.batches import over_states
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.spatial import (
    accumulate6,
    add6,
    cross_force,
    dot6,
    load6,
    load_inertia,
    scale6,
    store6,
)
from rbd_control.dynamics.sweep import (
    move_bodies,
    move_inertias,
    new_sweep,
    place_bodies,
    place_inertias,
    subtract_wrenches,
)
from rbd_control.errors import InputError


@inlined
def _full_inertia(inertia, out):
    """The 6x6 matrix of (m, h, S): [tr(S) 1 - S, S(h) ; -S(h), m 1]."""
    m, h, S = inertia
    trace = S[0] + S[3] + S[5]
    out[:] = 0.0
    out[0, 0], out[1, 1], out[2, 2] = trace - S[0], trace - S[3], trace - S[5]
    out[0, 1] = out[1, 0] = -S[1]
    out[0, 2] = out[2, 0] = -S[2]
    out[1, 2] = out[2, 1] = -S[4]
    out[3, 3] = out[4, 4] = out[5, 5] = m
    out[0, 4] = out[4, 0] = -h[2]
    out[0, 5] = out[5, 0] = h[1]
    out[1, 3] = out[3, 1] = h[2]
    out[1, 5] = out[5, 1] = -h[0]
    out[2, 3] = out[3, 2] = -h[1]
    out[2, 4] = out[4, 2] = h[0]


@inlined
def _row(A, k, x):
    return (
        A[k, 0] * x[0][0]
        + A[k, 1] * x[0][1]
        + A[k, 2] * x[0][2]
        + A[k, 3] * x[1][0]
        + A[k, 4] * x[1][1]
        + A[k, 5] * x[1][2]
    )


@inlined
def _full_times(A, x):
    """A x for a full 6x6 matrix."""
    return (
        (_row(A, 0, x), _row(A, 1, x), _row(A, 2, x)),
        (_row(A, 3, x), _row(A, 4, x), _row(A, 5, x)),
    )


@compiled
def _articulated_bodies(model, bodies, points, q, v, tau, wrenches, a):
    n = model.parent.shape[0]
    s = new_sweep(n)
    IA, pA = np.empty((n, 6, 6)), np.empty((n, 6))
    U, D, u = np.empty((n, 6)), np.empty(n), np.empty(n)
    rate = np.empty((n, 6))
    zero = (0.0, 0.0, 0.0)
    falling = (zero, (-model.gravity[0], -model.gravity[1], -model.gravity[2]))
    for b in range(q.shape[0]):
        place_bodies(model, q[b], s)
        move_bodies(model, v[b], s)
        place_inertias(model, s)
        move_inertias(model, s)
        for i in range(n):
            _full_inertia(load_inertia(s.inertia, i), IA[i])
            store6(pA, i, cross_force(load6(s.velocity, i), load6(s.momentum, i)))
        subtract_wrenches(s, bodies, points, wrenches[b], pA)
        for i in range(v.shape[1] - 1, -1, -1):
            Phi_i = load6(s.Phi, i)
            xi_i = scale6(v[b, i], load6(s.Phi_dot, i))
            W = _full_times(IA[i], Phi_i)
            pushed = add6(load6(pA, i), _full_times(IA[i], xi_i))
            D[i] = dot6(Phi_i, W)
            u[i] = tau[b, i] - dot6(Phi_i, pushed)
            parent = model.parent[i]
            r = model.rotor[i]
            if r >= 0:
                Phi_r = load6(s.Phi, r)
                W_r = _full_times(IA[r], Phi_r)
                xi_r = scale6(v[b, i], load6(s.Phi_dot, r))
                pushed_r = add6(load6(pA, r), _full_times(IA[r], xi_r))
                D[i] += dot6(Phi_r, W_r)
                u[i] -= dot6(Phi_r, pushed_r)
                if model.parent[r] == parent:
                    W = add6(W, W_r)
                    pushed = add6(pushed, pushed_r)
                    if parent >= 0:
                        IA[parent] += IA[r]
            store6(U, i, W)
            if parent >= 0:
                for k in range(6):
                    for m in range(6):
                        IA[parent, k, m] += IA[i, k, m] - U[i, k] * U[i, m] / D[i]
                accumulate6(pA, parent, add6(pushed, scale6(u[i] / D[i], W)))
        for i in range(v.shape[1]):
            parent = model.parent[i]
            b_parent = falling if parent < 0 else load6(rate, parent)
            xi_i = scale6(v[b, i], load6(s.Phi_dot, i))
            a[b, i] = (u[i] - dot6(load6(U, i), b_parent)) / D[i]
            store6(rate, i, add6(add6(b_parent, xi_i), scale6(a[b, i], load6(s.Phi, i))))


def forward_dynamics(
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    tau: np.ndarray,
    wrenches: Mapping[str, Any] | None = None,
) -> np.ndarray:
    """The acceleration a torque causes: a = M⁻¹ (tau - C v - g + sum of J_kᵀ wrench_k).

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        tau: joint torques, (..., nv) [N·m or N].
        wrenches: what the environment applies, ``{link: [moment ; force]}`` [N·m, N],
            world-aligned at the link's origin.

    Returns:
        (..., nv) [rad/s² or m/s²].

    Raises:
        InputError: for an unknown link, arguments of the wrong shape or not finite, or where the
            mass matrix is singular.

    Source: articulated-body algorithm, Featherstone (2008) chapter 7.
    """
    (batch, velocities, torques), shape = state(model, q, v=v, tau=tau)
    a = np.empty(velocities.shape)
    bodies, points, values = external_wrenches(model, wrenches, shape)
    shared = (model.arrays, bodies, points)
    over_states(_articulated_bodies, shared, batch, velocities, torques, values, a)
    if not np.isfinite(a).all():
        raise InputError("the mass matrix is singular at this configuration: massless bodies")
    return a.reshape(*shape, model.nv)
