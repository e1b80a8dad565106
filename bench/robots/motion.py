"""Motions of the study: random trajectories, streams, and a reference that two laws can follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.robots.plant import Plant
from rbd_control.control.waypoints import TrajectoryArrays, TrajectoryPoint

Array = NDArray[np.float64]

REACH = 0.7
"""Largest distance of the points of a trajectory from the centre of the motions [rad]."""
INSIDE = 0.25
"""Smallest distance of these points from the position limits [rad]."""
PEAK_SPEED, PEAK_ACCELERATION = 1.875, 5.774
"""Peaks of a minimum-jerk motion over a unit distance in a unit time."""


def box(plant: Plant, reach: float = REACH) -> tuple[Array, Array]:
    """Return the bounds of the points of random trajectories, (nv,) each [rad]."""
    model, centre = plant.arm.model, plant.arm.centre
    lower = np.maximum(centre - reach, np.minimum(model.lower_limit + INSIDE, centre))
    upper = np.minimum(centre + reach, np.maximum(model.upper_limit - INSIDE, centre))
    return lower, upper


def shortest(plant: Plant, distance: Array, share: float) -> float:
    """Return the time of a minimum-jerk motion at a share of the speed limits [s].

    Args:
        plant: gives velocity limits and the largest acceleration.
        distance: (nv,) distance of each joint [rad].
        share: share of the velocity limits.
    """
    far = np.abs(distance)
    speed = (PEAK_SPEED * far / (share * plant.arm.model.velocity_limit)).max()
    acceleration = np.sqrt(PEAK_ACCELERATION * far.max() / plant.robot.acceleration)
    return float(max(speed, acceleration, 0.2))


def random_points(
    plant: Plant, rng: np.random.Generator, share: float, start: Array
) -> list[TrajectoryPoint]:
    """Return 2 to 6 random points with times, at up to a share of the speed limits.

    Args:
        plant: the plant.
        rng: random generator.
        share: share of the velocity limits.
        start: position before the first point, (nv,) [rad].
    """
    t, q, points = 0.0, start, []
    for target in rng.uniform(*box(plant), (rng.integers(2, 7), start.size)):
        t += shortest(plant, target - q, share)
        q = target
        points.append(TrajectoryPoint(q, time_from_start=t))
    return points


@dataclass(frozen=True, eq=False)
class Reference:
    """A sequence of minimum-jerk motions between points, which rest at each point.

    Attributes:
        points: (k, nv) points [rad]; the motion begins at the first.
        times: (k,) time of each point [s].
    """

    points: Array
    times: Array

    @classmethod
    def random(
        cls, plant: Plant, rng: np.random.Generator, seconds: float, share: float
    ) -> Reference:
        """Return a random motion from the centre, of at least some seconds.

        Args:
            plant: the plant.
            rng: random generator.
            seconds: the least duration [s].
            share: share of the velocity limits.
        """
        points, times = [plant.arm.centre], [0.0]
        while times[-1] < seconds:
            target = rng.uniform(*box(plant))
            times.append(times[-1] + shortest(plant, target - points[-1], share))
            points.append(target)
        return cls(np.array(points), np.array(times))

    def at(self, t: float) -> tuple[Array, Array, Array]:
        """Return position, velocity and acceleration at a time, (nv,) each."""
        k = int(np.searchsorted(self.times, t, side="right")) - 1
        k = min(max(k, 0), len(self.times) - 2)
        length = self.times[k + 1] - self.times[k]
        s = min(max((t - self.times[k]) / length, 0.0), 1.0)
        step = self.points[k + 1] - self.points[k]
        q = self.points[k] + step * (s**3 * (10.0 - 15.0 * s + 6.0 * s * s))
        v = step / length * (30.0 * s * s * (1.0 - s) ** 2)
        a = step / length**2 * (60.0 * s * (1.0 - s) * (1.0 - 2.0 * s))
        return q, v, a

    def sampled(self, spacing: float = 0.02) -> TrajectoryArrays:
        """Return the motion as the points of a trajectory.

        Args:
            spacing: time between two points [s].
        """
        times = np.arange(spacing, self.times[-1] + spacing, spacing)
        q, v, a = (np.array(each) for each in zip(*(self.at(t) for t in times), strict=True))
        return TrajectoryArrays(q, times, v, a)
