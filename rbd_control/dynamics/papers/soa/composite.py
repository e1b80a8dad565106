"""Spatial operator algebra by O(N) sweeps: composite bodies and what follows from them.

**The two O(N) sweeps, gather and scatter, that evaluate every spatial operator expression.**

With ``phi = (1 - E_phi)⁻¹`` of a tree, ``y = phi x`` solves ``y = E_phi y + x``: from the tips to
the base, each body adds its value to that of its parent (gather). ``y = phiᵀ x`` solves
``y = E_phiᵀ y + x``: from the base to the tips, each body adds the value of its parent to its own
(scatter). The forward Lyapunov equation of composite bodies, ``R = E_phi R E_phiᵀ + M``, is a
gather of inertias.

All functions take the tree as ``parent`` (n,), with -1 for the world and parents before children,
and the rigid body transformations phi(parent(i), i) as ``hops`` (..., n, 6, 6). No larger matrix is
formed.

Source: J24, "Recap" and "CRBs gather recursive algorithm"; on a chain ``parent(k) = k - 1``.

**Composite bodies: their inertias, the trace of M, inverse dynamics, forces between bodies.**

Composite body k consists of body k and its subtree, with the joints of the subtree frozen. With
``R(k)`` its inertia, the forward Lyapunov equation ``M = R - E_phi R E_phiᵀ`` splits
``phi M phiᵀ = R + phi~ R + R phi~ᵀ``, and hence the forces between bodies::

    f = phi (M alpha + b)          force on the body itself, M alpha + b, and on its children
      = R alpha + y                force on the composite as a rigid body, and a residual
    y = phi [b + E_phi R (Hᵀ a + coriolis)]

Of the accelerations of the joints, ``y(k)`` depends on those in the subtree of k only, ``alpha(k)``
on those from the base to k. As in every sweep, all quantities are in world axes about one origin.
There phi contains ones and zeros (J24, "Equations of motion using inertial reference frame"), so a
gather is a sum without transforms.

Source: J24, "Composite Rigid Body Inertias", "Trace of the mass matrix", "Inverse dynamics using
CRBs", "Inter-body spatial force decompositions".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics.arguments import configuration, external_wrenches, state
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.papers.refusals import refuse_mimics
from rbd_control.dynamics.spatial import (
    accumulate6,
    add6,
    add_row,
    cross,
    cross_force,
    dot6,
    inertia_times,
    load3,
    load6,
    load_inertia,
    load_matrix,
    multiply,
    place_inertia,
    scale6,
    store6,
    store_inertia,
    sub,
    transform,
    transpose,
)
from rbd_control.dynamics.sweep import (
    compute_momenta,
    move_bodies,
    new_sweep,
    place_bodies,
    place_inertias,
    subtract_wrenches,
)

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


class InterbodyForces(NamedTuple):
    """Forces across the joints, ``force = own + outboard = composite + residual``.

    Each is (..., nv, 6), ``[moment ; force]`` [N·m, N] on the body the joint moves, about the
    origin and in the axes of its frame. The six rows of a floating base hold the same force.
    """

    force: np.ndarray
    """Force of the parent on the body, across the joint."""
    own: np.ndarray
    """Force on the body itself: M alpha + b minus external wrenches."""
    outboard: np.ndarray
    """Force of the body on its children and the rotors that it carries."""
    composite: np.ndarray
    """R alpha: force that accelerates the body and its subtree, as one rigid body, from rest."""
    residual: np.ndarray
    """y: remainder, from velocities, external wrenches and accelerations in the subtree."""


class _Motion(NamedTuple):
    """Workspace with one row per row of the model, stacked as in the source."""

    alpha: np.ndarray
    """(n, 6) spatial accelerations; that of the base is minus gravity."""
    step: np.ndarray
    """(n, 6) Hᵀ a + coriolis: contribution of the row's joint to alpha."""
    bias: np.ndarray
    """(n, 6) b minus external wrenches; the inward sweep turns it into y."""


@inlined
def _scatter(model, q, v, a, bodies, points, wrenches, s, w):
    """Compute, base to tips, alpha = phiᵀ (Hᵀ a + coriolis), and b minus external wrenches."""
    zero = (0.0, 0.0, 0.0)
    falling = (zero, (-model.gravity[0], -model.gravity[1], -model.gravity[2]))
    place_bodies(model, q, s)
    move_bodies(model, v, s)
    place_inertias(model, s)
    compute_momenta(model, s)
    for i in range(model.parent.shape[0]):
        dof, parent = model.dof[i], model.parent[i]
        step = add6(scale6(a[dof], load6(s.Phi, i)), scale6(v[dof], load6(s.Phi_dot, i)))
        store6(w.step, i, step)
        store6(w.alpha, i, add6(falling if parent < 0 else load6(w.alpha, parent), step))
        store6(w.bias, i, cross_force(load6(s.velocity, i), load6(s.momentum, i)))
    subtract_wrenches(s, bodies, points, wrenches, w.bias)


