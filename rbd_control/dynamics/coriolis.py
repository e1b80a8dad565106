"""EW21 Algorithm 1: mass matrix, its rate and the Coriolis matrix in one O(Nd) sweep.

N is the number of bodies, d the depth of their tree. EW21 is Echeandia & Wensing, *Numerical
Methods to Compute the Coriolis Matrix and Christoffel Symbols for Rigid-Body Systems*, ASME J.
Comput. Nonlinear Dyn. 2021, doi 10.1115/1.4051169.

The implementation differs from the publication in two ways that do not change the result:

- All quantities are in world axes about one origin. The transforms of lines 17, 24 and 25 are
  therefore identities, and the quantities of composite bodies are sums.
- Of the body-level factor ``B`` of line 6 only the twelve entries that can differ from zero are
  stored, see :func:`~rbd_control.dynamics.spatial.coriolis_factor`. The linear part of
  ``F_3 = Bᵀ Phi`` is zero.

The factorisation is the Christoffel-consistent one (EW21 Prop. 2): ``C_ij = sum_k Gamma_ijk v_k``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.batches import (
    NOT_TAKEN,
    Kernels,
    columns_fit,
    count_states,
    evaluate,
    finite,
    part,
    places,
    rows_fit,
)
from rbd_control.dynamics.compiled import compiled, compiled_for_one_state, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.lane_states import load_states, store_states
from rbd_control.dynamics.lanes import WIDTH
from rbd_control.dynamics.memory import keep, lane_scratch, numbers, scratch
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.momentum import gravity_of_subtree
from rbd_control.dynamics.spatial import (
    add6,
    add_row,
    clear,
    coriolis_factor,
    dot,
    dot6,
    factor_times,
    factor_transpose_times,
    inertia_times,
    load6,
    load_factor,
    load_inertia,
    store_factor,
)
from rbd_control.dynamics.state_loops import sweep_positions, sweep_positions_in_lanes
from rbd_control.dynamics.sweep import (
    compute_momenta,
    move_bodies,
    new_lane_sweep,
    new_sweep,
    place_bodies,
    place_inertias,
    position_offset,
)

_empty = np.empty
_as_tuple = tuple.__new__
"""Creates a named tuple in half the time that its constructor takes."""


class DynamicsTerms(NamedTuple):
    """Results of :func:`dynamics_terms`, in ``M a + C v + g = tau``."""

    M: np.ndarray
    """Mass matrix, (..., nv, nv) [kg·m², kg·m or kg]."""
    C: np.ndarray
    """Christoffel-consistent Coriolis matrix, (..., nv, nv) [torque per unit of velocity]."""
    CTv: np.ndarray
    """Cᵀ v, (..., nv) [N·m or N], as the momentum observer needs it."""
    g: np.ndarray
    """Gravity torque, (..., nv) [N·m or N]."""


@inlined
def mass_matrix_sweep(model, q, s, M):
    """Write M of one state to ``M`` (nv, nv), by composite rigid bodies, EW21 Algorithm 1.

    ``model`` is the ``Constants`` of the robot, ``q`` (nq,); ``s`` is a ``Sweep`` as workspace.
    """
    place_bodies(model, q, s)
    place_inertias(model, s)
    clear(M)
    for j in range(model.parent.shape[0] - 1, -1, -1):
        Phi_j, dof_j = load6(s.Phi, j), model.dof[j]
        F2 = inertia_times(load_inertia(s.inertia, j), Phi_j)
        M[dof_j, dof_j] += dot6(Phi_j, F2)
        i = model.parent[j]
        while i >= 0:
            dof_i = model.dof[i]
            M_ij = dot6(load6(s.Phi, i), F2)
            M[dof_i, dof_j] += M_ij
            M[dof_j, dof_i] += M_ij
            i = model.parent[i]
        if model.parent[j] >= 0:
            add_row(s.inertia, model.parent[j], j)


@inlined
def coriolis_sweep(model, q, v, s, memory, M, C, CTv, g):
    """Compute EW21 Algorithm 1 for one state, with Cᵀ v and g from the same composites.

    ``model`` is the ``Constants`` of the robot, ``q`` (nq,) and ``v`` (nv,) the state. The results
    are written to ``M`` and ``C`` (nv, nv), ``CTv`` and ``g`` (nv,). ``s``, a ``Sweep`` of n rows,
    and ``memory`` (12 n,) are workspace.
    """
    n = model.parent.shape[0]
    factor = numbers(memory, 0, (n, 12))
    place_bodies(model, q, s)
    move_bodies(model, v, s)  # lines 3 and 4
    place_inertias(model, s)  # line 5
    compute_momenta(model, s)
    for i in range(n):  # line 6
        store_factor(factor, i, coriolis_factor(load6(s.velocity, i), load_inertia(s.inertia, i)))
    clear(M)
    clear(C)
    CTv[:] = 0.0
    g[:] = 0.0
    for j in range(n - 1, -1, -1):  # line 8
        inertia = load_inertia(s.inertia, j)
        B = load_factor(factor, j)
        Phi_j, Phi_dot_j, dof_j = load6(s.Phi, j), load6(s.Phi_dot, j), model.dof[j]
        F1 = add6(inertia_times(inertia, Phi_dot_j), factor_times(B, Phi_j))  # line 9
        F2 = inertia_times(inertia, Phi_j)  # line 10
        F3 = factor_transpose_times(B, Phi_j)  # line 11
        C[dof_j, dof_j] += dot6(Phi_j, F1)  # line 12
        M[dof_j, dof_j] += dot6(Phi_j, F2)  # line 13
        CTv[dof_j] += dot6(Phi_dot_j, load6(s.momentum, j))  # derivation in momentum.py
        g[dof_j] += gravity_of_subtree(model, inertia, Phi_j)
        i = model.parent[j]
        while i >= 0:  # line 16
            Phi_i, dof_i = load6(s.Phi, i), model.dof[i]
            C[dof_i, dof_j] += dot6(Phi_i, F1)  # line 19
            C[dof_j, dof_i] += dot6(load6(s.Phi_dot, i), F2) + dot(Phi_i[0], F3)  # line 20
            M_ij = dot6(Phi_i, F2)  # line 21
            M[dof_i, dof_j] += M_ij
            M[dof_j, dof_i] += M_ij
            i = model.parent[i]
        parent = model.parent[j]
        if parent >= 0:
            add_row(s.inertia, parent, j)  # line 24
            add_row(factor, parent, j)  # line 25
            add_row(s.momentum, parent, j)


@compiled
def _mass_matrices(packed, q, M):
    model = unpacked(packed)
    if not (columns_fit(model, q, M) and places(model, q)):
        return False
    s = new_sweep(model.parent.shape[0])
    sweep_positions(mass_matrix_sweep, model, q, s, M)
    return True


@compiled
def _dynamics_terms(packed, q, v, M, C, CTv, g):
    model = unpacked(packed)
    if not (rows_fit(model, q, v) and columns_fit(model, q, M) and columns_fit(model, q, C)):
        return False
    if not (rows_fit(model, q, CTv) and rows_fit(model, q, g)):
        return False
    if not (places(model, q) and finite(v)):
        return False
    n, nv, nq = model.parent.shape[0], model.nv, model.nv + position_offset(model)
    s, memory = new_sweep(n), scratch(12 * n)
    for b in range(count_states(model, q)):
        coriolis_sweep(
            model,
            part(q, b, nq),
            part(v, b, nv),
            s,
            memory,
            part(M, b, nv),
            part(C, b, nv),
            part(CTv, b, nv),
            part(g, b, nv),
        )
    return True


@compiled_for_one_state
def _terms_of_one_state(packed, q, v, results):
    """Write M, C, Cᵀ v and g of one state to the rows of ``results`` (2 nv + 2, nv).

    Return False, and write nothing, if q or v has the wrong length or is not finite. A call with
    one array for all results takes 0.1 µs less than a call with four.
    """
    model = unpacked(packed)
    n, nv = model.parent.shape[0], model.nv
    if q.shape[0] != nv + position_offset(model) or v.shape[0] != nv:
        return False
    if not (places(model, q) and finite(v)):
        return False
    square = nv * nv
    coriolis_sweep(
        model,
        q,
        v,
        new_sweep(n),
        scratch(12 * n),
        numbers(results, 0, (nv, nv)),
        numbers(results, square, (nv, nv)),
        numbers(results, 2 * square, (nv,)),
        numbers(results, 2 * square + nv, (nv,)),
    )
    return True


@compiled
def _mass_matrices_in_lanes(packed, q, M):
    model = unpacked(packed)
    if not places(model, q):
        return False
    nv = model.nv
    s = new_lane_sweep(model.parent.shape[0])
    room = lane_scratch(nv**2 + nv + position_offset(model))
    sweep_positions_in_lanes(mass_matrix_sweep, model, q, s, room, (nv, nv), M)
    keep(room)
    return True


@compiled
def _dynamics_terms_in_lanes(packed, q, v, M, C, CTv, g):
    model = unpacked(packed)
    if not (places(model, q) and finite(v)):
        return False
    n, nv, nq = model.parent.shape[0], model.nv, model.nv + position_offset(model)
    count, square = count_states(model, q), nv * nv
    s, memory = new_lane_sweep(n), lane_scratch(12 * n)
    room = lane_scratch(nq + nv + 2 * square + 2 * nv)
    q_k, v_k = numbers(room, 0, (nq,)), numbers(room, nq, (nv,))
    after = nq + nv
    M_k, C_k = numbers(room, after, (square,)), numbers(room, after + square, (square,))
    after += 2 * square
    CTv_k, g_k = numbers(room, after, (nv,)), numbers(room, after + nv, (nv,))
    for k in range(0, count, WIDTH):
        load_states(q, k, count, q_k)
        load_states(v, k, count, v_k)
        M_matrix, C_matrix = numbers(M_k, 0, (nv, nv)), numbers(C_k, 0, (nv, nv))
        coriolis_sweep(model, q_k, v_k, s, memory, M_matrix, C_matrix, CTv_k, g_k)
        store_states(M_k, k, count, M)
        store_states(C_k, k, count, C)
        store_states(CTv_k, k, count, CTv)
        store_states(g_k, k, count, g)
    keep(room)
    return True


def _new_matrix(model: Model) -> tuple[np.ndarray]:
    return (np.empty((model.nv, model.nv)),)


def _new_terms(model: Model) -> DynamicsTerms:
    n = model.nv
    return DynamicsTerms(np.empty((n, n)), np.empty((n, n)), np.empty(n), np.empty(n))


_MASS_MATRIX = Kernels(_mass_matrices, _mass_matrices_in_lanes, _new_matrix)
_DYNAMICS_TERMS = Kernels(
    _dynamics_terms,
    _dynamics_terms_in_lanes,
    _new_terms,
    ("v",),
    one_state=(_terms_of_one_state, "(float64[::1], float64[::1], float64[::1], float64[:, ::1])"),
)


def mass_matrix(model: Model, q: np.ndarray, *, out: np.ndarray | None = None) -> np.ndarray:
    """Return the joint-space mass matrix M(q), symmetric and in general positive definite.

    It is singular if a joint carries no mass (``model.remarks`` names such joints), and may be
    singular at special configurations if links have no mass.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        out: C-contiguous float64 array for the result, (..., nv, nv); must not overlap an argument.

    Returns:
        (..., nv, nv) [kg·m² between revolute joints, kg between prismatic ones, kg·m if mixed].

    Raises:
        InputError: for a ``q`` of the wrong shape or not finite.

    Source: EW21 Algorithm 1 (the composite-rigid-body part), O(Nd).
    """
    return evaluate(_MASS_MATRIX, model, None if out is None else (out,), q)[0]


def coriolis_matrix(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the Christoffel-consistent Coriolis matrix, ``C_ij = sum_k Gamma_ijk(q) v_k``.

    ``C v`` is the Coriolis and centripetal torque, and ``M_dot - 2 C`` is skew-symmetric. Among the
    matrices with these two properties, this is the one that the Christoffel symbols define.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].

    Returns:
        (..., nv, nv) [torque or force per unit of joint velocity].

    Raises:
        InputError: for arguments of the wrong shape or not finite.

    Source: EW21 Algorithm 1, O(Nd).
    """
    return dynamics_terms(model, q, v).C


