"""Time and way to standstill from half speed: after an order, and by the safe torque."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan

import numpy as np

from bench.robots.failures import AFTER, HALF_SPEED, standstill
from bench.robots.motion import Reference
from bench.robots.plant import Plant
from bench.robots.robots import Robot
from bench.robots.session import Session


@dataclass(frozen=True)
class Stops:
    """Stops from the same motions of a healthy robot, by an order and by a fault.

    Times are largest times to standstill [s]; ways are largest motions of a joint [rad].
    """

    robot: str
    stop_time: float
    """The parameter of this name [s]."""
    order_time: float
    order_way: float
    fault_time: float
    fault_way: float


def stops(robot: Robot, count: int = 3) -> Stops:
    """Stop some motions in their middle, at half the velocity limits, by both means.

    Args:
        robot: the robot.
        count: number of motions.
    """
    ordered = np.array([_stop(robot, seed, by_fault=False) for seed in range(count)])
    by_fault = np.array([_stop(robot, seed, by_fault=True) for seed in range(count)])
    return Stops(
        robot.name,
        robot.parameters().stop_time,
        *(float(x) for x in ordered.max(axis=0)),
        *(float(x) for x in by_fault.max(axis=0)),
    )


def _stop(robot: Robot, seed: int, *, by_fault: bool) -> tuple[float, float]:
    """Return time [s] and way [rad] to standstill; NaN if a fault came before the stop."""
    plant = Plant(robot, seed)
    motion = Reference.random(plant, np.random.default_rng(3000 + seed), 1.0, HALF_SPEED)
    session = Session(plant)
    session.follow(motion.sampled())
    session.run(0.5 * motion.times[1])
    if session.fault is not None:
        return nan, nan
    rows: list[tuple[float, np.ndarray, np.ndarray]] = []
    session.watch = lambda _: rows.append((plant.t, np.abs(plant.state.v), plant.state.q.copy()))
    if by_fault:
        session.provoke_tracking_fault()
    else:
        session.order("hold")
    session.run(AFTER, past_fault=True)
    t, speeds, places = (np.array(column) for column in zip(*rows, strict=True))
    way = float(np.abs(places - places[0]).max())
    return inf if session.controller.mode == "safe" and not by_fault else standstill(t, speeds), way
