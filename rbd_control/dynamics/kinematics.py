"""Kinematics of links: placement, Jacobian, and time derivative of the Jacobian."""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics.arguments import configuration, link_attachment, state
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.spatial import (
    accumulate6,
    add,
    copy,
    cross,
    load3,
    load6,
    load_matrix,
    transform,
)
from rbd_control.dynamics.sweep import move_bodies, new_sweep, place_bodies, position_offset


@inlined
def link_point(s, body, offset):
    """Return the position of a point of a body, in world axes about the origin of the sweep [m].

    Args:
        s: ``Sweep`` after ``place_bodies``; its origin is that of a floating root, or of the world.
        body: row of the body.
        offset: the point in the frame of the body, a tuple [m].
    """
    return add(load3(s.p, body), transform(load_matrix(s.R, body), offset))


@inlined
def _at_point(m, point):
    """Return a motion about the origin, re-expressed about ``point`` (same axes)."""
    return (m[0], add(m[1], cross(m[0], point)))


@compiled
def _body_placements(packed, q, body, out):
    model = unpacked(packed)
    s = new_sweep(model.parent.shape[0])
    floating = position_offset(model) > 0
    for b in range(q.shape[0]):
        place_bodies(model, q[b], s)
        for i in range(3):
            copy(s.R[body, i], out[b, i])
            out[b, i, 3] = s.p[body, i] + (q[b, i] if floating else 0.0)


@compiled
def _frame_jacobians(packed, q, body, offset, out):
    model = unpacked(packed)
    s = new_sweep(model.parent.shape[0])
    for b in range(q.shape[0]):
        place_bodies(model, q[b], s)
        point = link_point(s, body, offset)
        i = body
        while i >= 0:
            accumulate6(out[b].T, model.dof[i], _at_point(load6(s.Phi, i), point))
            i = model.parent[i]


@compiled
def _frame_jacobian_rates(packed, q, v, body, offset, out):
    model = unpacked(packed)
    s = new_sweep(model.parent.shape[0])
    for b in range(q.shape[0]):
        place_bodies(model, q[b], s)
        move_bodies(model, v[b], s)
        point = link_point(s, body, offset)
        _, point_velocity = _at_point(load6(s.velocity, body), point)
        i = body
        while i >= 0:
            angular, linear = _at_point(load6(s.Phi_dot, i), point)
            carried = cross(load6(s.Phi, i)[0], point_velocity)
            accumulate6(out[b].T, model.dof[i], (angular, add(linear, carried)))
            i = model.parent[i]


def frame_placement(model: Model, q: np.ndarray, link: str) -> np.ndarray:
    """Return the placement of a link: the homogeneous transform from its frame to the world.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        link: name of the link.

    Returns:
        (..., 4, 4): rotation, and position [m] in the last column.

    Raises:
        InputError: for an unknown link or a ``q`` of the wrong shape or not finite.
    """
    batch, shape = configuration(model, q)
    body, placement = link_attachment(model, link)
    out = np.tile(np.eye(4), (batch.shape[0], 1, 1))
    if body >= 0:
        _body_placements(model.packed, batch, body, out)
    return (out @ placement).reshape(*shape, 4, 4)


def frame_jacobian(model: Model, q: np.ndarray, link: str) -> np.ndarray:
    """Return the Jacobian J of a link, world-aligned at the link's origin: ``[w ; u] = J v``.

    w is the angular velocity of the link and u the velocity of its origin.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        link: name of the link.

    Returns:
        (..., 6, nv), angular rows first [rad/s and m/s per unit of joint velocity]; zero for a link
        that is fixed to the world.

    Raises:
        InputError: for an unknown link or a ``q`` of the wrong shape or not finite.
    """
    batch, shape = configuration(model, q)
    body, placement = link_attachment(model, link)
    out = np.zeros((batch.shape[0], 6, model.nv))
    if body >= 0:
        _frame_jacobians(model.packed, batch, body, tuple(placement[:3, 3]), out)
    return out.reshape(*shape, 6, model.nv)


def frame_jacobian_rate(model: Model, q: np.ndarray, v: np.ndarray, link: str) -> np.ndarray:
    """Return the time derivative of :func:`frame_jacobian` along ``v``.

    With it ``[w_dot ; u_dot] = J a + J_dot v``.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        link: name of the link.

    Returns:
        (..., 6, nv), angular rows first [unit of the Jacobian per s]; zero for a link that is fixed
        to the world.

    Raises:
        InputError: for an unknown link or arguments of the wrong shape or not finite.
    """
    (batch, velocities), shape = state(model, q, v=v)
    body, placement = link_attachment(model, link)
    out = np.zeros((batch.shape[0], 6, model.nv))
    if body >= 0:
        _frame_jacobian_rates(model.packed, batch, velocities, body, tuple(placement[:3, 3]), out)
    return out.reshape(*shape, 6, model.nv)
