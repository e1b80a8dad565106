"""Articulated-body algorithm: forward dynamics in O(N), without forming or factoring M.

In world axes about one origin (Featherstone 2008, chapter 7, without the transforms), for body i
with parent p, motion subspace ``Phi_i``, inertia ``I_i``, twist ``V_i``, joint velocity ``v_i``,
joint acceleration ``a_i`` and spatial acceleration ``b_i``::

    outward   xi_i  = Phi_dot_i v_i                       (velocity-product acceleration)
              pA_i  = V_i x* I_i V_i - wrench_i           (bias force)
    inward    U_i   = IA_i Phi_i,  D_i = Phi_iᵀ U_i,  u_i = tau_i - Phi_iᵀ (pA_i + IA_i xi_i)
              IA_p += IA_i - U_i U_iᵀ / D_i
              pA_p += pA_i + IA_i xi_i + U_i u_i / D_i
    outward   a_i   = (u_i - U_iᵀ b_p) / D_i,   b_i = b_p + xi_i + Phi_i a_i

The articulated inertia ``IA_i`` begins as ``I_i``. Gravity ``gamma`` is included by giving the
world the acceleration ``-gamma``.

A rotor ``R`` geared to joint ``i``, with the bias force ``p_R``, is carried by the parent and
accelerated by the same ``a_i``, so its terms are added before joint ``i`` is eliminated::

    W_i = IA_i Phi_i + I_R Phi_R,   D_i = Phi_iᵀ IA_i Phi_i + Phi_Rᵀ I_R Phi_R
    u_i = tau_i - Phi_iᵀ (pA_i + IA_i xi_i) - Phi_Rᵀ (p_R + I_R xi_R)
    IA_p += IA_i + I_R - W_i W_iᵀ / D_i
    pA_p += pA_i + IA_i xi_i + p_R + I_R xi_R + W_i u_i / D_i
    a_i   = (u_i - W_iᵀ b_p) / D_i

A joint that mimics another couples bodies that need not be neighbours, so that single bodies cannot
be eliminated. For such models :mod:`~rbd_control.dynamics.mimics` solves with M.

This is chapter 4 (Gauss' principle) of E20, corrected: Algorithm 6 as printed there leaves out the
cross terms of ``W_i W_iᵀ`` between link and rotor and counts the motor torque twice. E20 is
Echeandia, *Rigid-Body Dynamics Algorithms for Physically Interactive Robots*, thesis, Notre Dame
2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from rbd_control.dynamics.batches import (
    Kernels,
    count_states,
    evaluate,
    evaluate_checked,
    finite,
    new_vector,
    part,
    places,
    rows_fit,
)
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.fused import fma
from rbd_control.dynamics.memory import keep, lane_scratch, numbers, scratch
from rbd_control.dynamics.mimics import solve_with_mimics
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.singular import singularity, void_roundoff
from rbd_control.dynamics.spatial import (
    accumulate6,
    add6,
    add_scaled6,
    add_transform,
    cross_force,
    dot6,
    inertia_times,
    load6,
    load_inertia,
    load_matrix,
    scale6,
    store6,
    symmetric_times,
    transpose,
)
from rbd_control.dynamics.state_loops import sweep_motions, sweep_motions_in_lanes
from rbd_control.dynamics.sweep import (
    compute_momenta,
    move_bodies,
    new_lane_sweep,
    new_sweep,
    place_bodies,
    place_inertias,
    position_offset,
    subtract_wrenches,
)

# An articulated inertia is the symmetric 6x6 matrix [J, H ; Hᵀ, L] as three arrays, J and L in six
# numbers (xx, xy, xz, yy, yz, zz).


class Articulated(NamedTuple):
    """Workspace of the algorithm beside a ``Sweep``, one row per body or rotor.

    The names are those of the module's docstring; the articulated inertia IA_i is in J, H and L.
    """

    memory: np.ndarray  # the memory of all the other arrays
    J: np.ndarray  # (n, 6)
    H: np.ndarray  # (n, 3, 3)
    L: np.ndarray  # (n, 6)
    force: np.ndarray  # (n, 6) pA_i
    U: np.ndarray  # (n, 6)
    D: np.ndarray  # (n,) 1 / D_i
    u: np.ndarray  # (n,)
    rate: np.ndarray  # (n, 6) b_i
    M: np.ndarray  # (n, n) mass matrix, where joints mimic others


@njit(inline="always")
def new_articulated(n):
    """Return an :class:`Articulated` workspace for ``n`` bodies and rotors, in a kernel only."""
    return _articulated_in(scratch(41 * n + n * n), n)


@njit(inline="always")
def new_lane_articulated(n):
    """Return a workspace as :func:`new_articulated` does, whose entries are lanes, not floats."""
    return _articulated_in(lane_scratch(41 * n + n * n), n)


@inlined
def _articulated_in(memory, n):
    return Articulated(
        memory,
        numbers(memory, 0, (n, 6)),
        numbers(memory, 6 * n, (n, 3, 3)),
        numbers(memory, 15 * n, (n, 6)),
        numbers(memory, 21 * n, (n, 6)),
        numbers(memory, 27 * n, (n, 6)),
        numbers(memory, 33 * n, (n,)),
        numbers(memory, 34 * n, (n,)),
        numbers(memory, 35 * n, (n, 6)),
        numbers(memory, 41 * n, (n, n)),
    )


@inlined
def _clear(x, i):
    """Set the articulated inertia of row ``i`` to zero."""
    for k in range(6):
        x.J[i, k] = 0.0
        x.L[i, k] = 0.0
    for k in range(3):
        for m in range(3):
            x.H[i, k, m] = 0.0


@inlined
def _add_rigid(x, i, inertia):
    """Add the inertia (m, h, S), [tr(S) 1 - S, S(h) ; -S(h), m 1], to IA of row ``i``."""
    m, h, S = inertia
    x.J[i, 0] += S[3] + S[5]
    x.J[i, 1] -= S[1]
    x.J[i, 2] -= S[2]
    x.J[i, 3] += S[0] + S[5]
    x.J[i, 4] -= S[4]
    x.J[i, 5] += S[0] + S[3]
    x.H[i, 0, 1] -= h[2]
    x.H[i, 0, 2] += h[1]
    x.H[i, 1, 0] += h[2]
    x.H[i, 1, 2] -= h[0]
    x.H[i, 2, 0] -= h[1]
    x.H[i, 2, 1] += h[0]
    x.L[i, 0] += m
    x.L[i, 3] += m
    x.L[i, 5] += m


@inlined
def _load_symmetric(array, i):
    return (array[i, 0], array[i, 1], array[i, 2], array[i, 3], array[i, 4], array[i, 5])


@inlined
def _times(x, i, v):
    """Return the articulated inertia of row ``i`` times a motion."""
    H = load_matrix(x.H, i)
    return (
        add_transform(symmetric_times(_load_symmetric(x.J, i), v[0]), H, v[1]),
        add_transform(symmetric_times(_load_symmetric(x.L, i), v[1]), transpose(H), v[0]),
    )


@inlined
def _hand_over(x, parent, i, U, per_D):
    """Add IA - U Uᵀ / D of row ``i`` to the row ``parent``."""
    n, f = scale6(per_D, U)
    k = 0
    for row in range(3):
        for column in range(3):
            x.H[parent, row, column] += fma(-n[row], U[1][column], x.H[i, row, column])
        for column in range(row, 3):
            x.J[parent, k] += fma(-n[row], U[0][column], x.J[i, k])
            x.L[parent, k] += fma(-f[row], U[1][column], x.L[i, k])
            k += 1


@inlined
def bodies_apart(model, q, v, s, x):
    """Write the inertia of each single body, and its bias force ``V x* I V``, to ``x``.

    Args:
        model: ``Constants`` of the model.
        q, v: positions (nq,) and velocities (nv,) of one state.
        s: ``Sweep``, filled by this function.
        x: :class:`Articulated` workspace; J, H, L and force are filled.
    """
    place_bodies(model, q, s)
    move_bodies(model, v, s)
    place_inertias(model, s)
    compute_momenta(model, s)
    for i in range(model.parent.shape[0]):
        _clear(x, i)
        _add_rigid(x, i, load_inertia(s.inertia, i))
        store6(x.force, i, cross_force(load6(s.velocity, i), load6(s.momentum, i)))


@inlined
def articulate(model, v, tau, s, x, a):
    """Solve for the joint accelerations ``a``, (nv,), after :func:`bodies_apart`.

    The inertias and forces in ``s`` and ``x`` are overwritten. ``v`` and ``tau`` (nv,) are the
    velocities and torques of the state; external wrenches are subtracted from ``x.force`` before.
    """
    if model.bodies == model.nv:
        _articulate_tree(model, v, tau, s, x, a)
    else:
        solve_with_mimics(model, v, tau, s, x, a)


@inlined
def _articulate_tree(model, v, tau, s, x, a):
    """Solve by the inward and the outward sweep of the articulated-body algorithm."""
    for i in range(model.nv - 1, -1, -1):
        Phi_i = load6(s.Phi, i)
        U = _times(x, i, Phi_i)
        D = dot6(Phi_i, U)
        pushed = add6(load6(x.force, i), _times(x, i, scale6(v[i], load6(s.Phi_dot, i))))
        u = tau[i] - dot6(Phi_i, pushed)
        parent, r = model.parent[i], model.rotor[i]
        if r >= 0:
            # A rotor has no children, so its articulated inertia is its rigid-body inertia.
            inertia, Phi_r = load_inertia(s.inertia, r), load6(s.Phi, r)
            U_r = inertia_times(inertia, Phi_r)
            xi_r = scale6(v[i], load6(s.Phi_dot, r))
            pushed_r = add6(load6(x.force, r), inertia_times(inertia, xi_r))
            D += dot6(Phi_r, U_r)
            u -= dot6(Phi_r, pushed_r)
            if model.parent[r] == parent:
                U = add6(U, U_r)
                pushed = add6(pushed, pushed_r)
                if parent >= 0:
                    _add_rigid(x, parent, inertia)
        per_D = 1.0 / D
        store6(x.U, i, U)
        x.D[i], x.u[i] = per_D, u
        if parent >= 0:
            _hand_over(x, parent, i, U, per_D)
            accumulate6(x.force, parent, add_scaled6(pushed, u * per_D, U))
    zero = (0.0, 0.0, 0.0)
    falling = (zero, (-model.gravity[0], -model.gravity[1], -model.gravity[2]))
    for i in range(model.nv):
        parent = model.parent[i]
        b_parent = falling if parent < 0 else load6(x.rate, parent)
        a_i = (x.u[i] - dot6(load6(x.U, i), b_parent)) * x.D[i]
        a[i] = a_i
        b_i = add_scaled6(b_parent, v[i], load6(s.Phi_dot, i))
        store6(x.rate, i, add_scaled6(b_i, a_i, load6(s.Phi, i)))


@inlined
def articulated_body_sweep(model, q, v, tau, s, x, a):
    """Write the joint accelerations of one state under the torques ``tau`` to ``a``, (nv,).

    ``q`` is (nq,), ``v`` and ``tau`` are (nv,). ``s`` (``Sweep``) and ``x`` (:class:`Articulated`)
    are workspace. The result may not be finite where the mass matrix is singular.
    """
    bodies_apart(model, q, v, s, x)
    articulate(model, v, tau, s, x, a)


@inlined
def regular_sweep(model, q, v, tau, s, x, a):
    """Compute what :func:`articulated_body_sweep` does, but NaN where the mass matrix is singular.

    :func:`void_roundoff` decides which entries become NaN.
    """
    articulated_body_sweep(model, q, v, tau, s, x, a)
    void_roundoff(model, s, x, a)


@compiled
def _forward_dynamics(packed, q, v, tau, a):
    model = unpacked(packed)
    if not (rows_fit(model, q, v) and rows_fit(model, q, tau) and rows_fit(model, q, a)):
        return False
    if not (places(model, q) and finite(v) and finite(tau)):
        return False
    n = model.parent.shape[0]
    s, x = new_sweep(n), new_articulated(n)
    sweep_motions(regular_sweep, model, q, v, tau, s, x, a)
    return finite(a)


@compiled
def _forward_dynamics_pushed(packed, bodies, points, wrenches, q, v, tau, a):
    model = unpacked(packed)
    n, nv, nq = model.parent.shape[0], model.nv, model.nv + position_offset(model)
    s, x = new_sweep(n), new_articulated(n)
    pushes = bodies.shape[0]
    for k in range(count_states(model, q)):
        bodies_apart(model, part(q, k, nq), part(v, k, nv), s, x)
        subtract_wrenches(s, bodies, points, part(wrenches, k, pushes), x.force)
        a_k = part(a, k, nv)
        articulate(model, part(v, k, nv), part(tau, k, nv), s, x, a_k)
        void_roundoff(model, s, x, a_k)
    return finite(a)


@compiled
def _forward_dynamics_in_lanes(packed, q, v, tau, a):
    model = unpacked(packed)
    if not (places(model, q) and finite(v) and finite(tau)):
        return False
    n = model.parent.shape[0]
    s, x = new_lane_sweep(n), new_lane_articulated(n)
    room = lane_scratch(4 * model.nv + position_offset(model))
    sweep_motions_in_lanes(regular_sweep, model, q, v, tau, s, x, room, a)
    keep(room)
    return finite(a)


_FORWARD_DYNAMICS = Kernels(
    _forward_dynamics, _forward_dynamics_in_lanes, new_vector, ("v", "tau"), failure=singularity
)
_PUSHED = Kernels(_forward_dynamics_pushed, new_results=new_vector, failure=singularity)


def forward_dynamics(
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    tau: np.ndarray,
    wrenches: Mapping[str, Any] | None = None,
    *,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return the acceleration that a torque causes: a = M⁻¹ (tau - C v - g + sum of J_kᵀ wrench_k).

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        tau: joint torques, (..., nv) [N·m or N].
        wrenches: wrenches that the environment applies, ``{link: [moment ; force]}``, (..., 6) each
            [N·m, N], world-aligned at the link's origin. J_k is the Jacobian of link k.
        out: C-contiguous float64 array for the result, (..., nv); must not overlap an argument.

    Returns:
        (..., nv) [rad/s² or m/s²].

    Raises:
        InputError: for an unknown link, arguments of the wrong shape or not finite, or where the
            mass matrix is singular up to rounding or the result not finite; the message names the
            joint or floating base with too little inertia, if there is one.

    Source: articulated-body algorithm, Featherstone (2008) chapter 7.
    """
    results = None if out is None else (out,)
    if not wrenches:
        return evaluate(_FORWARD_DYNAMICS, model, results, q, v, tau)[0]
    return evaluate_checked(_PUSHED, model, results, q, {"v": v, "tau": tau}, wrenches)[0]
