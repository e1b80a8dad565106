"""Tracking errors of the controller, beside PD with gravity at its best stable gains."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan, sqrt

import numpy as np
from numpy.typing import NDArray

from bench.robots.motion import Reference
from bench.robots.plant import Plant
from bench.robots.robots import Robot
from bench.robots.session import Session
from rbd_control.dynamics import gravity_torque, mass_matrix

Array = NDArray[np.float64]

SHARE = 0.5
"""Share of the velocity limits of the motion."""
REST = 2.0
"""Time at rest after the motion, at whose end an oscillation counts [s]."""
SETTLED = 0.02
"""Largest speed of a joint in the last second at rest with stable gains [rad/s]."""
RATES = (10.0, 20.0, 40.0)
"""Damping of PD as a multiple of the mean of diag(M) [1/s]."""
SLOPES = (10.0, 20.0, 40.0)
"""Stiffness of PD as a multiple of its damping [1/s]."""


@dataclass(frozen=True)
class Tracking:
    """RMS tracking errors over time and joints [rad]; NaN if the motion was not finished."""

    robot: str
    error: float
    reason: str
    """Fault that ended the motion of the controller, or an empty text."""
    pd_error: float
    pd_gains: tuple[float, float]
    """Rate and slope of the best stable PD, of :data:`RATES` and :data:`SLOPES` [1/s]."""


def tracking(robot: Robot, seconds: float = 20.0, seed: int = 0) -> Tracking:
    """Follow a motion with the controller, and with PD for each pair of gains.

    Args:
        robot: the robot.
        seconds: the least duration of the motion [s].
        seed: seed of specimen and motion.
    """
    plant = Plant(robot, seed)
    motion = Reference.random(plant, np.random.default_rng(4000 + seed), seconds, SHARE)
    errors: list[Array] = []
    session = Session(plant)
    begin = plant.t
    if not session.follow(motion.sampled()):
        reason = "the trajectory is refused"
    else:
        # A single trajectory begins with the next sample.
        session.watch = lambda _: errors.append(plant.state.q - motion.at(plant.t - begin)[0])
        session.run(motion.times[-1])
        reason = session.fault.reason if session.fault else ""
    best, gains = inf, (nan, nan)
    for rate in RATES:
        for slope in SLOPES:
            error = pd_error(plant, motion, rate, slope)
            if error < best:  # never for NaN
                best, gains = error, (rate, slope)
    return Tracking(
        robot.name, nan if reason else _rms(errors), reason, best if best < inf else nan, gains
    )


def pd_error(plant: Plant, motion: Reference, rate: float, slope: float) -> float:
    """Return the RMS error of PD with gravity [rad]; NaN if the gains are not stable.

    The law is ``tau = g(q) - D (e' + slope e)`` with ``D = rate * mean of diag(M)``, without g for
    an arm that compensates its gravity.

    Args:
        plant: the plant, which is started.
        motion: the desired motion.
        rate, slope: the gains [1/s].
    """
    model, period = plant.arm.model, plant.robot.period
    inertia = np.diagonal(mass_matrix(model, motion.points), axis1=1, axis2=2).mean(axis=0)
    D, limit = rate * inertia, model.effort_limit
    plant.start(motion.points[0])
    errors: list[Array] = []
    largest, end = 0.0, motion.times[-1] + REST

    def torque(q: Array, v: Array, q_d: Array, v_d: Array) -> Array:
        tau = -D * (v - v_d + slope * (q - q_d))
        return tau if plant.robot.compensates_gravity else tau + gravity_torque(model, q)

    desired = [motion.at(t) for t in np.arange(0.0, end + period, period)]
    for k, (q_d, v_d, _) in enumerate(desired[:-1]):
        seen = plant.measure()
        plant.send(np.clip(torque(seen.q, seen.v, q_d, v_d), -limit, limit))
        plant.advance(period)
        fastest = np.abs(plant.state.v) / model.velocity_limit
        if not fastest.max() < TOO_FAST:
            return nan
        if plant.t <= motion.times[-1]:
            errors.append(plant.state.q - desired[k + 1][0])
        elif plant.t > end - 1.0:
            largest = max(largest, float(np.abs(plant.state.v).max()))
    return _rms(errors) if largest < SETTLED else nan


TOO_FAST = 1.5
"""Multiple of the velocity limits above which gains are not stable; the motion needs a half."""


def _rms(errors: list[Array]) -> float:
    return sqrt(float(np.mean(np.square(errors))))
