"""What touches the arm: pushes of known force, and obstacles that MuJoCo makes it collide with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import mujoco
import numpy as np

from bench.contacts.plant import OBSTACLE, TIP, Plant

FEELABLE = 0.01
"""A push is made where one of 20 N loads a joint with this part of its effort limit.

A push along a joint's axis, or on the first link, moves nothing, and nobody can tell it; 1 % is
about what 2 % of wrong mass do to the shoulder of an outstretched arm. Pushes of any size are made
in the same places.
"""
REFERENCE_FORCE = 20.0
NORMAL_CONE = 0.5
"""Half of the pushes go into the surface, within atan of this from its normal: friction's cone."""
PAUSE = (1.0, 2.0)
"""From the end of one contact to the start of the next [s]."""
LENGTH = (0.2, 0.5)
"""Of a push, and of the time an obstacle stays [s]."""
LEAD = 0.03
"""An obstacle appears this long before the arm gets there [s]."""
LEAST_SPEED, LEAST_FACING = 0.15, 0.5
"""A point that runs into an obstacle is as fast as this [m/s] and leads as far (a cosine)."""
TRIES = 100


@dataclass(frozen=True, eq=False)
class Contact:
    """The truth about one contact."""

    kind: Literal["push", "collision"]
    link: str
    start: float
    """[s]."""
    end: float
    """[s]."""
    point: np.ndarray
    """(3,) where, in the frame of the link [m]."""
    force: np.ndarray
    """(3,) mean force on the link while it lasted, world axes [N]."""
    size: float
    """What was asked for [N]; of a collision the largest force."""
    into_surface: bool
    """Whether the force lies in the friction cone; otherwise its direction is any."""
    load: float
    """The largest torque it put on a joint, in parts of the joint's effort limit."""


class Touch(ABC):
    """One touch to come; an episode calls :meth:`before` and :meth:`after` in every step."""

    kind: Literal["push", "collision"]

    def __init__(self, start: float, length: float, seed: int) -> None:
        self.planned, self.length = start, length
        self.rng = np.random.default_rng(seed)
        self.over = False
        self.row = -1
        self.point = np.zeros(3)
        self._start = self._end = 0.0
        self._sum, self._samples, self._largest = np.zeros(3), 0, 0.0
        self._load = np.zeros(0)

    @abstractmethod
    def before(self, plant: Plant, t: float) -> None:
        """Act on the arm: the positions are those of ``t`` [s], the step is still to come."""

    @abstractmethod
    def after(self, plant: Plant, t: float) -> np.ndarray:
        """Return the force on the arm in this step, (3,) world axes [N]."""

    def note(self, t: float, force: np.ndarray, torque: np.ndarray) -> None:
        """Keep account of the truth of one step with contact."""
        if not self._samples:
            self._start, self._load = t, np.zeros_like(torque)
        self._end = t
        self._samples += 1
        self._sum += force
        self._largest = max(self._largest, float(np.linalg.norm(force)))
        self._load = np.maximum(self._load, np.abs(torque))

    def contact(self, plant: Plant) -> Contact | None:
        """Return what became of it; None when the arm was missed."""
        if not self._samples:
            return None
        return Contact(
            kind=self.kind,
            link=plant.arm.model.joint_links[self.row],
            start=self._start,
            end=self._end + plant.mj.opt.timestep,
            point=self.point,
            force=self._sum / self._samples,
            size=self._largest,
            into_surface=self.into_surface,
            load=float((self._load / plant.arm.model.effort_limit).max()),
        )

    into_surface = True


class Push(Touch):
    """A constant force on a random point of a random link."""

    kind = "push"

    def __init__(self, start: float, length: float, seed: int, size: float) -> None:
        super().__init__(start, length, seed)
        self._size = size
        self._force = np.zeros(3)
        self.into_surface = bool(self.rng.random() < 0.5)

    def before(self, plant: Plant, t: float) -> None:
        if t >= self.planned + self.length:
            self.over = True
        elif t >= self.planned:
            if self.row < 0:
                self._choose(plant)
            body = plant.body[self.row]
            at = plant.place(self.row, self.point)
            torque, nothing = plant.data.qfrc_applied, np.zeros(3)
            mujoco.mj_applyFT(plant.mj, plant.data, self._force, nothing, at, body, torque)

    def _choose(self, plant: Plant) -> None:
        for _ in range(TRIES):
            self.row = int(self.rng.choice(list(plant.surface)))
            self.point, normal = plant.surface[self.row].sample(self.rng)
            direction = self.rng.standard_normal(3)
            if self.into_surface:
                across = np.cross(normal, direction)
                slant = NORMAL_CONE * np.sqrt(self.rng.random())
                inward = -normal + slant * across / np.linalg.norm(across)
                direction = plant.rotation(self.row) @ inward
            direction /= np.linalg.norm(direction)
            torque = plant.jacobian(self.row, self.point).T @ (REFERENCE_FORCE * direction)
            if (np.abs(torque) > FEELABLE * plant.arm.model.effort_limit).any():
                break
        self._force = self._size * direction

    def after(self, plant: Plant, t: float) -> np.ndarray:
        return self._force if self.planned <= t and not self.over else np.zeros(3)


class Collision(Touch):
    """A stiff obstacle in the way of a random point that moves outward; taken away afterwards."""

    kind = "collision"

    def before(self, plant: Plant, t: float) -> None:
        if self.row < 0:
            if t >= self.planned - LEAD:
                self.over = not self._choose(plant)
        elif t >= (self._start if self._samples else self.planned + 0.2) + self.length:
            plant.remove_obstacle()
            self.over = True

    def _choose(self, plant: Plant) -> bool:
        for _ in range(TRIES):
            row = int(self.rng.choice(list(plant.surface)))
            point, normal = plant.surface[row].sample(self.rng)
            velocity = plant.jacobian(row, point) @ plant.data.qvel
            speed = float(np.linalg.norm(velocity))
            facing = normal @ plant.rotation(row).T @ velocity
            if speed > LEAST_SPEED and facing > LEAST_FACING * speed:
                self.row, self.point = row, point
                centre = point - TIP * normal
                ahead = LEAD * velocity + (TIP + OBSTACLE) * velocity / speed
                plant.place_obstacle(row, centre, plant.place(row, centre) + ahead, velocity)
                return True
        return False

    def after(self, plant: Plant, t: float) -> np.ndarray:
        return plant.contact_force()


def draw(
    seed: int,
    *,
    pushes: tuple[float, ...] = (8.0, 20.0),
    rounds: int = 1,
    collisions: int = 1,
    first: float = 2.0,
) -> list[Touch]:
    """Return successive contacts: each round has one push of each size, and collisions."""
    rng = np.random.default_rng(seed)
    found: list[Touch] = []
    t = first
    for _ in range(rounds):
        for size in (*pushes, *[None] * collisions):
            length, own = rng.uniform(*LENGTH), int(rng.integers(2**31))
            if size is None:
                found.append(Collision(t, length, own))
                length += 0.2
            else:
                found.append(Push(t, length, own, size))
            t += length + rng.uniform(*PAUSE)
    return found


def end_of(touches: list[Touch]) -> float:
    """Return when the arm is left alone again, with a second to spare [s]."""
    return max(touch.planned + touch.length for touch in touches) + 1.2
