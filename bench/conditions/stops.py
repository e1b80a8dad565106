"""A motion of the shipped controller's trajectories, each stopped in its middle."""

from __future__ import annotations

import numpy as np

from bench.contacts.motion import REACH, Reference
from bench.contacts.plant import PERIOD
from rbd_control.control import ControllerParameters
from rbd_control.control.trajectory import Trajectory
from rbd_control.dynamics import Model, gravity_torque, mass_matrix

SPEED = 0.5
"""Largest speed at the stop, as a share of the velocity limits."""
TORQUE = 0.7
"""Largest torque of a stop, as a share of the effort limits; faster motions are slowed down."""
REST = 0.4
"""Time at rest after a stop [s]."""
PEAK = 1.875
"""Largest speed of a minimum-jerk motion over a unit distance in a unit time."""


class StoppedMotion:
    """Motions between random points that :meth:`Trajectory.stop` ends in their middle.

    Args:
        model: the arm.
        centre: centre of the motions, (nv,) [rad].
        rng: source of the points.
        duration: length of the motion [s].
    """

    def __init__(
        self, model: Model, centre: np.ndarray, rng: np.random.Generator, duration: float
    ) -> None:
        self._model, self._time = model, ControllerParameters().stop_time
        rows: list[tuple[np.ndarray, ...]] = []
        q = centre
        while len(rows) * PERIOD < duration:
            way = self._way(q, centre + rng.uniform(-REACH, REACH, q.size))
            middle = way.sample(0.5 * way.duration)
            stop = Trajectory.stop(model.joint_names, middle.q_d, middle.v_d, self._time)
            rows += [way.sample(t) for t in np.arange(0.0, 0.5 * way.duration, PERIOD)]
            rows += [stop.sample(t) for t in np.arange(0.0, self._time + REST, PERIOD)]
            q = stop.final
        self._q, self._v, self._a = (np.array(part) for part in zip(*rows, strict=True))

    def at(self, t: np.ndarray) -> Reference:
        """Return the desired motion at times ``t``, (k,) [s]."""
        rows = np.clip(np.round(t / PERIOD).astype(int), 0, len(self._q) - 1)
        return Reference(self._q[rows], self._v[rows], self._a[rows])

    def _way(self, start: np.ndarray, end: np.ndarray) -> Trajectory:
        """Return a minimum-jerk motion that the arm can stop in its middle."""
        model = self._model
        end = np.clip(end, model.lower_limit + 0.2, model.upper_limit - 0.2)
        speed = SPEED * model.velocity_limit
        time = float((PEAK * np.abs(end - start) / speed).max())
        middle = 0.5 * (start + end)
        # The cubic of a stop begins with 4 v / time.
        braking = 4.0 * PEAK * (end - start) / (time * self._time)
        room = TORQUE * model.effort_limit - np.abs(gravity_torque(model, middle))
        torque = np.abs(mass_matrix(model, middle) @ braking)
        time *= max(1.0, float((torque / np.maximum(room, 0.1 * model.effort_limit)).max()))
        ends, rest = np.array([start, end]), np.zeros((2, start.size))
        return Trajectory.joining(
            model.joint_names, np.array([0.0, time]), ends, rest.copy(), rest.copy()
        )
