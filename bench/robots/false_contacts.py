"""``python -m bench.robots.false_contacts [robot ...]``: contacts in the controller's own motions.

The detector is calibrated on ordinary trajectories, which contain no stop, no retreat and no
stream. Then the arm is used without hands: whatever the detector reports is false.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.robots.plant import Plant
from bench.robots.robots import ROBOTS, Robot
from bench.robots.session import Session
from bench.robots.use import Use, User
from rbd_control.estimation import ContactDetector
from rbd_control.identification import CalibratedParameters, RecordedMotion, calibrate

CALIBRATION = 60.0
"""Length of the ordinary motion for the calibration [s]."""
ORDINARY = {"trajectory": 1.0}
"""Activities of the calibration."""
MOTIONS = {
    "trajectory": 4.0,
    "stream": 3.0,
    "order in motion": 8.0,
    "rest": 0.5,
    "slow motion": 0.5,
    "contact": 4.0,
}
"""Activities of the use: the orders are ``cancel``, ``hold``, ``float`` and ``retract``, and a
contact is a flag without a push, to which the arm reacts."""
STOP_TIME = 0.1
"""Time of the stops [s], the default of the controller."""


@dataclass(frozen=True)
class FalseContacts:
    """False contacts of one robot.

    Attributes:
        robot: name of the robot.
        seconds: simulated use [s].
        events: time and activity of each false contact.
        highest: largest ratio of a residual to its threshold.
        parameters: the calibrated parameters.
    """

    robot: str
    seconds: float
    events: tuple[tuple[float, str], ...]
    highest: float
    parameters: CalibratedParameters


def record(
    plant: Plant, seconds: float, seed: int, shares: Mapping[str, float]
) -> tuple[RecordedMotion, list[tuple[float, str]]]:
    """Return the joint states of a use without hands, and when each activity begins [s].

    After a fault the arm starts again from rest, a second later.

    Args:
        plant: the robot.
        seconds: simulated time [s].
        seed: seed of the use.
        shares: frequency of each activity, by name.
    """
    rng = np.random.default_rng(seed)
    rows: list[tuple[float, np.ndarray, np.ndarray, np.ndarray]] = []
    begins: list[tuple[float, str]] = []
    first = 0.0
    while first < seconds - 1e-6:
        parameters = replace(plant.robot.parameters(), stop_time=STOP_TIME)
        session = Session(plant, parameters)
        user = User(session, rng, Use(plant.robot.name), without_hands=True, shares=shares)

        def keep(now: Session, user: User = user, first: float = first) -> None:
            seen = now.seen
            effort = np.zeros_like(seen.v) if seen.effort is None else seen.effort
            rows.append((first + now.plant.t, seen.q, seen.v, effort))
            if not begins or begins[-1][1] != user.activity:
                begins.append((first + now.plant.t, user.activity))

        session.watch = keep
        session.run(seconds - first, user.script())
        first += plant.t + 1.0
    t, q, v, tau = (np.array(column) for column in zip(*rows, strict=True))
    return RecordedMotion(plant.robot.name, t, q, v, tau), begins


def false_contacts(
    robot: Robot,
    seconds: float,
    seed: int = 0,
    calibration: float = CALIBRATION,
    motions: Mapping[str, float] = MOTIONS,
) -> FalseContacts:
    """Calibrate a detector on ordinary motion, and count its false contacts in other motions.

    Args:
        robot: the robot; its drives must publish efforts.
        seconds: simulated use [s].
        seed: seed of specimen and motions.
        calibration: length of the ordinary motion [s].
        motions: frequency of each activity of the use, by name.
    """
    plant = Plant(robot, seed)
    ordinary, _ = record(plant, calibration, seed + 1, ORDINARY)
    model = plant.arm.model
    parameters = calibrate([ordinary], model).parameters
    used, begins = record(plant, seconds, seed + 2, motions)
    detector = ContactDetector(parameters.corrected(model), parameters)
    block = detector.update_block(used.t, used.q, used.v, used.tau)
    times, names = [t for t, _ in begins], [name for _, name in begins]
    events = []
    for _, event in block.events:
        if event.phase == "onset":
            k = int(np.searchsorted(times, event.detected)) - 1
            events.append((event.detected, names[max(k, 0)]))
    ratio = np.abs(block.residual) / block.threshold
    return FalseContacts(robot.name, seconds, tuple(events), float(ratio.max()), parameters)


def main(arguments: Sequence[str]) -> None:
    """Count the false contacts of the robots that the arguments name, and print them."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.robots.false_contacts", description=__doc__
    )
    parser.add_argument("robots", nargs="*", default=["panda", "panda_franka", "iiwa"])
    parser.add_argument("--minutes", type=float, default=10.0, help="of use (default: 10)")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    for name in given.robots:
        found = false_contacts(ROBOTS[name], 60.0 * given.minutes, given.seed)
        print(
            f"{name}: {len(found.events)} false contacts in {found.seconds / 60.0:g} min, highest "
            f"ratio {found.highest:.2f}; delay_error {1e3 * found.parameters.delay_error:.2g} ms",
            *(f"{t:.2f} s, {activity}" for t, activity in found.events),
            sep="\n  ",
        )


if __name__ == "__main__":
    main(sys.argv[1:])
