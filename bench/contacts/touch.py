"""Contacts of the arm: pushes of known force, and collisions with obstacles in MuJoCo."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from bench.contacts.plant import OBSTACLE, TIP, Plant

Kind = Literal["push", "collision", "obstacle"]

FEELABLE = 0.01
"""Smallest joint torque that a push of 20 N must cause, as a fraction of the effort limit.

A push along the axis of a joint, or on the first link, causes hardly any joint torque and cannot be
detected. A mass error of 2 % causes about 1 % at the shoulder of an outstretched arm. Pushes of all
sizes are made in the same places.
"""
REFERENCE_FORCE = 20.0
NORMAL_CONE = 0.5
"""Friction coefficient: half of the pushes lie in the friction cone of the surface."""
PAUSE = (1.0, 2.0)
"""Range of the time from the end of a contact to the start of the next [s]."""
LENGTH = (0.2, 0.5)
"""Range of the length of a push, and of the time for which an obstacle stays [s]."""
LEAD = 0.03
"""Time between the appearance of an obstacle and the planned collision [s]."""
LEAST_SPEED, LEAST_FACING = 0.15, 0.5
"""Smallest speed of a colliding point [m/s], and cosine of its velocity to the outward normal."""
TRIES = 100
BOX = (0.02, 0.15)
"""Range of half the lengths of an obstacle's edges [m]."""
FACE, EDGE = 0.4, 0.25
"""Shares of obstacles that show a face or an edge to the motion; others have any orientation."""


@dataclass(frozen=True, eq=False)
class Contact:
    """True values of one contact."""

    kind: Kind
    link: str
    start: float
    """Start of the contact [s]."""
    end: float
    """End of the contact [s]."""
    point: np.ndarray
    """(3,) point of contact in the frame of the link [m]; NaN for an obstacle with several."""
    force: np.ndarray
    """(3,) mean force on the link during the contact, world axes [N]."""
    size: float
    """Size of the push [N]; for a collision the largest force."""
    into_surface: bool
    """Whether the force lies in the friction cone; otherwise its direction is arbitrary."""
    load: float
    """Largest joint torque of the contact, as a fraction of the joint's effort limit."""


class Touch(ABC):
    """A planned contact; an episode calls :meth:`before` and :meth:`after` in every step.

    Args:
        start: planned start [s].
        length: planned length [s].
        seed: seed of all random choices.

    Attributes:
        planned, length: planned start and length [s].
        over: whether the contact has ended, so that the next contact may begin.
        row: row of the joint that moves the touched link; -1 before it is chosen.
        point: point of contact in the frame of the link, (3,) [m].
        into_surface: whether the force lies in the friction cone of the surface.
    """

    kind: Kind

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
        """Apply the contact to ``plant`` at time ``t`` [s], before its step of the simulation."""

    @abstractmethod
    def after(self, plant: Plant, t: float) -> np.ndarray:
        """Return the force on the arm in the step from time ``t`` [s], (3,) world axes [N]."""

    def note(self, t: float, force: np.ndarray, torque: np.ndarray) -> None:
        """Record the true values of one step with contact.

        Args:
            t: time of the step [s].
            force: force on the arm, (3,) world axes [N].
            torque: joint torques of the contact, (nv,) [N·m].
        """
        if not self._samples:
            self._start, self._load = t, np.zeros_like(torque)
        self._end = t
        self._samples += 1
        self._sum += force
        self._largest = max(self._largest, float(np.linalg.norm(force)))
        self._load = np.maximum(self._load, np.abs(torque))

    def contact(self, plant: Plant) -> Contact | None:
        """Return the true values of the contact; None if the arm was not touched."""
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
    """A constant force of ``size`` [N] on a random point of a random link."""

    kind: Kind = "push"

    def __init__(self, start: float, length: float, seed: int, size: float) -> None:
        super().__init__(start, length, seed)
        self._size = size
        self._force = np.zeros(3)
        self.into_surface = bool(self.rng.random() < 0.5)

    def before(self, plant: Plant, t: float) -> None:
        """Apply the push while it lasts; choose its place when it begins."""
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
        """Return the force of the push, (3,) world axes [N]; zero before and after it."""
        return self._force if self.planned <= t and not self.over else np.zeros(3)


