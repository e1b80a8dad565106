"""Check that the mass matrix of a tree of bodies is regular, also with massless bodies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics.bodies import ROOT_JOINT, Body, displacement
from rbd_control.dynamics.inertia import cross_matrix, spatial_inertia
from rbd_control.errors import ModelError
from rbd_control.wording import quoted

Array = NDArray[np.float64]

ROUNDOFF = 1e-12
"""Ratio of a pivot to the inertia that its joint carries, below which the pivot is roundoff."""


def carrying_nothing(bodies: Sequence[Body]) -> list[str]:
    """Return a remark for each joint that carries no mass and no inertia about its axis.

    Such a joint, common in grippers without inertials, does not affect the torques of the other
    joints, but makes the mass matrix M(q) singular. An error is raised if M is singular because a
    joint carries mass but no inertia about its axis. ``bodies`` are all moving bodies, parents
    before children.

    M = Lᵀ D L with L lower triangular, so M is positive definite if and only if each D_i is
    positive: the inertia of degree of freedom i when all later ones are free. It is computed at one
    generic configuration, which decides for almost all configurations; the model may still be
    singular at special ones, such as a wrist of massless links with aligned axes.

    Raises:
        ModelError: if a joint without inertia about its axis carries mass or belongs to a floating
            base, or if no joint carries mass; the message names the joint and its link.
    """
    placed = _placed(bodies)
    follows = any(body.dof != i for i, body in enumerate(bodies))
    result = []
    pivots = _pivots_of_mass_matrix(placed) if follows else _pivots(placed)
    massless = not any(pivot.mass for pivot in pivots)
    for i, own, carried, mass in pivots:
        if own > ROUNDOFF * carried:
            continue
        body = bodies[i]
        text = (
            f"joint {quoted(body.joint)}: link {quoted(body.link)} and the bodies that it "
            f"carries have no inertia about the axis of this joint, so the mass matrix is "
            f"singular; give the link a mass and an inertia, or lock the joint"
        )
        if mass > 0.0 or massless or i in _base(bodies):
            raise ModelError(text)
        result.append(text)
    return result[::-1]


_Placed = list[tuple[Body, Array, Array]]
"""Bodies, each with its subspace per degree of freedom and its (6, 6) map of motions from the
parent's frame."""


def _base(bodies: Sequence[Body]) -> frozenset[int]:
    """Return the rows of the six bodies of a floating base; empty for a fixed base.

    A joint of the robot may have the same name, but only one body.
    """
    rows = [i for i, body in enumerate(bodies) if body.joint == ROOT_JOINT]
    return frozenset(rows[:6] if len(rows) >= 6 else ())


def _placed(bodies: Sequence[Body]) -> _Placed:
    base, result = _base(bodies), []
    for i, body in enumerate(bodies):
        # A generic configuration: no multiple of a right angle, and no two angles are equal. Mimic
        # joints follow their leaders.
        position = 0.0 if i in base else body.ratio * (0.7 + math.sin(1.3 * body.dof))
        outward = body.placement @ displacement(body.subspace, position)
        result.append((body, body.ratio * body.subspace, _motion_transform(outward)))
    return result


class _Pivot(NamedTuple):
    """Pivot D of a joint or degree of freedom, and the inertia that the joint carries.

    Attributes:
        row: row of its body.
        own: D, the articulated inertia about the joint.
        carried: trace of the inertia (for a prismatic joint: of the mass block) of all bodies that
            the joint carries, times |s|²; the reference for roundoff.
        mass: mass of all bodies that the joint carries [kg].
    """

    row: int
    own: float
    carried: float
    mass: float


def _carried(composite: Array, s: Array) -> float:
    """Return |s|² times the trace of the carried inertia or mass, the reference for roundoff."""
    block = slice(0, 3) if s[:3].any() else slice(3, 6)
    return float(np.trace(composite[block, block])) * float(s @ s)


def _pivots(placed: _Placed) -> list[_Pivot]:
    """Return the pivot of each joint, last joint first, from articulated-body inertias.

    Models with mimic joints need :func:`_pivots_of_mass_matrix`.

    Source: Featherstone, Rigid Body Dynamics Algorithms (2008), chapters 6 and 7.
    """
    composite = [spatial_inertia(body.pseudo) for body, _, _ in placed]
    articulated = [inertia.copy() for inertia in composite]
    result = []
    for i in reversed(range(len(placed))):
        body, s, transform = placed[i]
        force = articulated[i] @ s
        own = float(s @ force)
        result.append(_Pivot(i, own, _carried(composite[i], s), composite[i][5, 5]))
        if body.parent < 0:
            continue
        if own != 0.0:
            articulated[i] -= np.outer(force, force) / own
        articulated[body.parent] += transform.T @ articulated[i] @ transform
        composite[body.parent] += transform.T @ composite[i] @ transform
    return result


def _pivots_of_mass_matrix(placed: _Placed) -> list[_Pivot]:
    """Return the pivot of each degree of freedom, the last first, for models with mimic joints."""
    count = max(body.dof for body, _, _ in placed) + 1
    M, carried, mass = np.zeros((count, count)), np.zeros(count), np.zeros(count)
    rows = np.zeros(count, dtype=int)
    composite = [spatial_inertia(body.pseudo) for body, _, _ in placed]
    for j in reversed(range(len(placed))):
        body, s, transform = placed[j]
        force = composite[j] @ s
        M[body.dof, body.dof] += s @ force
        carried[body.dof] += _carried(composite[j], s)
        mass[body.dof] += composite[j][5, 5]
        rows[body.dof] = j
        i, inward = body.parent, transform
        while i >= 0:
            force = inward.T @ force
            above, s_i, inward = placed[i]
            M[above.dof, body.dof] += s_i @ force
            M[body.dof, above.dof] += s_i @ force
            i = above.parent
        if body.parent >= 0:
            composite[body.parent] += transform.T @ composite[j] @ transform
    result = []
    for k in reversed(range(count)):
        own = float(M[k, k])
        result.append(_Pivot(int(rows[k]), own, float(carried[k]), float(mass[k])))
        if own != 0.0:
            M[:k, :k] -= np.outer(M[:k, k], M[k, :k]) / own
    return result


def _motion_transform(placement: Array) -> Array:
    """Return the (6, 6) map of motion vectors from a frame to the frame with this pose in it."""
    rotation = placement[:3, :3].T
    result = np.zeros((6, 6))
    result[:3, :3] = result[3:, 3:] = rotation
    result[3:, :3] = -rotation @ cross_matrix(placement[:3, 3])
    return result