def mass_matrix_rate(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the time derivative of the mass matrix along ``v``: ``M_dot = C + Cᵀ`` (EW21 eq. 2).

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].

    Returns:
        (..., nv, nv), symmetric [unit of the mass matrix per s].

    Raises:
        InputError: for arguments of the wrong shape or not finite.

    Source: EW21 Algorithm 1, whose lines 14 and 22 compute the same sum.
    """
    C = coriolis_matrix(model, q, v)
    return C + C.swapaxes(-1, -2)


def dynamics_terms(
    model: Model, q: np.ndarray, v: np.ndarray, *, out: DynamicsTerms | None = None
) -> DynamicsTerms:
    """Return M, C, Cᵀ v and g from one sweep, in ``M a + C v + g = tau``.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        out: four C-contiguous float64 arrays for the results; must not overlap an argument.

    Returns:
        A named tuple ``M C CTv g`` with the shapes and units of :class:`DynamicsTerms`. Without
        ``out``, the arrays of a single state may be parts of one block of memory.

    Raises:
        InputError: for arguments of the wrong shape or not finite.

    Source: EW21 Algorithm 1; Cᵀ v and g as in :mod:`~rbd_control.dynamics.momentum`.
    """
    if out is None and _DYNAMICS_TERMS.is_ready:
        # The kernel checks lengths and finite numbers, its signature the types of the arrays.
        # evaluate() converts arguments that the kernel refuses, or raises an error that names them.
        try:
            n = model.nv
            end = n + n
            results = _empty((end + 2, n))
            if _terms_of_one_state(model.packed, q, v, results):
                rows = results[:n], results[n:end], results[end], results[end + 1]
                return _as_tuple(DynamicsTerms, rows)
        except NOT_TAKEN:
            pass
    return evaluate(_DYNAMICS_TERMS, model, out, q, v)
