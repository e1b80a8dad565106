"""Uniform time scaling of a trajectory that exceeds the limits on speed or effort."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.spline_kernels import highest_speeds, largest_effort
from rbd_control.control.trajectory import DesiredState, Trajectory
from rbd_control.dynamics import Model, gravity_torque, inverse_dynamics
from rbd_control.errors import TrajectoryError

Array = NDArray[np.float64]

_STATES = 600
"""Approximate number of states of a short trajectory at which its torque is computed."""

_MOST_STATES = 10000
"""Approximate number of states of a long trajectory, which take about 10 ms."""

_INTERVALS = (4, 10, 48)
"""Numbers of intervals of a segment at whose ends speed and torque are computed.

The smallest number, the smallest number for up to 900 segments, and the largest number. They are
even, because a quintic from rest to rest is fastest in its middle. Its highest acceleration lies
beside the ends of intervals: it is higher than there by 3 % with 4 intervals, by 0.3 % with 10. No
segment may be left out: a motion that repeats itself would show the same states each time.
"""

_BATCH = 1000
"""Number of states whose torques are computed at once, too few for several threads.

Further threads could delay the control loop.
"""

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
    least, enough, most = _INTERVALS
    wanted = max(_STATES // segments, min(_MOST_STATES // segments - 1, enough))
    intervals = min(max(wanted // 2 * 2, least), most)
    states = [x.reshape(-1, model.nv) for x in trajectory.probe(intervals)]
    q, v, a = (x[0] for x in states)
    fastest = np.maximum(limits.velocity, np.abs(v))  # The initial speed cannot be changed.
    carried = np.zeros(model.nv)
    if np.allclose(a, start.a_d):  # The arm goes on with the acceleration that it has.
        carried = inverse_dynamics(model, q, v, a) - gravity_torque(model, q)
    excess = 0.0
    for begin in range(0, len(states[0]), _BATCH):
        q, v, a = (x[begin : begin + _BATCH] for x in states)
        torque, weight = inverse_dynamics(model, q, v, a), gravity_torque(model, q)
        i, j, effort = largest_effort(torque, weight, limits.torque, carried)
        if i >= 0:
            raise TrajectoryError(
                f"joint {model.joint_names[j]!r}: at {q[i, j]:.4g} the weight alone takes "
                f"{abs(weight[i, j]):.4g}; its limit is {limits.torque[j]:g}"
            )
        speed = (highest_speeds(v) / fastest).max()
        excess = max(excess, float(speed), effort**0.5)
    return excess
