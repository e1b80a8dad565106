"""GDAHJ: the mass matrix of a serial chain of revolute joints, in 3 n² + O(n) multiplications.

Safeea, Béarée & Neto, *Reducing the Computational Complexity of Mass-Matrix Calculation for High
DOF Robots*, IROS 2018 (S18). Column j of the mass matrix A holds the torques at rest for a unit
acceleration of joint j alone. The forces are summed over the bodies from i to the tip and projected
on axis i::

    A_ij = k_jᵀ d_i + t_jᵀ y_i,  j <= i                           (S18 eq. 31, Algorithm 1)

The factors that depend on j are the axis ``k_j`` and ``t_j = k_j x p_j``, with ``p_j`` the origin
of frame j. The factors that depend on i are, in base axes::

    d_i = D_iᵀ k_i      D_i = sum_{k >= i} R_k I_k R_kᵀ + kappa_k           (eq. 28)
    y_i = b_i x k_i     b_i = sum_{k >= i} eta_k                            (eq. 27)
    eta_i   = m_i p_Cii + (sum_{k > i} m_k) l_i                             (eq. 23)
    kappa_i = -m_i S(p_Cii) S(p_Ci) - S(l_i) sum_{k > i} m_k S(p_Ck)        (eq. 24)

with ``p_Ci`` the centre of mass of body i, ``p_Cii = p_Ci - p_i`` and ``l_i = p_{i+1} - p_i``.

Corrections of the source:

- In the last line of eq. 31 the first factor is k_jᵀ, not k_iᵀ, as in the line before it.
- Algorithm 1 has the same error: k_jᵀ d_i + t_jᵀ y_i is meant.
- ``y_i`` is ``b_i x k_i``; the text below eq. 31 has the transposed operator, of opposite sign.

Two constants of each link are combined in advance. ``m_i p_Cii`` in link axes is the first
moment of mass. With ``p_Ci = p_i + p_Cii`` the first product of eq. 24 is the sum of
``-m_i S(p_Cii) S(p_Cii)``, which moves the inertia from the centre of mass to the origin of the
link, and ``-m_i S(p_Cii) S(p_i)``.

S18 does not state how it computes ``R I Rᵀ``, which takes 45 multiplications if the symmetry of the
result is used. Here the inertia is written as ``least 1 + g gᵀ + h hᵀ``, with its smallest
principal value ``least``; rotating g and h gives ``R I Rᵀ`` in 30 multiplications.
``bench/tables/s18.py`` counts the operations. As in S18, the positions and orientations of the
links are not counted.

``[d_i ; -y_i]`` is the momentum of composite body i about the base's origin for a unit rate of
joint i. GDAHJ therefore is the composite-rigid-body algorithm in base axes, as is
:func:`~rbd_control.dynamics.mass_matrix`, which takes every robot.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.arguments import configuration
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.model_arrays import PRISMATIC
from rbd_control.dynamics.spatial import (
    add,
    cross,
    dot,
    load3,
    load6,
    load_matrix,
    scale,
    store3,
    sub,
    transform,
    transpose,
)
from rbd_control.dynamics.sweep import new_sweep, place_bodies
from rbd_control.errors import InputError


class Chain(NamedTuple):
    """Constants of the links in link axes.

    The inertia about the link's origin is ``least 1 + g gᵀ + h hᵀ`` [kg·m²], with the unit
    matrix 1.
    """

    mass: np.ndarray  # (n,)
    first_moment: np.ndarray  # (n, 3), m_i p_Cii
    least: np.ndarray  # (n,)
    g: np.ndarray  # (n, 3)
    h: np.ndarray  # (n, 3)


class Columns(NamedTuple):
    """Vectors that depend on one index of A, (n, 3) each; names as in the module's docstring."""

    k: np.ndarray
    t: np.ndarray
    d: np.ndarray
    y: np.ndarray


@lru_cache(maxsize=16)
def chain_of(model: Model) -> Chain:
    """Return the constants of the links of a serial chain of revolute joints.

    Raises:
        InputError: for any other robot, naming the joint or the floating base.
    """
    arrays, names = model.arrays, model.joint_names
    wants = "GDAHJ is for serial chains of revolute joints"
    if model.floating_base:
        raise InputError(f"{wants}; the base of this robot, {model.root_link!r}, floats")
    if model.mimic_joints:
        raise InputError(f"{wants}; joint {model.mimic_joints[0]!r} mimics another")
    for i, name in enumerate(names):
        if arrays.joint_type[i] == PRISMATIC:
            raise InputError(f"{wants}; joint {name!r} is prismatic")
        if arrays.parent[i] != i - 1:
            raise InputError(f"{wants}; joint {name!r} branches off before joint {names[i - 1]!r}")
        if arrays.rotor[i] >= 0:
            raise InputError(f"{wants} without rotors; joint {name!r} has one")
    S = arrays.second_moment
    inertia = np.trace(S, axis1=1, axis2=2)[:, None, None] * np.eye(3) - S
    value, axis = np.linalg.eigh(inertia)
    vectors = np.sqrt(value - value[:, :1])[:, None, :] * axis
    g, h = vectors[:, :, 1].copy(), vectors[:, :, 2].copy()
    return Chain(arrays.mass, arrays.first_moment, value[:, 0].copy(), g, h)