@inlined
def _gather_residual(model, i, s, w):
    """Add R and y⁺ = y + R (Hᵀ a + coriolis) of row i to its parent (J24, CRB-based)."""
    parent = model.parent[i]
    if parent >= 0:
        carried = inertia_times(load_inertia(s.inertia, i), load6(w.step, i))
        accumulate6(w.bias, parent, add6(load6(w.bias, i), carried))
        add_row(s.inertia, parent, i)


@compiled
def _composite_inverse_dynamics(packed, q, v, a, bodies, points, wrenches, tau):
    model = unpacked(packed)
    n = model.parent.shape[0]
    s = new_sweep(n)
    w = _Motion(np.empty((n, 6)), np.empty((n, 6)), np.empty((n, 6)))
    for b in range(q.shape[0]):
        _scatter(model, q[b], v[b], a[b], bodies, points, wrenches[b], s, w)
        tau[b] = 0.0
        for i in range(n - 1, -1, -1):
            rigid = inertia_times(load_inertia(s.inertia, i), load6(w.alpha, i))
            tau[b, model.dof[i]] += dot6(load6(s.Phi, i), add6(rigid, load6(w.bias, i)))
            _gather_residual(model, i, s, w)


@inlined
def _store_in_body(s, i, f, out):
    """Write a force given in world axes about the origin, in the frame of body i."""
    R = transpose(load_matrix(s.R, i))
    about_body = sub(f[0], cross(load3(s.p, i), f[1]))
    store6(out, i, (transform(R, about_body), transform(R, f[1])))


@compiled
def _interbody_forces(
    packed, q, v, a, bodies, points, wrenches, force, own, outboard, composite, residual
):
    model = unpacked(packed)
    n = model.parent.shape[0]
    s = new_sweep(n)
    w = _Motion(np.empty((n, 6)), np.empty((n, 6)), np.empty((n, 6)))
    needed, handed = np.empty((n, 6)), np.empty((n, 6))
    for b in range(q.shape[0]):
        _scatter(model, q[b], v[b], a[b], bodies, points, wrenches[b], s, w)
        for i in range(n):
            inertial = inertia_times(load_inertia(s.inertia, i), load6(w.alpha, i))
            store6(needed, i, add6(inertial, load6(w.bias, i)))
        handed[:] = 0.0
        for i in range(n - 1, -1, -1):
            total = add6(load6(needed, i), load6(handed, i))
            if i < force.shape[1]:
                rigid = inertia_times(load_inertia(s.inertia, i), load6(w.alpha, i))
                _store_in_body(s, i, total, force[b])
                _store_in_body(s, i, load6(needed, i), own[b])
                _store_in_body(s, i, load6(handed, i), outboard[b])
                _store_in_body(s, i, rigid, composite[b])
                _store_in_body(s, i, load6(w.bias, i), residual[b])
            if model.parent[i] >= 0:
                accumulate6(handed, model.parent[i], total)
            _gather_residual(model, i, s, w)


@inlined
def store_full(inertia, out):
    """Write the (6, 6) matrix of an inertia (m, h, S), angular part first, to ``out``."""
    for k in range(6):
        unit = (
            (1.0 * (k == 0), 1.0 * (k == 1), 1.0 * (k == 2)),
            (1.0 * (k == 3), 1.0 * (k == 4), 1.0 * (k == 5)),
        )
        store6(out.T, k, inertia_times(inertia, unit))


@compiled
def _composite_inertias(packed, q, out):
    model = unpacked(packed)
    n = model.parent.shape[0]
    s = new_sweep(n)
    for b in range(q.shape[0]):
        place_bodies(model, q[b], s)
        for i in range(n):
            S = load_matrix(model.second_moment, i)
            S6 = (S[0][0], S[0][1], S[0][2], S[1][1], S[1][2], S[2][2])
            store_inertia(s.inertia, i, (model.mass[i], load3(model.first_moment, i), S6))
        # In body frames, as in J24: about the world's origin, digits would cancel far from it.
        for i in range(n - 1, -1, -1):
            m, h, S6 = load_inertia(s.inertia, i)
            if i < out.shape[1]:
                store_full((m, h, S6), out[b, i])
            parent = model.parent[i]
            if parent >= 0:
                S = ((S6[0], S6[1], S6[2]), (S6[1], S6[3], S6[4]), (S6[2], S6[4], S6[5]))
                R_parent = transpose(load_matrix(s.R, parent))
                offset = transform(R_parent, sub(load3(s.p, i), load3(s.p, parent)))
                R_hop = multiply(R_parent, load_matrix(s.R, i))
                store_inertia(s.inertia, i, place_inertia(m, h, S, R_hop, offset))
                add_row(s.inertia, parent, i)


@inlined
def place_with_inertias(model, q, s):
    """Write the placements and inertias of all bodies at ``q``, (nq,), to the ``Sweep`` ``s``."""
    place_bodies(model, q, s)
    place_inertias(model, s)


