"""The motion of a touched link away from the contact, for the reaction ``retract``.

The place of the contact on the link is not known. The motion is computed for the origin of the link
or, if the joints hardly move the origin along the force, for the origin of a next joint, which is
the other end of the link. The origin of an upper arm, for example, lies on the axes of the joints
that move the upper arm. While the other end moves along the force and the origin not against it, no
point between them moves against the force.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import hypot

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.trajectory import DesiredState, JointLimits, Trajectory
from rbd_control.control.waypoints import TrajectoryPoint
from rbd_control.dynamics import Model, frame_jacobian, frame_placement
from rbd_control.dynamics.model_arrays import PRISMATIC
from rbd_control.errors import TrajectoryError

Array = NDArray[np.float64]

LARGEST_TURN = 0.5
"""Largest motion of a joint in one retreat [rad or m]."""

LEAST_SHARE = 0.02
"""Smallest share of the requested distance that an end of the link must move along the force.

The link's origin must not move against the force by more than this share, if the motion is computed
for another end.
"""

ENOUGH = 0.5
"""Share of the requested distance with which no further end of the link is considered."""

_DAMPING = 0.05
"""Damping of the least-squares inverse of the Jacobian [m]."""

_PEAK = 1.875
"""Peak speed of a quintic from rest to rest, in mean speeds."""

_PARTS = 8
"""Number of equal parts of a motion after each of which its way along the force is computed."""


def retreat(
    model: Model,
    limits: JointLimits,
    start: DesiredState,
    link: str,
    force: Array,
    distance: float,
    time: float,
) -> Trajectory:
    """Return a joint motion that moves ``link`` along ``force`` and ends at rest.

    The joint motion is ``Jᵀ (J Jᵀ + d² 1)⁻¹ distance force / |force|``, the damped least-squares
    inverse of the linear Jacobian J of the link's origin with d = 0.05 m, by at most
    :data:`LARGEST_TURN`. If a position limit shortens it, the motion without the limiting joints is
    computed as well, and the motion with the longest way along the force is chosen. If this way is
    shorter than :data:`ENOUGH` of the distance, the same is done for the origins of the next joints
    in place of the link's origin. The motion ends before its end of the link would move against the
    force, or the link's origin by more than :data:`LEAST_SHARE` of the distance, as computed at
    eight points of the motion.

    Args:
        model: the arm.
        limits: position and speed limits to keep.
        start: the present desired state, from which the motion begins.
        link: the touched link.
        force: (3,) force on the link, in world axes [N]; neither zero nor infinite.
        distance: requested distance of the end along the force [m]. The actual distance differs
            because of the damping, the limits and the curvature of the path.
        time: shortest duration [s]; longer if the speed limits require it.

    Raises:
        InputError: for an unknown link.
        TrajectoryError: if no end of the link can move along the force by :data:`LEAST_SHARE` of
            the distance within the position limits.
    """
    q, wanted = start.q_d, (distance / hypot(*force)) * force
    change, best = np.zeros(model.nv), LEAST_SHARE * distance
    for end, free in _ends(model, link):
        found, way = _motion(model, limits, q, (link, end), free, wanted)
        if way > best:
            change, best = found, way
        if best >= ENOUGH * distance:
            break
    if not change.any():
        raise TrajectoryError(
            "the joints cannot move the ends of the link along the force within the position limits"
        )
    duration = max(time, float((_PEAK * np.abs(change) / limits.velocity_limit).max()))
    zero = [0.0] * model.nv
    point = TrajectoryPoint((q + change).tolist(), zero, zero, duration)
    return Trajectory.from_points(model.joint_names, model.joint_names, [point], start=start)


def _ends(model: Model, link: str) -> Iterator[tuple[str, Array]]:
    """Yield the links whose origins are the ends of a link, and the joints that move each end.

    The first is the link itself; the others are the links that the next joints move. The joints are
    (nv,), 1 for each joint that may be used and 0 for a prismatic next joint, which moves the
    origin behind it but not the link.
    """
    yield link, np.ones(model.nv)
    body, arrays = model.link_index(link), model.arrays
    for row, end in zip(model.joint_row.values(), model.body_links, strict=True):
        if body >= 0 and arrays.parent[row] == body:
            free = np.ones(model.nv)
            if arrays.joint_type[row] == PRISMATIC:
                free[arrays.dof[row]] = 0.0
            yield end, free


def _motion(
    model: Model,
    limits: JointLimits,
    q: Array,
    links: tuple[str, str],
    free: Array,
    wanted: Array,
) -> tuple[Array, float]:
    """Return a joint motion (nv,) that moves an end of a link, and the way of this end [m].

    Args:
        model: the arm.
        limits: position limits to keep.
        q: positions at the start, (nv,) [rad or m].
        links: the touched link, and the link whose origin is the end to move.
        free: 1 for the joints that may move, 0 for the others, (nv,).
        wanted: (3,) motion of the end, in world axes [m].
    """
    change, best = np.zeros(model.nv), 0.0
    J = frame_jacobian(model, q, links[1])[3:] * free
    for _ in range(model.nv):
        damped = J @ J.T + _DAMPING**2 * np.eye(3)
        step, hindered = _within(J.T @ np.linalg.solve(damped, wanted), q, limits)
        part, way = _progress(model, q, step, links, wanted)
        if way > best:
            change, best = part * step, way
        if hindered < 0:
            break
        J[:, hindered] = 0.0
    return change, best


def _within(step: Array, q: Array, limits: JointLimits) -> tuple[Array, int]:
    """Scale a motion to the limits; return it and the joint whose position limit shortens it most.

    The joint is -1 if no position limit shortens the motion.
    """
    step = step * min(1.0, LARGEST_TURN / max(np.abs(step).max(), 1e-9))
    room = np.where(step > 0.0, limits.upper_limit - q, q - limits.lower_limit)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(step == 0.0, np.inf, np.maximum(room, 0.0) / np.abs(step))
    j = int(share.argmin())
    return (share[j] * step, j) if share[j] < 1.0 else (step, -1)


def _progress(
    model: Model, q: Array, step: Array, links: tuple[str, str], wanted: Array
) -> tuple[float, float]:
    """Return the part of a motion in which an end moves in a direction, and by how much [m].

    Args:
        model: the arm.
        q, step: positions at the start, and their change, (nv,) each [rad or m].
        links: the touched link, and the link whose origin is the end.
        wanted: (3,) motion of the end, in world axes [m].
    """
    distance = hypot(*wanted)
    passed = q + (np.arange(_PARTS + 1) / _PARTS)[:, None] * step
    places = [frame_placement(model, passed, each)[:, :3, 3] for each in links]
    origin, end = ((place - place[0]) @ wanted / distance for place in places)
    against = np.diff(end) <= 0.0
    if links[0] != links[1]:
        against |= origin[1:] < -LEAST_SHARE * distance
    last = int(against.argmax()) if against.any() else _PARTS
    return last / _PARTS, float(end[last])
