"""Ordinary use of a healthy arm: trajectories, streams, hands, orders, rests and slow motions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bench.robots.motion import box, random_points, shortest
from bench.robots.plant import Plant
from bench.robots.robots import Robot
from bench.robots.session import Script, Session
from rbd_control.control.waypoints import TrajectoryPoint

Array = NDArray[np.float64]

FASTEST = 0.95
"""Largest share of the velocity limits of random trajectories."""
REACTIONS = ("hold", "float", "retract", "slow")
ORDERS = ("hold", "cancel", "float", "retract")
SHARES = {
    "trajectory": 6.0,
    "stream": 2.0,
    "push at rest": 2.0,
    "push in motion": 3.0,
    "order in motion": 4.0,
    "rest": 1.0,
    "slow motion": 1.0,
    "contact": 2.0,
}
"""Relative frequencies of the activities."""


@dataclass
class Use:
    """Ordinary use of one specimen.

    Attributes:
        robot: name of the robot.
        seconds: simulated time [s].
        faults: activity and reason of each fault.
        activities: number of times that each activity began.
        refused: number of trajectories that the controller refused, and of all.
    """

    robot: str
    seconds: float = 0.0
    faults: list[tuple[str, str]] = field(default_factory=list)
    activities: dict[str, int] = field(default_factory=dict)
    refused: list[int] = field(default_factory=lambda: [0, 0])

    @property
    def faults_per_hour(self) -> float:
        """False faults in an hour."""
        return 3600.0 * len(self.faults) / self.seconds


def ordinary(robot: Robot, seconds: float, seed: int = 0) -> Use:
    """Use a healthy robot for some time; after a fault, start again from rest.

    Args:
        robot: the robot.
        seconds: simulated time [s].
        seed: seed of specimen and use.
    """
    plant, result = Plant(robot, seed), Use(robot.name)
    rng = np.random.default_rng(1000 + seed)
    while result.seconds < seconds - 1e-6:
        session = Session(plant)
        user = User(session, rng, result)
        session.run(seconds - result.seconds, user.script())
        result.seconds += plant.t
        if session.fault is not None:
            result.faults.append((user.activity, session.fault.reason))
    return result


class User:
    """Uses one session.

    Args:
        session: the session.
        rng: source of all random choices.
        result: counts the activities.
        without_hands: whether nothing touches the arm: there is no push, and the flag of the
            contact detector, which makes the arm react, is false.
        shares: frequency of each activity, by name; by default those of ordinary use.
    """

    def __init__(
        self,
        session: Session,
        rng: np.random.Generator,
        result: Use,
        *,
        without_hands: bool = False,
        shares: Mapping[str, float] | None = None,
    ) -> None:
        self._session, self._rng, self._result = session, rng, result
        self._without_hands, self._shares = without_hands, shares or SHARES
        self._plant = session.plant
        self.activity = "start"

    def script(self) -> Script:
        """Yield the times of an endless use [s], which begins with half a second of rest."""
        activities = {
            "trajectory": self._trajectory,
            "stream": self._stream,
            "push at rest": self._push_at_rest,
            "push in motion": self._push_in_motion,
            "order in motion": self._order,
            "rest": self._rest,
            "slow motion": self._slow,
            "contact": self._contact,
        }
        shares = np.array(list(self._shares.values()))
        yield 0.5
        while True:
            name = str(self._rng.choice(list(self._shares), p=shares / shares.sum()))
            self.activity = name
            self._result.activities[name] = self._result.activities.get(name, 0) + 1
            yield from activities[name]()

    # --- Activities ------------------------------------------------------------------------------

    def _begin(self, share: float) -> float:
        """Order a random trajectory; return its duration, or 0 if it is refused [s]."""
        self._result.refused[1] += 1
        points = random_points(self._plant, self._rng, share, self._session.command.q_d)
        for stretch in (1.0, 1.2, 1.5, 2.0, 4.0):
            slower = [p._replace(time_from_start=stretch * p.time_from_start) for p in points]
            if self._session.follow(slower):
                return slower[-1].time_from_start
        self._result.refused[0] += 1
        return 0.0

    def _share(self) -> float:
        return float(self._rng.uniform(0.1, FASTEST))

    def _trajectory(self) -> Script:
        yield self._begin(self._share()) + self._rng.uniform(0.0, 1.0)

    def _stream(self) -> Script:
        """Send single points on a line at a constant spacing, as a joystick or a planner does."""
        plant, rng = self._plant, self._rng
        lower, upper = box(plant)
        q = self._session.command.q_d
        target = rng.uniform(lower, upper)
        spacing = rng.uniform(0.02, 0.1)
        length = 1.3 * shortest(plant, target - q, rng.uniform(0.1, 0.5))
        for s in np.arange(0.0, length, spacing) / length:
            blend = s**3 * (10.0 - 15.0 * s + 6.0 * s * s)
            point = TrajectoryPoint(q + blend * (target - q), time_from_start=1.5 * spacing)
            self._session.follow([point])
            yield spacing
        yield 1.0

    def _force(self) -> tuple[int, Array, float, bool]:
        """Return link, force [N], duration [s] and kind of a random push."""
        rng = self._rng
        row = int(rng.integers(1, self._plant.arm.model.nv))
        direction = rng.standard_normal(3)
        force = rng.uniform(10.0, 60.0) * direction / np.linalg.norm(direction)
        return row, force, float(rng.uniform(0.1, 2.0)), bool(rng.integers(2))

    def _push(self) -> float:
        row, force, seconds, is_held = self._force()
        if not self._without_hands:
            self._session.push(row, force, seconds, is_held=is_held)
        return seconds

    def _push_at_rest(self) -> Script:
        yield self._push() + 1.0

    def _push_in_motion(self) -> Script:
        length = self._begin(self._share())
        before = self._rng.uniform(0.2, 0.6) * length
        yield before
        yield max(self._push() + 1.0, length - before)

    def _order(self) -> Script:
        """Interrupt a trajectory; go on with it, or with another one, after a while."""
        session, rng = self._session, self._rng
        length = self._begin(float(rng.uniform(0.3, FASTEST)))
        yield rng.uniform(0.2, 0.8) * length
        name = str(rng.choice(ORDERS))
        self.activity = f"order {name.strip('_')}"
        if name == "retract":
            row, force, _, _ = self._force()
            session.controller.set_contact_force(self._plant.arm.model.joint_links[row], force)
        session.order(name)
        yield rng.uniform(0.05, 2.0)
        if name == "float":
            # A hand guides the floating arm.
            yield self._push() if rng.integers(2) else 0.0
        if name != "cancel":
            session.order("resume")
        yield length if rng.integers(2) else 0.5
        session.order("cancel")
        yield 0.5

    def _contact(self) -> Script:
        """Raise the flag of the contact detector in motion while a hand touches the arm."""
        session, rng = self._session, self._rng
        reaction = str(rng.choice(REACTIONS))
        self.activity = f"contact, {reaction}"
        session.controller.set_parameters(replace(session.parameters, contact_reaction=reaction))
        length = self._begin(self._share())
        yield rng.uniform(0.2, 0.8) * length
        row, force, seconds, is_held = self._force()
        if not self._without_hands:
            session.push(row, force, seconds, is_held=is_held)
        session.controller.set_contact_force(self._plant.arm.model.joint_links[row], force)
        session.flag = True
        yield max(seconds, 0.05)
        session.flag = False
        yield 0.5
        session.order("resume")
        yield length

    def _rest(self) -> Script:
        yield self._rng.uniform(3.0, 15.0)

    def _slow(self) -> Script:
        """Move by some milliradians at some milliradians per second, and back."""
        q, rng = self._session.command.q_d, self._rng
        target = q + rng.uniform(-0.01, 0.01, q.size)
        seconds = float(rng.uniform(2.0, 6.0))
        points = [
            TrajectoryPoint(target, time_from_start=seconds),
            TrajectoryPoint(q, time_from_start=2.0 * seconds),
        ]
        self._session.follow(points)
        yield 2.0 * seconds
