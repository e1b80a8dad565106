"""The motion of a touched link away from the contact, for the reaction ``retract``."""

from __future__ import annotations

from math import hypot

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.trajectory import DesiredState, JointLimits, Trajectory
from rbd_control.control.waypoints import TrajectoryPoint
from rbd_control.dynamics import Model, frame_jacobian, frame_placement
from rbd_control.errors import TrajectoryError

Array = NDArray[np.float64]

LARGEST_TURN = 0.5
"""Largest motion of a joint in one retreat [rad or m]."""

LEAST_SHARE = 0.02
"""Smallest share of the requested distance that the link must move along the force."""

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
    inverse of the link's linear Jacobian J with d = 0.05 m, by at most :data:`LARGEST_TURN`. If a
    position limit shortens it, the motion without the limiting joints is computed as well, and the
    motion with the longest way along the force is chosen. It ends before the link's origin would
    move against the force, as computed at eight points of the motion.

    Args:
        model: the arm.
        limits: position and speed limits to keep.
        start: the present desired state, from which the motion begins.
        link: the touched link.
        force: (3,) force on the link, in world axes [N]; neither zero nor infinite.
        distance: requested distance of the link's origin along the force [m]. The actual distance
            differs because of the damping, the limits and the curvature of the path.
        time: shortest duration [s]; longer if the speed limits require it.

    Raises:
        InputError: for an unknown link.
        TrajectoryError: if the link cannot move along the force by :data:`LEAST_SHARE` of the
            distance within the position limits.
    """
    q, along = start.q_d, force / hypot(*force)
    J = frame_jacobian(model, q, link)[3:]
    change, best = np.zeros(model.nv), LEAST_SHARE * distance
    free = np.ones(model.nv)
    for _ in range(model.nv):
        J_free = J * free
        wanted = J_free.T @ np.linalg.solve(J_free @ J_free.T + _DAMPING**2 * np.eye(3), along)
        step, hindered = _within(distance * wanted, q, limits)
        part, way = _progress(model, q, step, link, along)
        if way > best:
            change, best = part * step, way
        if hindered < 0:
            break
        free[hindered] = 0.0
    if not change.any():
        raise TrajectoryError("the link cannot move along the force within the position limits")
    duration = max(time, float((_PEAK * np.abs(change) / limits.velocity_limit).max()))
    zero = [0.0] * model.nv
    point = TrajectoryPoint((q + change).tolist(), zero, zero, duration)
    return Trajectory.from_points(model.joint_names, model.joint_names, [point], start=start)


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


def _progress(model: Model, q: Array, step: Array, link: str, along: Array) -> tuple[float, float]:
    """Return the part of a motion in which the link moves along a direction, and by how much [m].

    Args:
        model: the arm.
        q, step: positions at the start, and their change, (nv,) each [rad or m].
        link: the link.
        along: (3,) unit vector in world axes.
    """
    parts = np.arange(_PARTS + 1) / _PARTS
    positions = frame_placement(model, q + parts[:, None] * step, link)[:, :3, 3]
    way = (positions - positions[0]) @ along
    against = np.flatnonzero(np.diff(way) <= 0.0)
    last = int(against[0]) if against.size else _PARTS
    return float(parts[last]), float(way[last])