@compiled
def _mass_matrix_traces(packed, q, out):
    model = unpacked(packed)
    n = model.parent.shape[0]
    s = new_sweep(n)
    for b in range(q.shape[0]):
        place_with_inertias(model, q[b], s)
        trace = 0.0
        for i in range(n - 1, -1, -1):
            Phi_i = load6(s.Phi, i)
            trace += dot6(Phi_i, inertia_times(load_inertia(s.inertia, i), Phi_i))
            if model.parent[i] >= 0:
                add_row(s.inertia, model.parent[i], i)
        out[b] = trace


def composite_inertias(model: Model, q: np.ndarray) -> np.ndarray:
    """Return the inertia of each body and its subtree as one rigid body (composite inertia).

    ``R(k) = sum of phi(k, child) R(child) phi(k, child)ᵀ + M(k)`` has the form
    ``[I, S(h) ; -S(h), m 1]`` with the mass m [kg], first moment h = m c [kg·m] and rotational
    inertia I [kg·m²] of the composite.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m]; composite k depends on joints in its subtree only.

    Returns:
        R(k) for each degree of freedom k, (..., nv, 6, 6), in the frame of the body that it moves;
        all six entries of a floating base are equal. A rotor counts as part of the body that
        carries it; a reflected rotor is excluded.

    Raises:
        InputError: for a ``q`` of the wrong shape or not finite, and a model with mimic joints.

    Source: J24, "CRBs gather recursive algorithm" (Walker & Orin); O(N).
    """
    refuse_mimics(model, "composite_inertias")
    batch, shape = configuration(model, q)
    out = np.empty((batch.shape[0], model.nv, 6, 6))
    _composite_inertias(model.packed, batch, out)
    return out.reshape(*shape, model.nv, 6, 6)


def mass_matrix_trace(model: Model, q: np.ndarray) -> np.ndarray:
    """Return the trace of the mass matrix, the sum of H(k) R(k) H(k)ᵀ, without the matrix itself.

    H(k)ᵀ is the motion subspace of joint k and R(k) the composite inertia behind it.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].

    Returns:
        (...); kg·m² and kg are summed where revolute and prismatic joints mix.

    Raises:
        InputError: for a ``q`` of the wrong shape or not finite, and a model with mimic joints.

    Source: J24, "Trace of the mass matrix"; O(N).
    """
    refuse_mimics(model, "mass_matrix_trace")
    batch, shape = configuration(model, q)
    out = np.empty(batch.shape[0])
    _mass_matrix_traces(model.packed, batch, out)
    return out.reshape(shape)[()]


def composite_inverse_dynamics(
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    a: np.ndarray,
    wrenches: Mapping[str, Any] | None = None,
) -> np.ndarray:
    """Return the torque of a motion by composite bodies, tau = H (R alpha + y).

    R alpha is the force that accelerates each body and its subtree, as one rigid body, from rest,
    y is the remainder, and H projects both on the joints. The result is that of
    :func:`~rbd_control.dynamics.inverse_dynamics`, which costs less.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        a: joint accelerations, (..., nv) [rad/s² or m/s²].
        wrenches: wrenches of the environment, ``{link: [moment ; force]}``, (..., 6) each [N·m, N],
            world-aligned at the link's origin.

    Returns:
        (..., nv) [N·m or N].

    Raises:
        InputError: for an unknown link, or arguments of the wrong shape or not finite.

    Source: J24, "CRB-based Inverse dynamics algorithm"; O(N).
    """
    (batch, velocities, accelerations), shape = state(model, q, v=v, a=a)
    tau = np.empty(velocities.shape)
    loads = external_wrenches(model, wrenches, shape)
    _composite_inverse_dynamics(model.packed, batch, velocities, accelerations, *loads, tau)
    return tau.reshape(*shape, model.nv)


def interbody_forces(
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    a: np.ndarray,
    wrenches: Mapping[str, Any] | None = None,
) -> InterbodyForces:
    """Return the force across every joint, including bearing loads, in the two splits of J24.

    The splits are the force on the body itself and on its children, and the force on the composite
    body and a residual.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        a: joint accelerations, (..., nv) [rad/s² or m/s²].
        wrenches: wrenches of the environment, ``{link: [moment ; force]}``, (..., 6) each [N·m, N],
            world-aligned at the link's origin.

    Returns:
        A named tuple ``force own outboard composite residual``, each (..., nv, 6), as
        :class:`InterbodyForces` describes. The component of the force along the axis of joint k is
        the torque of :func:`~rbd_control.dynamics.inverse_dynamics` minus the torque that
        accelerates the rotor of that joint.

    Raises:
        InputError: for an unknown link, arguments of the wrong shape or not finite, and a model
            with mimic joints.

    Source: J24, "Inter-body spatial force decompositions"; O(N).
    """
    refuse_mimics(model, "interbody_forces")
    (batch, velocities, accelerations), shape = state(model, q, v=v, a=a)
    parts = [np.empty((*velocities.shape, 6)) for _ in InterbodyForces._fields]
    loads = external_wrenches(model, wrenches, shape)
    _interbody_forces(model.packed, batch, velocities, accelerations, *loads, *parts)
    return InterbodyForces(*(part.reshape(*shape, model.nv, 6) for part in parts))
