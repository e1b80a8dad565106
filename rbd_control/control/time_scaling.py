"""Uniform time scaling of a trajectory that exceeds the limits on speed or effort."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.trajectory import DesiredState, Trajectory
from rbd_control.dynamics import Model, gravity_torque, inverse_dynamics
from rbd_control.errors import TrajectoryError

Array = NDArray[np.float64]

_STATES = 600
"""Approximate number of states of a trajectory at which its torque is computed."""

_INTERVALS = 48
"""Largest number of intervals of a segment at whose ends speed and torque are computed."""

_ROUNDS = 10
"""Maximum number of time factors that are tried."""


def stretched(
    build: Callable[[float], Trajectory], model: Model, limits: ArmLimits, start: DesiredState
) -> Trajectory:
    """Return ``build(slower)`` with about the smallest ``slower >= 1`` that keeps the limits.

    Multiplication of all times by ``slower`` divides speeds by ``slower`` and the torque beyond
    gravity by its square. For a trajectory that starts at rest this gives ``slower`` directly, up
    to 0.1 % too large. From a moving arm, whose initial speed is fixed, the factor is found
    iteratively. Limits are compared at sampled states; position limits are not checked. A joint
    that exceeds its limit of speed at the start may exceed it as much on the way, and with the
    factor 1 this holds for the torque of the start's acceleration as well.

    Args:
        build: function from the factor on all times to the trajectory; it checks no limits.
        model: the arm.
        limits: limits of the arm; ``velocity`` and ``torque`` are used.
        start: the state from which all trajectories begin.

    Raises:
        TrajectoryError: if a gravity torque on the path exceeds its limit; if ten factors in a row
            are too small; and errors of ``build``.
    """
    slower = 1.0
    for _ in range(_ROUNDS):
        trajectory = build(slower)
        excess = _excess(trajectory, model, limits, start)
        if excess <= 1.0:
            return trajectory
        slower *= 1.001 * excess
    raise TrajectoryError(
        f"the trajectory exceeds the limits of speed or effort even {slower:.3g} times slower"
    )


def _excess(trajectory: Trajectory, model: Model, limits: ArmLimits, start: DesiredState) -> float:
    """Return the factor by which the times must still grow; 1 or less if the limits are kept."""
    segments = len(trajectory.knots) - 1
    intervals = min(max(_STATES // segments, 1), _INTERVALS)
    q, v, a = (x.reshape(-1, model.nv) for x in trajectory.probe(intervals))
    v0 = np.maximum(limits.velocity, np.abs(v[0]))  # The initial speed cannot be changed.
    speed = float((np.abs(v) / v0).max())
    # Hundreds of points lie close together, so a subset suffices.
    some = slice(None, None, max(len(q) // _STATES, 1))
    q, v, a = q[some], v[some], a[some]
    weight, largest = gravity_torque(model, q), limits.torque
    over = np.abs(weight) > largest
    if over.any():
        i, j = (int(x) for x in np.argwhere(over)[0])
        raise TrajectoryError(
            f"joint {model.joint_names[j]!r}: at {q[i, j]:.4g} the weight alone takes "
            f"{abs(weight[i, j]):.4g}; its limit is {largest[j]:g}"
        )
    rest = inverse_dynamics(model, q, v, a) - weight
    room = np.where(rest > 0.0, largest - weight, largest + weight)
    if np.allclose(a[0], start.a_d):  # The arm goes on with the acceleration that it has.
        room = np.where(rest * rest[0] > 0.0, np.maximum(room, np.abs(rest[0])), room)
    with np.errstate(divide="ignore", invalid="ignore"):
        effort = np.nanmax(np.abs(rest) / room)
    return max(speed, float(np.sqrt(effort)))
