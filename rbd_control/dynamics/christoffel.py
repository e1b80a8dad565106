"""EW21 Algorithm 2: all Christoffel symbols of the first kind in O(Nd²).

N is the number of bodies, d the depth of their tree. EW21 is Echeandia & Wensing, ASME J. Comput.
Nonlinear Dyn. 2021, doi 10.1115/1.4051169. As in ``coriolis.py``, all quantities are in world axes
about one origin, so the transforms of lines 15, 18, 19 and 22 are identities, and the factor
``B~ = B(Phi_k, I^C_k)`` is stored as ``(A, f)``. With ``[n ; f] = I^C_k Phi_k``, for the motion
subspace ``Phi_k`` of joint k and the inertia ``I^C_k`` of body k and its subtree::

    B~ x  = [ A x_w ; x_w x f ]        B~ᵀ x = [ Aᵀ x_w + f x x_u ; 0 ]
    D x   = [ -n x x_w - f x x_u - A x_w ; 0 ]
"""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics.batches import (
    Kernels,
    columns_fit,
    evaluate,
    places,
)
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.memory import keep, lane_scratch
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.spatial import (
    add,
    add_row,
    coriolis_factor,
    cross,
    cross_motion,
    dot,
    dot6,
    factor_times,
    factor_transpose_times,
    inertia_times,
    load6,
    load_inertia,
    sub,
)
from rbd_control.dynamics.state_loops import sweep_positions, sweep_positions_in_lanes
from rbd_control.dynamics.sweep import (
    new_lane_sweep,
    new_sweep,
    place_bodies,
    place_inertias,
    position_offset,
)


@inlined
def christoffel_sweep(model, q, s, Gamma):
    """Write the Christoffel symbols at the positions ``q`` (nq,) to ``Gamma`` (nv, nv, nv).

    ``model`` is the ``Constants`` of the robot, ``s`` is a ``Sweep`` as workspace. Source: EW21
    Algorithm 2.
    """
    place_bodies(model, q, s)
    place_inertias(model, s)  # line 2
    Gamma[:] = 0.0
    for k in range(model.parent.shape[0] - 1, -1, -1):  # line 4
        Phi_k, dof_k = load6(s.Phi, k), model.dof[k]
        inertia = load_inertia(s.inertia, k)
        B = coriolis_factor(Phi_k, inertia)  # line 5
        n, f = inertia_times(inertia, Phi_k)
        j = k
        while j >= 0:  # line 8
            Phi_j, dof_j = load6(s.Phi, j), model.dof[j]
            F1 = factor_times(B, Phi_j)  # line 9
            F2 = factor_transpose_times(B, Phi_j)
            D_angular = add(add(cross(n, Phi_j[0]), cross(f, Phi_j[1])), F1[0])  # line 6
            F3 = sub((0.0, 0.0, 0.0), D_angular)
            i = j
            while i >= 0:  # line 11
                Phi_i, dof_i = load6(s.Phi, i), model.dof[i]
                # Each different order of the rows i, j and k contributes once. Entries are sums,
                # because several rows may have the same degree of freedom: a joint and its rotor,
                # or a mimic joint and its leader.
                G_ijk = dot6(Phi_i, F1)  # line 12
                Gamma[dof_i, dof_j, dof_k] += G_ijk
                if j != k:
                    Gamma[dof_i, dof_k, dof_j] += G_ijk
                    if i != j:
                        G_jik = dot(Phi_i[0], F2)  # line 13
                        Gamma[dof_j, dof_i, dof_k] += G_jik
                        Gamma[dof_j, dof_k, dof_i] += G_jik
                if i != k:
                    G_kij = dot(Phi_i[0], F3)  # line 14
                    Gamma[dof_k, dof_i, dof_j] += G_kij
                    if i != j:
                        Gamma[dof_k, dof_j, dof_i] += G_kij
                i = model.parent[i]
            j = model.parent[j]
        if model.parent[k] >= 0:
            add_row(s.inertia, model.parent[k], k)  # line 22
    if position_offset(model) > 0:
        base_pairs(model, s, Gamma)


@inlined
def base_pairs(model, s, Gamma):
    """Recompute the symbols Gamma[i, j, k] where j and k both belong to a floating root.

    ``s.inertia`` must hold the composite inertias, as at the end of :func:`christoffel_sweep`.

    The six columns of the root rotate with its whole twist, so ``dPhi_dot_j / dv_k = Phi_k x
    Phi_j`` holds for every pair, in both orders. EW21 eq. 35, on which eq. 36 depends, states it
    for k <= j only. The results are the derivatives of C_ij with respect to v_k, EW21 eq. 21; they
    are not symmetric in j and k.
    """
    Gamma[:, :6, :6] = 0.0
    for i in range(model.parent.shape[0]):
        if i >= 6 and model.parent[i] < 0:
            continue  # a reflected rotor, which the base does not carry
        inertia = load_inertia(s.inertia, i if i >= 6 else 0)
        Phi_i, dof_i = load6(s.Phi, i), model.dof[i]
        F2 = inertia_times(inertia, Phi_i)
        for k in range(6):
            Phi_k = load6(s.Phi, k)
            F3 = factor_transpose_times(coriolis_factor(Phi_k, inertia), Phi_i)
            for j in range(6):
                Phi_j = load6(s.Phi, j)
                Gamma[dof_i, j, k] += dot6(cross_motion(Phi_k, Phi_j), F2) + dot(Phi_j[0], F3)


@compiled
def _christoffel_symbols(packed, q, Gamma):
    model = unpacked(packed)
    if not (columns_fit(model, q, Gamma) and Gamma.shape[2] == model.nv and places(model, q)):
        return False
    s = new_sweep(model.parent.shape[0])
    sweep_positions(christoffel_sweep, model, q, s, Gamma)
    return True


@compiled
def _christoffel_symbols_in_lanes(packed, q, Gamma):
    model = unpacked(packed)
    if not places(model, q):
        return False
    nv = model.nv
    s = new_lane_sweep(model.parent.shape[0])
    room = lane_scratch(nv**3 + nv + position_offset(model))
    sweep_positions_in_lanes(christoffel_sweep, model, q, s, room, (nv, nv, nv), Gamma)
    keep(room)
    return True


def _new_symbols(model: Model) -> tuple[np.ndarray]:
    return (np.empty((model.nv, model.nv, model.nv)),)


_CHRISTOFFEL_SYMBOLS = Kernels(_christoffel_symbols, _christoffel_symbols_in_lanes, _new_symbols)


def christoffel_symbols(
    model: Model, q: np.ndarray, *, out: np.ndarray | None = None
) -> np.ndarray:
    """Return the Christoffel symbols of the first kind, Gamma, with ``C_ij = sum_k Gamma_ijk v_k``.

    Gamma_ijk = ½ (dM_ij / dq_k + dM_ik / dq_j - dM_jk / dq_i), EW21 eq. (4).

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        out: C-contiguous float64 array for the result, (..., nv, nv, nv); overlaps no argument.

    Returns:
        Gamma[i, j, k], (..., nv, nv, nv) [torque of joint i per product of the velocities of joints
        j and k], symmetric in the last two axes. Exception: the speeds of a floating base are not
        derivatives of coordinates. Gamma[i, j, k] = dC_ij / dv_k still holds, so that Gamma v is
        the admissible C (EW21 Remark 5), but the entries where j and k both belong to the base are
        not symmetric.

    Raises:
        InputError: for a ``q`` of the wrong shape or not finite.

    Source: EW21 Algorithm 2.
    """
    return evaluate(_CHRISTOFFEL_SYMBOLS, model, None if out is None else (out,), q)[0]
