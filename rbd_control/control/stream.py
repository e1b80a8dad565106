"""Points that come one by one, as from a teleoperator: passed with speed, not stopped at.

Each point arrives before the one ahead of it is reached. Were it a goal, the arm would slow down
for every one of them. Here the speed to pass it with is that from point to point, but no more than
the arm needs on average to get there and none against it: a quintic with such ends does not swing
out. Should no more points come, the arm stops at the last one.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.splines import hermite
from rbd_control.control.trajectory import DesiredState, JointLimits, Trajectory
from rbd_control.errors import TrajectoryError

Array = NDArray[np.float64]


class Stream:
    """Remembers the last point, to tell a stream from a goal."""

    def __init__(self) -> None:
        self._target: Array | None = None
        self._stamp = -inf

    def follow(
        self,
        point: Trajectory,
        start: DesiredState,
        stamp: float,
        horizon: float,
        limits: JointLimits,
    ) -> Trajectory | None:
        """The motion past a point of a stream, or None for the first, which is a goal.

        Args:
            point: the motion that would stop at the point.
            start: the desired state now.
            stamp: when the point came [s].
            horizon: longest time between points of one stream is twice this [s], and so is the
                longest that a point's own time is stretched to.
            limits: position and speed limits to keep.

        Raises:
            TrajectoryError: when the point cannot be reached within the limits in that time.
        """
        last, elapsed = self._target, stamp - self._stamp
        if last is None or not 0.0 <= elapsed <= 2.0 * horizon:
            self._target, self._stamp = point.final, stamp
            return None
        time = point.duration
        while True:
            mean = (point.final - start.q_d) / time
            pace = (point.final - last) / elapsed if elapsed > 0.0 else mean
            speed = np.where(pace * mean > 0.0, np.sign(mean), 0.0) * np.minimum(
                np.minimum(np.abs(pace), np.abs(mean)), limits.velocity_limit
            )
            motion = _past(point, start, speed, time)
            fastest = float(
                (np.abs(motion.probe(24).v_d).max((0, 1)) / limits.velocity_limit).max()
            )
            if fastest <= 1.0:
                break
            time *= 1.02 * fastest
            if time > 2.0 * horizon:
                motion = _past(point, start, np.zeros_like(speed), 2.0 * horizon)
                break
        try:
            motion.check(limits, start)
        except TrajectoryError:
            motion = _past(point, start, np.zeros_like(speed), min(time, 2.0 * horizon))
            motion.check(limits, start)
        self._target, self._stamp = point.final, stamp
        return motion


def _past(point: Trajectory, start: DesiredState, speed: Array, time: float) -> Trajectory:
    """From ``start`` past the point with ``speed``, and back to it."""
    q = np.vstack((start.q_d, point.final, point.final))
    v = np.vstack((start.v_d, speed, np.zeros_like(speed)))
    a = np.vstack((start.a_d, np.zeros((2, len(speed)))))
    coefficients = hermite(np.array([[time], [time]]), q, v, a)
    return Trajectory(point.joint_names, (0.0, time, 2.0 * time), coefficients, point.final)
