"""The motion that the law tracks: a trajectory, how far along it is, and how fast it goes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.trajectory import DesiredState, Trajectory

Array = NDArray[np.float64]


class Motion:
    """A trajectory that is moved along, at its own pace or slower.

    Attributes:
        trajectory: what is followed.
        time: how far along it is [s]; runs on after its end.
        pace: time on it for each second; the desired speed is that share of the trajectory's.
        wanted_pace: what the pace goes to, evenly.
    """

    def __init__(self, trajectory: Trajectory) -> None:
        self.begin(trajectory)
        self.pace = self.wanted_pace = 1.0
        self._pace_rate = 0.0

    def begin(self, trajectory: Trajectory) -> None:
        """Follow another trajectory from its beginning on; the pace stays."""
        self.trajectory, self.time = trajectory, 0.0

    def stop_at(self, trajectory: Trajectory) -> None:
        """Follow a trajectory from its beginning on, at its own pace at once."""
        self.begin(trajectory)
        self.pace, self._pace_rate = 1.0, 0.0

    @property
    def overtime(self) -> float:
        """Time since the end of the trajectory [s]; negative before."""
        return self.time - self.trajectory.duration

    def advance(self, dt: float, ramp: float) -> None:
        """Move on by ``dt`` [s]; the pace changes by one in the time ``ramp`` [s]."""
        change = self.wanted_pace - self.pace
        if change == 0.0 or dt == 0.0:
            self._pace_rate = 0.0
            self.time += self.pace * dt
            return
        step = min(max(change, -dt / ramp), dt / ramp)
        self.time += (self.pace + 0.5 * step) * dt
        self.pace = self.wanted_pace if step == change else self.pace + step
        self._pace_rate = step / dt

    def state(self) -> DesiredState:
        """Where the trajectory is now, at its own pace: what another one must begin with."""
        return self.trajectory.sample(self.time)

    def desired(self) -> DesiredState:
        """Where the arm should be now."""
        state = self.trajectory.sample(self.time)
        if self.pace == 1.0 and self._pace_rate == 0.0:
            return state
        # q_d(theta(t)): v = q' theta_dot, a = q'' theta_dot² + q' theta_ddot
        q, v, a = state
        return DesiredState(q, self.pace * v, self.pace**2 * a + self._pace_rate * v)


class Tolerances:
    """Tells whether a trajectory is kept to, and its goal reached.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(self, joint_names: tuple[str, ...], parameters: ControllerParameters) -> None:
        self._names = joint_names
        path = parameters.for_joints("path_tolerance", len(joint_names))
        self._path = np.where(path > 0.0, path, np.inf) if path.any() else None
        self._goal = parameters.for_joints("goal_tolerance", len(joint_names))
        self._stopped = parameters.stopped_velocity_tolerance

    def strayed(self, q: Array, q_d: Array) -> str:
        """Which joint is too far from its path, or an empty text."""
        if self._path is None:
            return ""
        share = np.abs(q - q_d) / self._path
        j = int(share.argmax())
        if share[j] <= 1.0:
            return ""
        return (
            f"{self._names[j]} is {abs(q[j] - q_d[j]):.4g} from its path; "
            f"its tolerance is {self._path[j]:g}"
        )

    def reached(self, q: Array, v: Array, goal: Array) -> bool:
        """Whether every joint is near its goal and as good as still."""
        near = (np.abs(q - goal) <= self._goal).all()
        return bool(near and np.abs(v).max() <= self._stopped)
