"""Lynch & Park's closed form: the dynamics as products of block matrices, for teaching and tests.

Lynch & Park, *Modern Robotics*, chapter on dynamics of open chains (LP), section 9.4. Frame {i} has
its origin at the centre of mass of link i. V_i is the twist of link i and F_i the wrench through
its joint, both in frame {i}. Stacked over the N links::

    V = L (A v)                                                                     (9.77)
    V_dot = L (A a - [ad_Av] W V + V_dot_base)                                      (9.78)
    F = Lᵀ (G V_dot - [ad_V]ᵀ G V - F_ext)                                          (9.79)
    tau = Aᵀ F                                                                      (9.80)

``W`` holds the Ad_T from each link to the next (LP prints it as Gamma, a name that means the
Christoffel symbols in this package) and ``L = (1 - W)⁻¹``. The blocks of ``A`` are the twists of
the joints, those of ``G`` the inertias of the links. ``F_ext`` holds the wrench of the environment
on each link; the wrench F_tip of LP acts on the environment and has the opposite sign.

Extensions of the source: in a tree, row i of W has its block in the column of the parent of i. A
floating base is a first link with six columns in A. A rotor is a child link of the parent of its
joint; its twist times the gear ratio stands in the column of that joint, as in LP's Newton-Euler
algorithm with gearing.

Corrections of the source, each with a test:

- The sign of [ad_Av] in (9.73), (9.78) and (9.83), which the bracket of (9.47) reverses.
- T_{i,i-1} for T_{i-1,i} in (9.47) and (9.58).
- M_i for M_{i-1} in (9.51), as in (9.40); hence A_i is in the coordinates of frame {i}.
- V_dot_0 = (0, -g) for (0, g) in the algorithm, as in the text before it.

All matrices are dense: the cost is O(N³), that of the recursions O(N).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rbd_control.dynamics.arguments import external_wrenches, state
from rbd_control.dynamics.inertia import central_inertia
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.model_arrays import FLOATING, PRISMATIC

Array = np.ndarray


class ClosedForm(NamedTuple):
    """The block matrices of the closed form, with N links of six rows each.

    Links are the bodies, then the rotors; a floating base is one link. Quantities of a link are in
    its frame at its centre of mass. Numbers in parentheses are equations of LP.
    """

    A: np.ndarray
    """(..., 6 N, nv) joint twists, times the ratio of a rotor or mimic joint; constant (9.64)."""
    G: np.ndarray
    """(..., 6 N, 6 N) spatial inertias about the centres of mass, constant (9.65)."""
    W: np.ndarray
    """(..., 6 N, 6 N) Ad_T of each link from its parent, nilpotent (9.68)."""
    L: np.ndarray
    """(..., 6 N, 6 N) (1 - W)⁻¹ = 1 + W + W² + ... (9.76)."""
    V: np.ndarray
    """(..., 6 N) link twists [w ; u] (9.77)."""
    ad_V: np.ndarray
    """(..., 6 N, 6 N) Lie brackets of the link twists (9.66)."""
    ad_Av: np.ndarray
    """(..., 6 N, 6 N) Lie brackets of the joint twists (9.67)."""
    V_dot_base: np.ndarray
    """(..., 6 N) acceleration (0, -g) of the world, in the frames of the links that it carries and
    zero in all other rows (9.70)."""


class ClosedFormTerms(NamedTuple):
    """Terms of the equation of motion ``tau = M a + c + g``; numbers are equations of LP."""

    M: np.ndarray
    """Mass matrix Aᵀ Lᵀ G L A, (..., nv, nv) [kg·m², kg·m or kg] (9.82)."""
    c: np.ndarray
    """Coriolis and centripetal torque, (..., nv) [N·m or N] (9.83)."""
    g: np.ndarray
    """Gravity torque Aᵀ Lᵀ G L V_dot_base, (..., nv) [N·m or N] (9.84)."""


def closed_form(model: Model, q: np.ndarray, v: np.ndarray) -> ClosedForm:
    """Return the block matrices and stacked vectors of Lynch & Park's closed form.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].

    Returns:
        A named tuple ``A G W L V ad_V ad_Av V_dot_base``; :class:`ClosedForm` states its shapes.

    Raises:
        InputError: for arguments of the wrong shape or not finite.

    Source: LP eqs. 9.64 to 9.77.
    """
    (positions, velocities), shape = state(model, q, v=v)
    A, G, *others = _assemble(model, velocities, _link_placements(model, positions))
    return ClosedForm(
        np.tile(A, (*shape, 1, 1)),
        np.tile(G, (*shape, 1, 1)),
        *(array.reshape(*shape, *array.shape[1:]) for array in others),
    )


def closed_form_terms(model: Model, q: np.ndarray, v: np.ndarray) -> ClosedFormTerms:
    """Return the mass matrix M, c = C v and the gravity torque g by Lynch & Park's closed form.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].

    Returns:
        A named tuple ``M c g``: (..., nv, nv), (..., nv) and (..., nv).

    Raises:
        InputError: for arguments of the wrong shape or not finite.

    Source: LP eqs. 9.82, 9.83 (its sign corrected) and 9.84.
    """
    A, G, W, L, V, ad_V, ad_Av, V_dot_base = closed_form(model, q, v)
    LA = L @ A
    ATLT = _transposed(LA)
    return ClosedFormTerms(
        M=ATLT @ (G @ LA),  # 9.82
        c=-_times(ATLT, _times(G @ L @ ad_Av @ W + _transposed(ad_V) @ G, V)),  # 9.83
        g=_times(ATLT, _times(G @ L, V_dot_base)),  # 9.84
    )


def closed_form_inverse_dynamics(
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    a: np.ndarray,
    wrenches: Mapping[str, Any] | None = None,
) -> np.ndarray:
    """Return the torque of a motion, tau = Aᵀ F, by Lynch & Park's closed form.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        a: joint accelerations, (..., nv) [rad/s² or m/s²].
        wrenches: wrenches that the environment applies, ``{link: [moment ; force]}``, (..., 6) each
            [N·m, N], world-aligned at the link's origin. LP's F_tip has the opposite sign: it is
            the wrench that the robot applies.

    Returns:
        (..., nv) [N·m or N].

    Raises:
        InputError: for an unknown link or arguments of the wrong shape or not finite.

    Source: LP eqs. 9.77 to 9.80.
    """
    (positions, velocities, accelerations), shape = state(model, q, v=v, a=a)
    links = _link_placements(model, positions)
    A, G, W, L, V, ad_V, ad_Av, V_dot_base = _assemble(model, velocities, links)
    V_dot = _times(L, _times(A, accelerations) - _times(ad_Av @ W, V) + V_dot_base)  # 9.78
    F_ext = _external_forces(links, *external_wrenches(model, wrenches, shape))
    momentum_rate = _times(G, V_dot) - _times(_transposed(ad_V), _times(G, V))
    F = _times(_transposed(L), momentum_rate - F_ext)  # 9.79
    return _times(A.T, F).reshape(*shape, model.nv)  # 9.80


class _Links(NamedTuple):
    """The links of the model, rotors included, with frames at their centres of mass."""

    first: int
    """Row of the first link in ModelArrays."""
    parent: list[int]
    """Parent of each link; -1 for the world."""
    centre: Array
    """(N, 3) centre of mass in the frame of the body; the origin for a body without mass."""
    twist: Array
    """(N, 6) unit twist of the joint in the link frame; zero for a floating base."""
    T: Array
    """(batch, N, 4, 4) placement T_{i-1,i} of each link in its parent (9.53)."""
    R: Array
    """(batch, N, 3, 3) orientation of each link in the world."""


def _link_placements(model: Model, q: Array) -> _Links:
    arrays = model.arrays
    first = 5 if model.floating_base else 0
    rows = range(first, arrays.mass.size)
    parent = [max(int(arrays.parent[row]) - first, -1) for row in rows]
    mass = arrays.mass[first:, None]
    centre = np.divide(
        arrays.first_moment[first:], mass, out=np.zeros((len(rows), 3)), where=mass > 0.0
    )
    twist = np.zeros((len(rows), 6))
    T = np.tile(np.eye(4), (q.shape[0], len(rows), 1, 1))
    R = np.empty((q.shape[0], len(rows), 3, 3))
    offset = model.nq - model.nv
    for i, row in enumerate(rows):
        before = parent[i]
        if arrays.joint_type[row] == FLOATING:
            parent[i] = -1
            R[:, 0] = T[:, 0, :3, :3] = _quaternion_rotations(q[:, 3:7])
            continue
        axis = arrays.axis[row]
        if arrays.joint_type[row] == PRISMATIC:
            twist[i, 3:] = axis
        else:
            twist[i] = *axis, *np.cross(axis, centre[i])
        home = np.eye(4)
        home[:3, :3] = arrays.rotation[row]
        home[:3, 3] = arrays.translation[row] + arrays.rotation[row] @ centre[i]
        if before >= 0:
            home[:3, 3] -= centre[before]
        theta = arrays.ratio[row] * q[:, arrays.dof[row] + offset]
        T[:, i] = home @ _exponential(twist[i], theta)  # 9.53
        R[:, i] = T[:, i, :3, :3] if before < 0 else R[:, before] @ T[:, i, :3, :3]
    return _Links(first, parent, centre, twist, T, R)


def _assemble(model: Model, v: Array, links: _Links) -> ClosedForm:
    arrays, size = model.arrays, 6 * len(links.parent)
    A, G = np.zeros((size, model.nv)), np.zeros((size, size))
    W, L, ad_V, ad_Av = np.zeros((4, v.shape[0], size, size))
    V_dot_base = np.zeros((v.shape[0], size))
    base = np.concatenate([np.zeros(3), -model.gravity])
    for i, before in enumerate(links.parent):
        row, own = links.first + i, slice(6 * i, 6 * i + 6)
        if arrays.joint_type[row] == FLOATING:
            A[own, :6] = np.eye(6)
            A[own, :6][3:, :3] = -_skew(links.centre[i])  # v is the velocity of the base's origin
        else:
            A[own, arrays.dof[row]] = arrays.ratio[row] * links.twist[i]
        G[own, own] = _central_spatial_inertia(model, row)
        L[:, own, own] = np.eye(6)
        Ad = _adjoint_of_inverse(links.T[:, i])  # T_{i,i-1}
        if before < 0:
            V_dot_base[:, own] = Ad @ base
        else:
            above = slice(6 * before, 6 * before + 6)
            W[:, own, above] = Ad
            L[:, own] += Ad @ L[:, above]
    joint_twists = _times(A, v)
    V = _times(L, joint_twists)  # 9.77
    for i in range(len(links.parent)):
        own = slice(6 * i, 6 * i + 6)
        ad_V[:, own, own] = _bracket(V[:, own])
        ad_Av[:, own, own] = _bracket(joint_twists[:, own])
    return ClosedForm(A, G, W, L, V, ad_V, ad_Av, V_dot_base)


def _central_spatial_inertia(model: Model, row: int) -> Array:
    """Return diag(I, m 1) about the centre of mass (9.52)."""
    arrays = model.arrays
    first = arrays.first_moment[row, :, None]
    pseudo = np.block([[arrays.second_moment[row], first], [first.T, arrays.mass[row]]])
    result = arrays.mass[row] * np.eye(6)
    result[:3, :3] = central_inertia(pseudo)
    return result


def _external_forces(links: _Links, bodies: Array, points: Array, wrenches: Array) -> Array:
    """Return world-aligned wrenches at points of bodies, in the link frames: (batch, 6 N)."""
    forces = np.zeros((wrenches.shape[0], len(links.parent), 6))
    for k, body in enumerate(bodies):
        i = body - links.first
        RT = _transposed(links.R[:, i])
        moment, force = _times(RT, wrenches[:, k, :3]), _times(RT, wrenches[:, k, 3:])
        forces[:, i, :3] += moment + np.cross(points[k] - links.centre[i], force)
        forces[:, i, 3:] += force
    return forces.reshape(len(forces), 6 * len(links.parent))


def _exponential(twist: Array, theta: Array) -> Array:
    """Return e^([twist] theta), (batch, 4, 4), for a unit rotation or unit translation."""
    S = _skew(twist[:3])
    sine, rest = np.sin(theta)[:, None, None], 1.0 - np.cos(theta)[:, None, None]
    angle = theta[:, None, None]
    result = np.tile(np.eye(4), (theta.size, 1, 1))
    result[:, :3, :3] += sine * S + rest * (S @ S)
    result[:, :3, 3] = (angle * np.eye(3) + rest * S + (angle - sine) * (S @ S)) @ twist[3:]
    return result


def _quaternion_rotations(quaternions: Array) -> Array:
    """Return 1 + 2 w S(x) + 2 S(x)² of quaternions [x ; w], (batch, 4), after normalisation."""
    unit = quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)
    S = _skew(unit[:, :3])
    return np.eye(3) + 2.0 * unit[:, 3, None, None] * S + 2.0 * S @ S


def _adjoint_of_inverse(T: Array) -> Array:
    """Return [Ad] of T⁻¹ for T = (R, p): [[Rᵀ, 0], [-Rᵀ [p], Rᵀ]]."""
    RT = _transposed(T[..., :3, :3])
    result = np.zeros((*T.shape[:-2], 6, 6))
    result[..., :3, :3] = result[..., 3:, 3:] = RT
    result[..., 3:, :3] = -RT @ _skew(T[..., :3, 3])
    return result


def _bracket(V: Array) -> Array:
    """Return [ad_V] = [[ [w], 0 ], [ [u], [w] ]] (9.29)."""
    result = np.zeros((*V.shape, 6))
    result[..., :3, :3] = result[..., 3:, 3:] = _skew(V[..., :3])
    result[..., 3:, :3] = _skew(V[..., 3:])
    return result


def _skew(x: Array) -> Array:
    """Return [x] with [x] y = x cross y."""
    result = np.zeros((*x.shape, 3))
    result[..., 0, 1], result[..., 0, 2], result[..., 1, 2] = -x[..., 2], x[..., 1], -x[..., 0]
    return result - _transposed(result)


def _transposed(M: Array) -> Array:
    return M.swapaxes(-1, -2)


def _times(M: Array, x: Array) -> Array:
    return (M @ x[..., None])[..., 0]
