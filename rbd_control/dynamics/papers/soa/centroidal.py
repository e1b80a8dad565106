"""Centre of mass, inertia and momentum of the whole robot, and removal of that momentum.

The inertia of the whole robot is the composite inertia of the base. Its momentum follows from the
composites::

    h_S = E phi M V = E phi R Hᵀ v

because ``phi M phiᵀ = phi R + R phi~ᵀ`` and ``E R phi~ᵀ`` is zero. Each degree of freedom
contributes the momentum of its composite body, moved as one rigid body. About the centre of mass
these momenta are the columns of the centroidal momentum matrix.

All results are in world axes; the twist of a floating base in ``v`` is in the axes of the base.
Links that are fixed to the world are excluded. Rotors are included. A reflected rotor
(``with_rotors``) is modelled as turning in a frame at rest, so its spin is not part of the
momentum.

Source: J24, "System spatial inertia and momentum", "Nullifying spatial momentum"; the centroidal
momentum matrix by that name: Orin & Goswami, IROS 2008.
"""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics.arguments import configuration, state
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.papers.soa.composite import place_with_inertias, store_full
from rbd_control.dynamics.spatial import (
    add6,
    add_row,
    cross,
    inertia_times,
    load6,
    load_inertia,
    scale,
    store6,
    sub,
)
from rbd_control.dynamics.sweep import (
    compute_momenta,
    move_bodies,
    new_sweep,
    place_bodies,
    place_inertias,
    position_offset,
)
from rbd_control.errors import InputError


@inlined
def _belongs(model, i):
    """Return whether row i moves with the system.

    All bodies do. A rotor does if its parent is the parent of its joint; the parent of a reflected
    rotor is the world.
    """
    result = i < model.bodies
    for k in range(model.bodies):
        result |= model.rotor[k] == i and model.parent[k] == model.parent[i]
    return result


@inlined
def _system(model, s):
    """Return mass, centre of mass and second moment of all bodies about the sweep's origin."""
    total = np.zeros((1, 10))
    for i in range(model.parent.shape[0]):
        if _belongs(model, i):
            for k in range(10):
                total[0, k] += s.inertia[i, k]
    m, h, S = load_inertia(total, 0)
    return m, scale(1.0 / m, h), S


@inlined
def _about(point, h):
    """Return a momentum about ``point``, from the momentum ``h`` about the origin; same axes."""
    return (sub(h[0], cross(point, h[1])), h[1])


@compiled
def _centers_of_mass(packed, q, out):
    model = unpacked(packed)
    s = new_sweep(model.parent.shape[0])
    floating = position_offset(model) > 0
    for b in range(q.shape[0]):
        place_with_inertias(model, q[b], s)
        _, c, _ = _system(model, s)
        for k in range(3):
            out[b, k] = c[k]
            if floating:
                out[b, k] += q[b, k]


@compiled
def _system_inertias(packed, q, out):
    model = unpacked(packed)
    s = new_sweep(model.parent.shape[0])
    for b in range(q.shape[0]):
        place_with_inertias(model, q[b], s)
        m, c, S = _system(model, s)
        S = (
            S[0] - m * c[0] * c[0],
            S[1] - m * c[0] * c[1],
            S[2] - m * c[0] * c[2],
            S[3] - m * c[1] * c[1],
            S[4] - m * c[1] * c[2],
            S[5] - m * c[2] * c[2],
        )
        store_full((m, (0.0, 0.0, 0.0), S), out[b])


@compiled
def _centroidal_momentum_matrices(packed, q, out):
    model = unpacked(packed)
    n = model.parent.shape[0]
    s = new_sweep(n)
    for b in range(q.shape[0]):
        place_with_inertias(model, q[b], s)
        _, c, _ = _system(model, s)
        columns = out[b].T
        columns[:] = 0.0
        for i in range(n - 1, -1, -1):
            if _belongs(model, i):
                h = inertia_times(load_inertia(s.inertia, i), load6(s.Phi, i))
                dof = model.dof[i]
                store6(columns, dof, add6(load6(columns, dof), _about(c, h)))
            if model.parent[i] >= 0:
                add_row(s.inertia, model.parent[i], i)


@compiled
def _centroidal_momenta(packed, q, v, out):
    model = unpacked(packed)
    s = new_sweep(model.parent.shape[0])
    for b in range(q.shape[0]):
        place_bodies(model, q[b], s)
        move_bodies(model, v[b], s)
        place_inertias(model, s)
        compute_momenta(model, s)
        _, c, _ = _system(model, s)
        h = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
        for i in range(model.parent.shape[0]):
            if _belongs(model, i):
                h = add6(h, load6(s.momentum, i))
        store6(out, b, _about(c, h))


