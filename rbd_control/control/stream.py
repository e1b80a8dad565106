"""Streams of single points, for example from teleoperation, which the arm passes without a stop.

Each point arrives before the previous point is reached. If each point were a goal, the arm would
slow down at every point. Instead the arm passes a point with the speed from point to point, but at
most the average speed needed to reach it, and not in the opposite direction: a quintic with such
ends does not overshoot. If no more points arrive, the arm stops at the last point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.trajectory import DesiredState, JointLimits, Trajectory
from rbd_control.errors import TrajectoryError

Array = NDArray[np.float64]

_ROUNDS = 20
"""Maximum number of attempts of a motion past a point, each slower than the previous one."""

_PROBES = 24
"""Number of intervals per segment at whose ends the speed is compared with the limits."""


@dataclass(frozen=True, eq=False)
class StreamPoint:
    """The last single point, which distinguishes a stream from a goal.

    Attributes:
        target: (n,) its position, unwrapped [rad or m].
        stamp: time of the last joint state when it arrived [s].
    """

    target: Array
    stamp: float


def past_point(
    point: Trajectory,
    start: DesiredState,
    last: StreamPoint,
    stamp: float,
    horizon: float,
    limits: JointLimits,
) -> Trajectory:
    """Return the motion past a point of a stream.

    Args:
        point: the motion that would stop at the point.
        start: the present desired state.
        last: the previous point.
        stamp: time of arrival of the point [s].
        horizon: half the longest duration of the motion to the point [s].
        limits: position and speed limits to keep.

    Raises:
        TrajectoryError: if the point cannot be reached within the limits in that time.
    """
    longest, elapsed = 2.0 * horizon, stamp - last.stamp
    still = np.zeros_like(point.final)
    time = point.duration
    motion = None
    for _ in range(_ROUNDS):
        mean = (point.final - start.q_d) / time
        pace = (point.final - last.target) / elapsed if elapsed > 0.0 else mean
        speed = np.where(pace * mean > 0.0, np.sign(mean), 0.0) * np.minimum(
            np.minimum(np.abs(pace), np.abs(mean)), limits.velocity_limit
        )
        motion = _past(point, start, speed, time)
        fastest = float(
            (np.abs(motion.probe(_PROBES).v_d).max((0, 1)) / limits.velocity_limit).max()
        )
        if fastest <= 1.0:
            break
        time *= 1.02 * fastest
        if not time <= longest:
            motion = _past(point, start, still, longest)
            break
    assert motion is not None
    try:
        motion.check(limits, start)
    except TrajectoryError:
        motion = _past(point, start, still, min(time, longest))
        motion.check(limits, start)
    return motion


def _past(point: Trajectory, start: DesiredState, speed: Array, time: float) -> Trajectory:
    """Return a motion from ``start`` past the point with ``speed``, which then returns to it."""
    q = np.vstack((start.q_d, point.final, point.final))
    v = np.vstack((start.v_d, speed, np.zeros_like(speed)))
    a = np.vstack((start.a_d, np.zeros((2, len(speed)))))
    return Trajectory.joining(point.joint_names, np.array((0.0, time, 2.0 * time)), q, v, a)