@inlined
def _add_matrices(A, B):
    return (add(A[0], B[0]), add(A[1], B[1]), add(A[2], B[2]))


@inlined
def _minus_cross_cross(x, y):
    """Return -S(x) S(y) = (xᵀy) 1 - y xᵀ."""
    a, b, c = x[0] * y[0], x[1] * y[1], x[2] * y[2]
    return (
        (b + c, -(y[0] * x[1]), -(y[0] * x[2])),
        (-(y[1] * x[0]), a + c, -(y[1] * x[2])),
        (-(y[2] * x[0]), -(y[2] * x[1]), a + b),
    )


@inlined
def _rotated_inertia(least, g, h):
    """Return ``least`` 1 + g gᵀ + h hᵀ, for g and h in base axes."""
    xy = g[0] * g[1] + h[0] * h[1]
    xz = g[0] * g[2] + h[0] * h[2]
    yz = g[1] * g[2] + h[1] * h[2]
    return (
        (least + (g[0] * g[0] + h[0] * h[0]), xy, xz),
        (xy, least + (g[1] * g[1] + h[1] * h[1]), yz),
        (xz, yz, least + (g[2] * g[2] + h[2] * h[2])),
    )


@inlined
def gdahj_sweep(chain, s, columns, A):
    """Write the mass matrix of one state to ``A``, (n, n), by S18 Algorithm 1.

    ``chain`` has the constants, ``s`` is the ``Sweep`` after ``place_bodies``, ``columns`` is
    workspace.
    """
    n = chain.mass.shape[0]
    zero = (0.0, 0.0, 0.0)
    mass, moment = 0.0, zero  # sums over k > i of m_k and m_k p_Ck
    b, D = zero, (zero, zero, zero)
    for i in range(n - 1, -1, -1):
        R, p = load_matrix(s.R, i), load3(s.p, i)
        k = load6(s.Phi, i)[0]
        m_p = transform(R, load3(chain.first_moment, i))  # m_i p_Cii
        g, h = transform(R, load3(chain.g, i)), transform(R, load3(chain.h, i))
        eta = m_p  # eq. 23
        D = _add_matrices(D, _rotated_inertia(chain.least[i], g, h))  # eq. 28, R I Rᵀ
        D = _add_matrices(D, _minus_cross_cross(m_p, p))  # and eq. 24
        if i + 1 < n:
            link = sub(load3(s.p, i + 1), p)
            eta = add(eta, scale(mass, link))
            D = _add_matrices(D, _minus_cross_cross(link, moment))
        b = add(b, eta)  # eq. 27
        mass += chain.mass[i]
        moment = add(moment, add(m_p, scale(chain.mass[i], p)))
        store3(columns.k, i, k)
        store3(columns.t, i, cross(k, p))
        store3(columns.d, i, transform(transpose(D), k))
        store3(columns.y, i, cross(b, k))
    for i in range(n):  # Algorithm 1
        d, y = load3(columns.d, i), load3(columns.y, i)
        for j in range(i + 1):
            A_ij = dot(load3(columns.k, j), d) + dot(load3(columns.t, j), y)
            A[i, j] = A_ij
            A[j, i] = A_ij


@compiled
def _mass_matrices(packed, chain, q, A):
    model = unpacked(packed)
    n = model.parent.shape[0]
    s = new_sweep(n)
    columns = Columns(np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3)))
    for b in range(q.shape[0]):
        place_bodies(model, q[b], s)
        gdahj_sweep(chain, s, columns, A[b])


def mass_matrix_gdahj(model: Model, q: np.ndarray) -> np.ndarray:
    """Return the mass matrix M(q) of a serial chain of revolute joints, by GDAHJ.

    Args:
        model: the robot: one chain from a fixed base, all joints revolute, no rotors.
        q: joint positions, (..., nq) [rad].

    Returns:
        (..., nv, nv) [kg·m²], equal to that of :func:`~rbd_control.dynamics.mass_matrix`.

    Raises:
        InputError: for another kind of robot, naming the joint or the floating base; for a ``q`` of
            the wrong shape or not finite.

    Source: S18 (Safeea, Béarée & Neto 2018), Algorithm 1. Without the positions of the links it
    takes 3 n² + 87 n - 12 multiplications and 2.5 n² + 90.5 n - 18 additions for n joints (S18
    Table I: 3 n² + 88 n - 3 and 2.5 n² + 95.5 n - 18).
    """
    chain = chain_of(model)
    batch, shape = configuration(model, q)
    A = np.empty((batch.shape[0], model.nv, model.nv))
    _mass_matrices(model.packed, chain, batch, A)
    return A.reshape(*shape, model.nv, model.nv)
