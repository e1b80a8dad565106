"""Generalised momentum and the terms of its rate, in O(N) by sums over subtrees.

With ``h_i`` the spatial momentum of body ``i`` and its subtree, and ``(m_i, c_i)`` their mass and
first moment, in world axes about one origin::

    p = M v         p_i       = Phi_iᵀ h_i
    Cᵀ v            (Cᵀ v)_i  = Phi_dot_iᵀ h_i
    g               g_i       = -Phi_iᵀ [ c_i x gamma ; m_i gamma ]     gamma: gravity

The second line does not require the Coriolis matrix. By eq. (30) of EW21 (Echeandia & Wensing 2021)
``C = sum J_kᵀ (B_k J_k + I_k J_dot_k)``, so ``Cᵀ v = sum J_kᵀ B_kᵀ v_k + J_dot_kᵀ I_k v_k``. For an
admissible ``B``, ``Bᵀ v = I_dot v - B v = v x* I v - v x* I v = 0``. Every admissible factorisation
therefore has the same ``Cᵀ v``. If the base is fixed, this is the gradient of the kinetic energy
with respect to ``q``.

The three terms give the equation of the momentum observer, which estimates the external torque:
``p_dot = tau + Cᵀ v - g + tau_ext``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.batches import (
    Kernels,
    count_states,
    evaluate,
    finite,
    new_vector,
    part,
    places,
    rows_fit,
)
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.lane_states import load_states, store_states
from rbd_control.dynamics.lanes import WIDTH
from rbd_control.dynamics.memory import keep, lane_scratch, numbers
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.spatial import (
    add_row,
    cross,
    dot6,
    load6,
    load_inertia,
    scale,
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


class MomentumTerms(NamedTuple):
    """Terms of a momentum observer for one state or a batch, from :func:`momentum_terms`."""

    p: np.ndarray
    """Generalised momentum M v, (..., nv) [N·m·s or N·s]."""
    CTv: np.ndarray
    """Cᵀ v, (..., nv) [N·m or N]."""
    g: np.ndarray
    """Gravity torque, (..., nv) [N·m or N]."""


@inlined
def gravity_of_subtree(model, inertia, Phi):
    """Return the gravity torque of a joint [N·m or N], from the inertia of its subtree.

    ``inertia`` is ``(m, h, S)`` of the joint's body and all bodies behind it, ``Phi`` the motion
    subspace of the joint; both in world axes about one origin.
    """
    m, c, _ = inertia
    gamma = (model.gravity[0], model.gravity[1], model.gravity[2])
    return -dot6(Phi, (cross(c, gamma), scale(m, gamma)))


@inlined
def momentum_sweep(model, q, v, s, p, CTv, g):
    """Write M v, Cᵀ v and g of the state ``q`` (nq,), ``v`` (nv,) to ``p CTv g``, (nv,) each.

    ``s`` is a ``Sweep`` as workspace.
    """
    place_bodies(model, q, s)
    move_bodies(model, v, s)
    place_inertias(model, s)
    compute_momenta(model, s)
    p[:] = 0.0
    CTv[:] = 0.0
    g[:] = 0.0
    for i in range(model.parent.shape[0] - 1, -1, -1):
        h_i = load6(s.momentum, i)
        Phi_i, dof = load6(s.Phi, i), model.dof[i]
        p[dof] += dot6(Phi_i, h_i)
        CTv[dof] += dot6(load6(s.Phi_dot, i), h_i)
        g[dof] += gravity_of_subtree(model, load_inertia(s.inertia, i), Phi_i)
        parent = model.parent[i]
        if parent >= 0:
            add_row(s.inertia, parent, i)
            add_row(s.momentum, parent, i)


@inlined
def gravity_sweep(model, q, s, g):
    """Write the gravity torque at ``q`` (nq,) to ``g`` (nv,); ``s`` is a ``Sweep`` as workspace."""
    place_bodies(model, q, s)
    place_inertias(model, s)
    g[:] = 0.0
    for i in range(model.parent.shape[0] - 1, -1, -1):
        inertia = load_inertia(s.inertia, i)
        g[model.dof[i]] += gravity_of_subtree(model, inertia, load6(s.Phi, i))
        parent = model.parent[i]
        if parent >= 0:
            add_row(s.inertia, parent, i)


@inlined
def momentum_of_states(model, q, v, count, s, room, p, CTv, g):
    """Compute M v, Cᵀ v and g of ``count`` states, ``WIDTH`` at a time.

    ``q`` is (count nq,), ``v`` and the results ``p CTv g`` are (count nv,). ``s``, a ``Sweep``, and
    ``room``, (nq + 4 nv,), are workspace in lanes.
    """
    nv, nq = model.nv, model.nv + position_offset(model)
    q_k, v_k = numbers(room, 0, (nq,)), numbers(room, nq, (nv,))
    p_k, CTv_k = numbers(room, nq + nv, (nv,)), numbers(room, nq + 2 * nv, (nv,))
    g_k = numbers(room, nq + 3 * nv, (nv,))
    for k in range(0, count, WIDTH):
        load_states(q, k, count, q_k)
        load_states(v, k, count, v_k)
        momentum_sweep(model, q_k, v_k, s, p_k, CTv_k, g_k)
        store_states(p_k, k, count, p)
        store_states(CTv_k, k, count, CTv)
        store_states(g_k, k, count, g)


@compiled
def _momentum_terms(packed, q, v, p, CTv, g):
    model = unpacked(packed)
    if not (rows_fit(model, q, v) and rows_fit(model, q, p) and rows_fit(model, q, CTv)):
        return False
    if not (rows_fit(model, q, g) and places(model, q) and finite(v)):
        return False
    nv, nq = model.nv, model.nv + position_offset(model)
    s = new_sweep(model.parent.shape[0])
    for b in range(count_states(model, q)):
        momentum_sweep(
            model,
            part(q, b, nq),
            part(v, b, nv),
            s,
            part(p, b, nv),
            part(CTv, b, nv),
            part(g, b, nv),
        )
    return True


@compiled
def _momentum_terms_in_lanes(packed, q, v, p, CTv, g):
    model = unpacked(packed)
    if not (places(model, q) and finite(v)):
        return False
    s = new_lane_sweep(model.parent.shape[0])
    room = lane_scratch(5 * model.nv + position_offset(model))
    momentum_of_states(model, q, v, count_states(model, q), s, room, p, CTv, g)
    return True


@compiled
def _gravity_torques(packed, q, g):
    model = unpacked(packed)
    if not (rows_fit(model, q, g) and places(model, q)):
        return False
    s = new_sweep(model.parent.shape[0])
    sweep_positions(gravity_sweep, model, q, s, g)
    return True


@compiled
def _gravity_torques_in_lanes(packed, q, g):
    model = unpacked(packed)
    if not places(model, q):
        return False
    s = new_lane_sweep(model.parent.shape[0])
    room = lane_scratch(2 * model.nv + position_offset(model))
    sweep_positions_in_lanes(gravity_sweep, model, q, s, room, (model.nv,), g)
    keep(room)
    return True


def _new_terms(model: Model) -> MomentumTerms:
    n = model.nv
    return MomentumTerms(np.empty(n), np.empty(n), np.empty(n))


_MOMENTUM_TERMS = Kernels(_momentum_terms, _momentum_terms_in_lanes, _new_terms, ("v",))
_GRAVITY_TORQUE = Kernels(_gravity_torques, _gravity_torques_in_lanes, new_vector)


def momentum_terms(
    model: Model, q: np.ndarray, v: np.ndarray, *, out: MomentumTerms | None = None
) -> MomentumTerms:
    """Return the momentum p = M v, Cᵀ v and gravity torque g, from one O(N) sweep.

    A momentum observer estimates the external torque from ``p_dot = tau + Cᵀ v - g + tau_ext``.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        out: three C-contiguous float64 arrays for the results; must not overlap an argument.

    Returns:
        A named tuple ``p CTv g``, each (..., nv) [N·m·s or N·s for p, N·m or N for the others].

    Raises:
        InputError: for arguments of the wrong shape or not finite.
    """
    return evaluate(_MOMENTUM_TERMS, model, out, q, v)


def momentum(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the generalised momentum p = M(q) v.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].

    Returns:
        (..., nv) [N·m·s at revolute joints, N·s at prismatic ones].

    Raises:
        InputError: for arguments of the wrong shape or not finite.
    """
    return momentum_terms(model, q, v).p


def coriolis_transpose_product(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the product C(q, v)ᵀ v, in O(N) and without C.

    With a fixed base it is the gradient of the kinetic energy ½ vᵀ M(q) v with respect to ``q``.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].

    Returns:
        (..., nv) [N·m or N].

    Raises:
        InputError: for arguments of the wrong shape or not finite.
    """
    return momentum_terms(model, q, v).CTv


def gravity_torque(model: Model, q: np.ndarray, *, out: np.ndarray | None = None) -> np.ndarray:
    """Return the gravity torque g(q) in ``M a + C v + g = tau``, which holds the robot at rest.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        out: C-contiguous float64 array for the result, (..., nv); must not overlap an argument.

    Returns:
        (..., nv) [N·m or N], the gradient of the potential energy, whose rate is ``gᵀ v``.

    Raises:
        InputError: for a ``q`` of the wrong shape or not finite.
    """
    return evaluate(_GRAVITY_TORQUE, model, None if out is None else (out,), q)[0]