def _require_mass(model: Model) -> None:
    if not model.mass > 0.0:
        raise InputError(f"nothing that moves in {model.name!r} has mass: no centre of mass")


def center_of_mass(model: Model, q: np.ndarray) -> np.ndarray:
    """Return the centre of mass of all moving bodies, in the world frame.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].

    Returns:
        (..., 3) [m].

    Raises:
        InputError: if nothing that moves has mass, or for a ``q`` of the wrong shape or not finite.

    Source: J24, "System center of mass": the first moment of ``M_S = E R Eᵀ``; O(N).
    """
    _require_mass(model)
    batch, shape = configuration(model, q)
    out = np.empty((batch.shape[0], 3))
    _centers_of_mass(model.packed, batch, out)
    return out.reshape(*shape, 3)


def center_of_mass_jacobian(model: Model, q: np.ndarray) -> np.ndarray:
    """Return the Jacobian J of the centre of mass, in world axes: its velocity is J v.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].

    Returns:
        (..., 3, nv) [m/s per unit of joint velocity].

    Raises:
        InputError: if nothing that moves has mass, or for a ``q`` of the wrong shape or not finite.

    Source: the linear rows of the centroidal momentum matrix, divided by the mass; O(N).
    """
    return centroidal_momentum_matrix(model, q)[..., 3:, :] / model.mass


def system_inertia(model: Model, q: np.ndarray) -> np.ndarray:
    """Return the inertia of the whole robot as a rigid body, about its centre of mass, world axes.

    The result is ``[I, 0 ; 0, m 1]``. With the centroidal momentum h, ``inertia⁻¹ h`` is the twist
    of the robot with the same momentum and all joints frozen.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].

    Returns:
        (..., 6, 6) [kg·m², kg].

    Raises:
        InputError: if nothing that moves has mass, or for a ``q`` of the wrong shape or not finite.

    Source: J24, "System center of mass", ``M_S = E R Eᵀ``; O(N).
    """
    _require_mass(model)
    batch, shape = configuration(model, q)
    out = np.empty((batch.shape[0], 6, 6))
    _system_inertias(model.packed, batch, out)
    return out.reshape(*shape, 6, 6)


def centroidal_momentum_matrix(model: Model, q: np.ndarray) -> np.ndarray:
    """Return the matrix A that gives the momentum of the robot about its centre of mass, h = A v.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].

    Returns:
        (..., 6, nv), angular rows first, in world axes [kg·m²/s and kg·m/s per unit of velocity].

    Raises:
        InputError: if nothing that moves has mass, or for a ``q`` of the wrong shape or not finite.

    Source: J24, "System spatial momentum", ``h_S = E phi R Hᵀ v``; Orin & Goswami 2008; O(N).
    """
    _require_mass(model)
    batch, shape = configuration(model, q)
    out = np.empty((batch.shape[0], 6, model.nv))
    _centroidal_momentum_matrices(model.packed, batch, out)
    return out.reshape(*shape, 6, model.nv)


def centroidal_momentum(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the momentum of the whole robot about its centre of mass, in world axes.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].

    Returns:
        (..., 6), angular first [kg·m²/s, kg·m/s]. Its rate is the wrench of gravity and all
        external forces about the centre of mass.

    Raises:
        InputError: if nothing that moves has mass, or for arguments of the wrong shape or not
            finite.

    Source: J24, "System spatial momentum", ``h_S = E phi M V``; O(N).
    """
    _require_mass(model)
    (batch, velocities), shape = state(model, q, v=v)
    out = np.empty((batch.shape[0], 6))
    _centroidal_momenta(model.packed, batch, velocities, out)
    return out.reshape(*shape, 6)


def nullify_momentum(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the velocity with the same joint rates and the base twist for which momentum is zero.

    ``R(n)⁻¹ h_S``, the twist of a rigid body with the inertia and the momentum of the robot, is
    subtracted from the twist V(n) of the base. Use the function to remove the drift of a simulation
    whose momentum should stay zero.

    Args:
        model: a robot with a floating base.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].

    Returns:
        (..., nv): ``v`` with other values of its first six entries.

    Raises:
        InputError: for a fixed base, if nothing that moves has mass, or for arguments of the wrong
            shape or not finite.

    Source: J24, "Nullifying spatial momentum".
    """
    if not model.floating_base:
        raise InputError(
            f"{model.name!r} has a fixed base; only a floating base can remove the momentum"
        )
    h = centroidal_momentum(model, q, v)
    # The base columns of A are R(n) in world axes about the centre of mass: A_b⁻¹ h is the twist.
    A_b = centroidal_momentum_matrix(model, q)[..., :6]
    drift = np.linalg.solve(A_b, h[..., None])[..., 0]
    result = np.array(np.broadcast_to(v, (*h.shape[:-1], model.nv)), dtype=float)
    result[..., :6] -= drift
    return result