class Collision(Touch):
    """A stiff obstacle in the path of a random point of the surface that moves outward.

    The obstacle is removed ``length`` after the start of the contact. If no point of the surface
    moves outward fast enough, there is no contact.
    """

    kind: Kind = "collision"

    def before(self, plant: Plant, t: float) -> None:
        """Place the obstacle shortly before the planned contact, and remove it afterwards."""
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
                self.point = point
                if self._place(plant, row, normal, velocity):
                    self.row = row
                    return True
        return False

    def _place(self, plant: Plant, row: int, normal: np.ndarray, velocity: np.ndarray) -> bool:
        """Place the obstacle ahead of the point of link ``row``; return whether there is room.

        Args:
            plant: the arm.
            row: row of the joint that moves the link.
            normal: outward normal of the link's surface, (3,) in the frame of the link.
            velocity: of the point, (3,) world axes [m/s].
        """
        centre = self.point - TIP * normal
        ahead = LEAD * velocity + (TIP + OBSTACLE) * velocity / np.linalg.norm(velocity)
        plant.place_obstacle(row, centre, plant.place(row, centre) + ahead, velocity)
        return True

    def after(self, plant: Plant, t: float) -> np.ndarray:
        """Return the force of the obstacle, (3,) world axes [N]."""
        return plant.contact_forces().sum(axis=0)


class Obstacle(Collision):
    """A box of any size and orientation in the way of a random point of the surface.

    Links touch it with their convex hulls, in several points, with friction, and sometimes two of
    them. The link of the contact is the one that takes the largest impulse.
    """

    kind: Kind = "obstacle"

    def __init__(self, start: float, length: float, seed: int) -> None:
        super().__init__(start, length, seed)
        self._impulses = np.zeros(0)

    def after(self, plant: Plant, t: float) -> np.ndarray:
        """Return the force of the obstacle, (3,) world axes [N]."""
        forces = plant.contact_forces()
        if forces.any():
            if not self._samples:
                self._impulses = np.zeros(len(forces))
                self.point = np.full(3, np.nan)
            self._impulses += np.linalg.norm(forces, axis=1)
            self.row = int(self._impulses.argmax())
        return np.asarray(forces.sum(axis=0))

    def _place(self, plant: Plant, row: int, normal: np.ndarray, velocity: np.ndarray) -> bool:
        half = self.rng.uniform(*BOX, 3)
        rotation = Rotation.random(rng=self.rng).as_matrix()
        ahead = velocity / np.linalg.norm(velocity)
        shown = self.rng.random()
        if shown < FACE + EDGE:
            rotation, _ = np.linalg.qr(np.column_stack([ahead, rotation[:, :2]]))
            rotation *= np.sign(np.linalg.det(rotation))
        if shown < EDGE:
            turn = Rotation.from_rotvec(0.25 * np.pi * rotation[:, 2])
            rotation = turn.as_matrix() @ rotation
        along = rotation.T @ ahead
        nearest = -rotation @ (half * np.sign(along) * (np.abs(along) > 1e-9))
        at = plant.place(row, self.point) + LEAD * velocity
        if plant.place_box(half, at - nearest, rotation):
            return True
        plant.remove_obstacle()
        return False


def draw(
    seed: int,
    *,
    pushes: tuple[float, ...] = (8.0, 20.0),
    rounds: int = 1,
    collisions: int = 1,
    obstacles: int = 0,
    first: float = 2.0,
) -> list[Touch]:
    """Return successive random contacts: in each round pushes, collisions and obstacles.

    Args:
        seed: seed of times, lengths and contacts.
        pushes: sizes of the pushes of a round [N].
        rounds: number of rounds.
        collisions, obstacles: number of contacts of each of these kinds in a round.
        first: planned start of the first contact [s].
    """
    rng = np.random.default_rng(seed)
    found: list[Touch] = []
    kinds: list[float | type[Collision]] = [*pushes, *[Collision] * collisions]
    kinds += [Obstacle] * obstacles
    t = first
    for _ in range(rounds):
        for kind in kinds:
            length, own = rng.uniform(*LENGTH), int(rng.integers(2**31))
            if isinstance(kind, float):
                found.append(Push(t, length, own, kind))
            else:
                found.append(kind(t, length, own))
                length += 0.2
            t += length + rng.uniform(*PAUSE)
    return found


def end_of(touches: list[Touch]) -> float:
    """Return a time at least one second after the end of the last contact [s]."""
    return max(touch.planned + touch.length for touch in touches) + 1.2
