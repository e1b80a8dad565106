"""The motion of a touched link away from the contact."""

from __future__ import annotations

from math import hypot

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.trajectory import DesiredState, JointLimits, Trajectory
from rbd_control.control.waypoints import TrajectoryPoint
from rbd_control.dynamics import Model, frame_jacobian

Array = NDArray[np.float64]

LARGEST_TURN = 0.5
"""Largest motion of a joint in one retreat [rad or m]."""

_DAMPING = 0.05
"""Damping of the least-squares inverse of the Jacobian [m]."""

_PEAK = 1.875
"""Peak speed of a quintic from rest to rest, in mean speeds."""


def retreat(
    model: Model,
    limits: JointLimits,
    start: DesiredState,
    link: str,
    force: Array,
    distance: float,
    time: float,
) -> Trajectory:
    """Return a motion of ``link`` along ``force`` by about ``distance``, which ends at rest.

    The joint motion is ``Jᵀ (J Jᵀ + d² 1)⁻¹ distance force / |force|``, the damped least-squares
    inverse of the link's Jacobian J, within the limits and by at most :data:`LARGEST_TURN`. If the
    link cannot move in this direction, it moves as far as possible.

    Args:
        model: the arm.
        limits: position and speed limits to keep.
        start: the present desired state.
        link: the touched link.
        force: (3,) force on it, in world axes [N]; neither zero nor infinite.
        distance: distance of the link's origin [m].
        time: shortest duration [s]; longer if the speed limits require it.

    Raises:
        InputError: for an unknown link.
        TrajectoryError: if no such motion exists within the limits.
    """
    q = start.q_d
    J = frame_jacobian(model, q, link)[3:]
    wanted = distance * (force / hypot(*force))
    change = J.T @ np.linalg.solve(J @ J.T + _DAMPING**2 * np.eye(3), wanted)
    change *= min(1.0, LARGEST_TURN / max(np.abs(change).max(), 1e-9))
    low, high = np.minimum(limits.lower_limit, q), np.maximum(limits.upper_limit, q)
    change = np.clip(q + change, low, high) - q
    duration = max(time, float((_PEAK * np.abs(change) / limits.velocity_limit).max()))
    zero = [0.0] * model.nv
    point = TrajectoryPoint((q + change).tolist(), zero, zero, duration)
    return Trajectory.from_points(model.joint_names, model.joint_names, [point], start=start)
