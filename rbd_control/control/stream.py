"""Streams of single points, for example from teleoperation, which the arm passes without a stop.

Each point arrives before the previous point is reached. If each point were a goal, the arm would
slow down at every point. Instead the arm passes a point with the speed from point to point, but at
most the average speed needed to reach it, and not in the opposite direction: a quintic with such
ends does not overshoot. If no more points arrive, the arm stops at the last point: it goes on with
decreasing speed and returns, which takes at least the duration of a stop. A point that is late by a
fraction of its period therefore does not make the arm brake. If the acceleration on the way to a
point is high, the arm passes the point later, see :func:`past_point`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.trajectory import DesiredState, JointLimits, Trajectory
from rbd_control.errors import TrajectoryError

Array = NDArray[np.float64]

_ROUNDS = 20
"""Maximum number of attempts of a motion past a point, each slower than the previous one."""

_LEAST_TIME = 1e-3
"""Shortest time to a point that is tried, as a share of the longest time."""

_PROBES = 24
"""Number of intervals per segment at whose ends the speed is compared with the limits."""


@dataclass(frozen=True, eq=False)
class StreamPoint:
    """The last point that arrived alone.

    If another single point arrives within twice ``stream_horizon``, both belong to a stream.

    Attributes:
        target: (n,) position of the point, unwrapped [rad or m].
        stamp: stamp of the last joint state when the point arrived [s].
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
    stop_time: float,
    require_hold: Callable[[Trajectory], None],
) -> Trajectory:
    """Return the motion from ``start`` past a point of a stream.

    The motion passes the point with the speed of the stream, continues with decreasing speed,
    returns to the point and ends there at rest. If no such motion that reaches the point within
    ``2 horizon`` keeps the limits, or if the motors cannot hold the arm somewhere on it, the motion
    reaches the point at speed zero and stays there.

    Args:
        point: the motion that would stop at the point.
        start: the present desired state.
        last: the previous point of the stream.
        stamp: stamp of the last joint state when the point arrived [s].
        horizon: half of the longest time to the point [s].
        limits: position and speed limits to keep.
        stop_time: shortest time from the passage of the point to rest [s]. The time to the point is
            extended, up to ``2 horizon``, until no joint changes its speed by more than its speed
            limit within ``stop_time``. This absorbs the jitter of the arrivals. With ``2 horizon``
            the acceleration may exceed this bound.
        require_hold: raises a :class:`TrajectoryError` if the motors cannot hold the arm on the way
            or at the end of a motion.

    Raises:
        TrajectoryError: if the motion that reaches the point at speed zero exceeds a limit as well,
            or is too heavy.
    """
    longest, elapsed = 2.0 * horizon, stamp - last.stamp
    still = np.zeros_like(point.final)

    def speed_at(time: float) -> Array:
        mean = (point.final - start.q_d) / time
        pace = (point.final - last.target) / elapsed if elapsed > 0.0 else mean
        return np.where(pace * mean > 0.0, np.sign(mean), 0.0) * np.minimum(
            np.minimum(np.abs(pace), np.abs(mean)), limits.velocity_limit
        )

    # A point may be due in nanoseconds, from which the rounds would not lead far enough.
    time = max(point.duration, _LEAST_TIME * longest)
    for _ in range(_ROUNDS):
        excess = stop_time * _steepest(point, start, speed_at(time), time, limits)
        if excess <= 1.0 or time >= longest:
            break
        time = min(max(1.05, min(excess, 4.0) ** 0.5) * time, longest)
    else:
        time = longest
    motion = None
    for _ in range(_ROUNDS):
        motion = _past(point, start, speed_at(time), time, stop_time)
        fastest = float(
            (np.abs(motion.probe(_PROBES).v_d).max((0, 1)) / limits.velocity_limit).max()
        )
        if fastest <= 1.0:
            break
        time *= 1.02 * fastest
        if not time <= longest:
            motion = _past(point, start, still, longest, stop_time)
            break
    assert motion is not None
    try:
        motion.check(limits, start)
        require_hold(motion)
    except TrajectoryError:
        motion = _past(point, start, still, min(time, longest), stop_time)
        motion.check(limits, start)
        require_hold(motion)
    return motion


def _steepest(
    point: Trajectory, start: DesiredState, speed: Array, time: float, limits: JointLimits
) -> float:
    """Return a bound on the acceleration on the way to a point, in multiples of the speed limit.

    The result is the largest of all joints [1/s]. It bounds a quintic of duration T = ``time``
    without acceleration at its ends: ``5.8 x / T² + 1.5 |dv| / T``, with the difference dv of the
    two speeds, and the distance x by which a motion at their mean misses the point.
    """
    mean = (point.final - start.q_d) / time
    acceleration = 2.9 * np.abs(2.0 * mean - start.v_d - speed) + 1.5 * np.abs(speed - start.v_d)
    return float((acceleration / limits.velocity_limit).max()) / time


def _past(
    point: Trajectory, start: DesiredState, speed: Array, time: float, stop_time: float
) -> Trajectory:
    """Return a motion from ``start`` past the point with ``speed``, which then returns to it."""
    q = np.vstack((start.q_d, point.final, point.final))
    v = np.vstack((start.v_d, speed, np.zeros_like(speed)))
    a = np.vstack((start.a_d, np.zeros((2, len(speed)))))
    return Trajectory.joining(
        point.joint_names, np.array((0.0, time, time + max(time, stop_time))), q, v, a
    )
