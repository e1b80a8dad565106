"""Pick and place: successive point-to-point motions with pauses."""

from __future__ import annotations

import numpy as np

from bench.contacts.motion import Motion, Reference
from rbd_control.dynamics import Model

SPEED = 0.8
"""Largest speed of a joint [rad/s]."""
ACCELERATION = 2.0
"""Largest acceleration of a joint [rad/s²]."""
REACH = 0.6
"""Largest distance of a goal from the centre, for each joint [rad].

It is at most 90 % of the way to the joint's limit."""
PAUSE = 0.3
"""Time at rest at each goal [s]."""
PEAK_SPEED, PEAK_ACCELERATION = 1.875, 5.7735
"""Peak velocity and acceleration of a minimum-jerk motion of unit length in unit time."""


class PickAndPlace(Motion):
    """Minimum-jerk motions between random goals in joint space.

    Args:
        model: the arm.
        centre: centre of the goals, (nv,) [rad].
        seed: seed of the goals.
        duration: length of the whole motion [s]; the arm rests afterwards.
    """

    def __init__(self, model: Model, centre: np.ndarray, seed: int, duration: float) -> None:
        rng = np.random.default_rng(seed)
        room = np.minimum(model.upper_limit - centre, centre - model.lower_limit)
        reach = np.minimum(0.9 * room, REACH)
        goals, begins, lengths, t = [centre], [], [], 0.0
        while t < duration:
            goal = centre + rng.uniform(-reach, reach)
            way = float(np.abs(goal - goals[-1]).max())
            length = max(PEAK_SPEED * way / SPEED, (PEAK_ACCELERATION * way / ACCELERATION) ** 0.5)
            goals.append(goal)
            begins.append(t)
            lengths.append(length)
            t += length + PAUSE
        self._goals, self._begin, self._length = map(np.array, (goals, begins, lengths))

    def at(self, t: np.ndarray) -> Reference:
        """Return the desired motion at times ``t``, (k,) [s], from its start."""
        k = np.clip(np.searchsorted(self._begin, t, side="right") - 1, 0, None)
        length = self._length[k]
        s = np.clip((t - self._begin[k]) / length, 0.0, 1.0)
        way = self._goals[k + 1] - self._goals[k]
        position = s**3 * (10.0 - 15.0 * s + 6.0 * s * s)
        speed = 30.0 * s * s * (1.0 - s) ** 2 / length
        acceleration = 60.0 * s * (1.0 - s) * (1.0 - 2.0 * s) / length**2
        return Reference(
            self._goals[k] + position[:, None] * way,
            speed[:, None] * way,
            acceleration[:, None] * way,
        )
