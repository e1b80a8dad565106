"""The desired motion of the arm: a trajectory at full or reduced speed, or a stop.

The pace is the speed factor of a trajectory. Stops and retreats always run in real time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.trajectory import START_TOLERANCE, DesiredState, Trajectory
from rbd_control.errors import TrajectoryError

Array = NDArray[np.float64]


class Place(NamedTuple):
    """A trajectory and a time on it [s].

    It is always replaced as a whole, so that other threads read it safely.
    """

    trajectory: Trajectory
    time: float


class DesiredMotion:
    """The desired motion of one arm.

    Args:
        trajectory: the first trajectory; it runs in real time.

    Attributes:
        wanted_pace: requested speed factor of trajectories, 0 to 1; :meth:`advance` approaches it.
        is_stop: whether the present motion is a stop.
        jumps: number of discontinuities of the desired state so far: one for each stop.
    """

    def __init__(self, trajectory: Trajectory) -> None:
        self.wanted_pace = 1.0
        self.jumps, self.is_stop = 0, False
        self._place = Place(trajectory, 0.0)
        self._next: Place | None = None
        self._now: DesiredState | None = None
        """The present desired state, once it was computed."""
        self._paced = False
        self._pace, self._pace_rate = 1.0, 0.0

    @property
    def place(self) -> Place:
        """The present trajectory and the time on it [s], which goes on after its end."""
        return self._place

    @property
    def trajectory(self) -> Trajectory:
        """The present trajectory."""
        return self._place.trajectory

    @property
    def pace(self) -> float:
        """Present speed factor: time on the trajectory per second of real time, 0 to 1."""
        return self._pace

    @property
    def overtime(self) -> float:
        """Time since the end of the trajectory [s]; negative before."""
        return self._place.time - self._place.trajectory.duration

    @property
    def moving(self) -> bool:
        """Whether the trajectory has not ended, or another trajectory is waiting."""
        return self.overtime < 0.0 or self._next is not None

    @property
    def waiting(self) -> Place | None:
        """The next trajectory, and the time on the present one at which it begins [s], or None."""
        return self._next

    def stop(self, names: tuple[str, ...], q: Array, v: Array, time: float) -> None:
        """Stop from velocity ``v`` within ``time`` [s], in real time; the stop ends at ``q``.

        It begins at once, and a waiting trajectory is discarded.

        Args:
            names: names of the joints.
            q, v: (nv,) present position [rad or m] and velocity [rad/s or m/s].
            time: duration of the stop [s].
        """
        self._run(Trajectory.stop(names, q, v, time))
        self.jumps += 1
        self.is_stop = True

    def run(self, trajectory: Trajectory) -> None:
        """Move along a trajectory that begins with the present state, in real time, at once."""
        self._run(trajectory)

    def follow(self, trajectory: Trajectory, at: float | None = None) -> None:
        """Follow a trajectory at the wanted pace, in place of a waiting trajectory.

        Args:
            trajectory: begins with the state of the present trajectory at the time ``at``.
            at: time on the present trajectory [s] until which the new trajectory waits; None, or a
                time in the past, means that it begins now.
        """
        if at is not None and at > self._place.time:
            self._next = Place(trajectory, at)
            return
        self._begin(trajectory, 0.0)

    def drop_waiting(self) -> None:
        """Discard a waiting trajectory."""
        self._next = None

    def advance(self, dt: float, ramp: float) -> None:
        """Advance by ``dt`` [s].

        The pace of a trajectory approaches ``wanted_pace`` by ``dt / ramp``, with ``ramp`` in [s].
        """
        trajectory, time = self._place
        step = 0.0
        if self._paced and dt > 0.0:
            change = self.wanted_pace - self._pace
            step = min(max(change, -dt / ramp), dt / ramp)
            time += (self._pace + 0.5 * step) * dt
            self._pace = self.wanted_pace if step == change else self._pace + step
        else:
            time += dt
        self._pace_rate = step / dt if step else 0.0
        if self._place.time < trajectory.duration:  # otherwise it rests
            self._now = None
        self._place = Place(trajectory, time)
        if self._next is not None and time >= self._next.time:
            self._begin(self._next.trajectory, time - self._next.time)

    def state(self) -> DesiredState:
        """Return the present state of the trajectory at full speed, as start of another one."""
        return self._place.trajectory.sample(self._place.time)

    def desired(self) -> DesiredState:
        """Return the present desired state; the pace scales its velocity and acceleration."""
        if self._now is not None:
            return self._now
        trajectory, time = self._place
        q, v, a = self._now = trajectory.sample(time)
        is_full = self._pace == 1.0 and self._pace_rate == 0.0
        if self._paced and not is_full and time < trajectory.duration:
            # q_d(theta(t)): v = q' theta_dot, a = q'' theta_dot² + q' theta_ddot
            pace = self._pace
            self._now = DesiredState(q, pace * v, pace**2 * a + self._pace_rate * v)
        return self._now

    def _run(self, trajectory: Trajectory) -> None:
        self._place, self.is_stop = Place(trajectory, 0.0), False
        self._now, self._paced, self._next = None, False, None
        self._pace, self._pace_rate = 1.0, 0.0

    def _begin(self, trajectory: Trajectory, time: float) -> None:
        # From rest any pace can begin at once; a motion in real time keeps its pace.
        if not self._paced and self.overtime >= 0.0:
            self._pace = self.wanted_pace
        self._place, self.is_stop = Place(trajectory, time), False
        self._now, self._paced, self._next = None, True, None


class Interruption:
    """The interruption of a trajectory by a hold.

    The trajectory may continue while the arm is at the position where it came to rest after the
    interruption. The first retreat from this position replaces it by the end of the retreat. A
    later contact does not change it, but may move the arm, and the end of the desired motion with
    it. Therefore the arm must be near both: this position and the end of the desired motion.

    Args:
        place: the interrupted trajectory, and the time on it at the interruption.
        rest: (nv,) position at which the arm comes to rest [rad or m].

    Attributes:
        place: as the argument.
    """

    def __init__(self, place: Place, rest: Array) -> None:
        self.place = place
        self._rest = rest
        self._has_retreated = False

    def retreated(self, start: Array, end: Array) -> None:
        """Note a retreat from ``start`` to ``end``, (nv,) each [rad or m].

        The first retreat moves the position of rest to ``end``, if ``start`` is within
        ``START_TOLERANCE`` (0.05 rad or m) of the position of rest on every joint.
        """
        if not self._has_retreated and np.abs(start - self._rest).max() <= START_TOLERANCE:
            self._rest = end
        self._has_retreated = True

    def require_near(self, q: Array, end: Array) -> None:
        """Raise an error unless the arm is near the end of its motion and its position of rest.

        Near means within ``START_TOLERANCE`` (0.05 rad or m) on every joint.

        Args:
            q: (nv,) measured position [rad or m].
            end: (nv,) end of the present desired motion [rad or m].

        Raises:
            TrajectoryError: naming the largest distance of a joint.
        """
        away = float(np.abs(q - np.array([end, self._rest])).max())
        if away > START_TOLERANCE:
            raise TrajectoryError(
                f"the arm is {away:.3g} rad or m from the position where it stopped; at most "
                f"{START_TOLERANCE:g} is permitted"
            )
