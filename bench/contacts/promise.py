"""The weakest pushes that ``rbd-control check`` promises, compared with pushes in MuJoCo.

The promised force of a link and a direction is the median over the poses of a recording of the
weakest push that is detected: a push of this force is found in half of the poses. Each specimen is
calibrated on one minute of free motion, and the promise is computed from the same minute, as
``check`` does. Then the arm goes on with the same motion, with other noise, and is pushed at the
origin of every link with fractions of the promised force, in random order. A logistic curve in the
logarithm of the fraction gives the fraction at which half of the pushes are found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from bench.contacts.arms import arm
from bench.contacts.episode import simulate, stream
from bench.contacts.motion import Motion
from bench.contacts.plant import Plant
from bench.contacts.study import FREE
from bench.contacts.touch import Touch
from rbd_control.check.weakest_push import (
    DetectionThresholds,
    WeakestPush,
    least_forces,
    weakest_pushes_in,
)
from rbd_control.dynamics import frame_jacobian
from rbd_control.estimation import ContactDetector
from rbd_control.identification import CalibratedParameters, RecordedMotion, calibrate

DIRECTIONS = ("x", "y", "z", "best", "worst")
"""Directions of a push: the axes of the root, and the best and the worst direction of each pose."""
FRACTIONS = (0.5, 0.7, 0.85, 1.0, 1.2, 1.45, 2.0)
"""Staged forces as fractions of the promised force."""
LARGEST = 100.0
"""Largest promised force that is staged [N]; stronger pushes move the arm away."""
FIRST, LENGTH, PAUSE = 1.5, 0.3, 0.45
"""Start of the first push, length of each, and time between two of them [s]."""
LATE = 0.05
"""Time after the end of a push in which it still counts as found [s]."""
WITHIN = 1.3
"""Accepted ratio of the found to the promised force, or of the promised to the found force."""
SLOPE, SLOPE_SPREAD = 5.0, 0.5
"""Prior of the slope of the logistic curve: median, and standard deviation of its logarithm.

A slope of 5 means that pushes of 0.7 and 1.4 times the force at which half of the pushes are found
are found in 14 % and 84 % of the poses.
"""
PROMISE_HEAD = ("arm", "link", "promised best, worst [N]", *DIRECTIONS, "all directions", "pushes")


class StagedPush(Touch):
    """A constant force at the origin of a link, in a direction of the promise, with random sign.

    Args:
        start: start of the push [s].
        seed: seed of the sign.
        row: row of the joint that moves the link.
        direction: one of :data:`DIRECTIONS`.
        force: magnitude of the force [N].
        rules: decision rules that determine the best and the worst direction of a pose.
    """

    kind = "push"

    def __init__(
        self, start: float, seed: int, row: int, direction: str, force: float, rules: RulesAt
    ) -> None:
        super().__init__(start, LENGTH, seed)
        self.row, self.direction = row, direction
        self._force, self._rules = force * self.rng.choice([-1.0, 1.0]), rules
        self._vector = np.zeros(3)

    def before(self, plant: Plant, t: float) -> None:
        """Apply the force while the push lasts; choose its direction when it begins."""
        if t >= self.planned + self.length:
            self.over = True
        elif t >= self.planned:
            if not self._vector.any():
                self._vector = self._force * self._unit(plant)
            at, body = plant.place(self.row, self.point), plant.body[self.row]
            torque, nothing = plant.data.qfrc_applied, np.zeros(3)
            mujoco.mj_applyFT(plant.mj, plant.data, self._vector, nothing, at, body, torque)

    def after(self, plant: Plant, t: float) -> np.ndarray:
        """Return the force of the push, (3,) world axes [N]; zero before and after it."""
        return self._vector if self.planned <= t and not self.over else np.zeros(3)

    def _unit(self, plant: Plant) -> np.ndarray:
        """Return the direction of the force at the present pose and speed, (3,) world axes."""
        if self.direction in DIRECTIONS[:3]:
            return np.eye(3)[DIRECTIONS.index(self.direction)]
        link = plant.arm.model.joint_links[self.row]
        tried = list(self._rules.forces(link, plant.data.qpos, plant.data.qvel))
        size = [force for _, force in tried]
        k = int(np.argmin(size) if self.direction == "best" else np.argmax(size))
        return tried[k][0]


@dataclass(frozen=True, eq=False)
class RulesAt:
    """The detector's decision rules, from which the promise is computed, for one specimen."""

    plant: Plant
    parameters: CalibratedParameters

    def forces(self, link: str, q: np.ndarray, v: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
        """Yield the directions that ``check`` tries at one pose, with the weakest detected push.

        Args:
            link: name of the link, at whose origin the push acts.
            q, v: positions and velocities, (nv,) each [rad, rad/s].

        Yields:
            Unit vector of the direction, (3,) world axes, and the force [N].
        """
        model = self.plant.arm.model
        rules = DetectionThresholds.of(model, self.parameters, v[None])
        J = np.asarray(frame_jacobian(model, q[None], link))[:, 3:]
        for direction, force in least_forces(rules, J):
            yield direction[0], float(force[0])


@dataclass(frozen=True)
class Staged:
    """One staged push and whether the detector found it."""

    arm: str
    link: str
    direction: str
    promised: float
    """Promised force [N]."""
    fraction: float
    """Staged force, as a fraction of the promised force."""
    found: bool


@dataclass(frozen=True)
class Half:
    """The force at which half of the pushes are found, as a fraction of the promised force."""

    ratio: float
    deviation: float
    """Standard deviation of the natural logarithm of ``ratio``."""
    pushes: int

    @property
    def is_kept(self) -> bool:
        """Whether ``ratio`` is between 1 / :data:`WITHIN` and :data:`WITHIN`."""
        return 1.0 / WITHIN <= self.ratio <= WITHIN


def judge_promise(name: str, seed: int, repeats: int) -> tuple[Staged, ...]:
    """Push one specimen of an arm with fractions of the promised forces.

    Args:
        name: the arm.
        seed: seed of the specimen and of its motions.
        repeats: number of pushes for each link, direction and fraction.

    Returns:
        The pushes in the order in which they were made, without pushes that began while the flag
        of an earlier push was raised, and without directions whose promised force exceeds
        :data:`LARGEST`.
    """
    plant = Plant(arm(name), seed)
    parameters, pushes = promise(plant, seed + 1)
    plan = [
        (row, direction, force, fraction)
        for row, push in enumerate(pushes)
        for direction, force in promised(push).items()
        if force <= LARGEST
        for fraction in FRACTIONS * repeats
    ]
    np.random.default_rng(seed + 2).shuffle(plan)
    rules = RulesAt(plant, parameters)
    touches = [
        StagedPush(FIRST + k * (LENGTH + PAUSE), 1000 * seed + k, row, way, part * force, rules)
        for k, (row, way, force, part) in enumerate(plan)
    ]
    hits = _found(plant, parameters, seed, touches)
    links = plant.arm.model.joint_links
    return tuple(
        Staged(name, links[row], direction, force, fraction, bool(hit))
        for (row, direction, force, fraction), hit in zip(plan, hits, strict=True)
        if hit is not None
    )


def promise(plant: Plant, seed: int) -> tuple[CalibratedParameters, tuple[WeakestPush, ...]]:
    """Return the calibration of a specimen and, per link, the weakest pushes of ``check``."""
    free = simulate(plant, seed, FREE)
    motion = RecordedMotion(plant.arm.name, free.t, free.q, free.v, free.tau)
    parameters = calibrate([motion], plant.arm.model).parameters
    known = parameters.corrected(plant.arm.model)
    return parameters, weakest_pushes_in(known, parameters, [motion])


def promised(push: WeakestPush) -> dict[str, float]:
    """Return the promised force in each direction of :data:`DIRECTIONS` [N]."""
    return dict(zip(DIRECTIONS, (*push.axes, push.best, push.worst), strict=True))


def _found(
    plant: Plant, parameters: CalibratedParameters, seed: int, touches: Sequence[StagedPush]
) -> list[bool | None]:
    """Return whether each push is found; None where the flag is raised before the push."""
    detector = ContactDetector(parameters.corrected(plant.arm.model), parameters)
    # The same motion as in the calibration: its seed draws nothing else before the motion.
    motion = Motion(plant.arm.model, plant.arm.centre, np.random.default_rng(seed + 1))
    duration = touches[-1].planned + LENGTH + PAUSE
    stamps, raised = [], []
    for piece in stream(plant, seed + 3, duration, touches, motion):
        stamps.append(piece.t)
        raised.append(detector.update_block(piece.t, piece.q, piece.v, piece.tau).contact)
    t, flag = np.concatenate(stamps), np.concatenate(raised)
    found: list[bool | None] = []
    for touch in touches:
        first, last = np.searchsorted(t, [touch.planned, touch.planned + LENGTH + LATE])
        found.append(None if flag[first] else bool(flag[first:last].any()))
    return found


def half_found(staged: Sequence[Staged]) -> Half:
    """Fit the fraction of the promised force at which half of the pushes are found.

    The probability of detection is ``1 / (1 + exp(-slope (ln fraction - ln ratio)))``. Ratio and
    slope have the largest posterior probability; the prior of the slope keeps it finite if no push
    is found below a fraction and every push above.
    """
    from scipy.optimize import minimize

    x = np.log([push.fraction for push in staged])
    sign = np.where([push.found for push in staged], 1.0, -1.0)

    def cost(at: np.ndarray) -> float:
        log_ratio, log_slope = at
        prior = ((log_slope - np.log(SLOPE)) / SLOPE_SPREAD) ** 2 + log_ratio**2
        margin = sign * np.exp(log_slope) * (x - log_ratio)
        return float(np.logaddexp(0.0, -margin).sum() + 0.5 * prior)

    best = minimize(cost, [0.0, np.log(SLOPE)], method="BFGS")
    return Half(float(np.exp(best.x[0])), float(np.sqrt(best.hess_inv[0, 0])), len(staged))


def promise_rows(staged: Sequence[Staged]) -> list[list[str]]:
    """Return the cells of the table with the columns :data:`PROMISE_HEAD`.

    It has a row for each link of each arm, for each arm, and for all arms.
    """
    rows = []
    for name in dict.fromkeys(push.arm for push in staged):
        own = [push for push in staged if push.arm == name]
        links = sorted({push.link for push in own}, key=arm(name).model.joint_links.index)
        rows += [_row(name, link, [push for push in own if push.link == link]) for link in links]
        rows.append(_row(name, "all", own))
    rows.append(_row("all", "all", staged))
    return rows


def kept(staged: Sequence[Staged]) -> tuple[int, int]:
    """Return the number of links whose promise is right within 30 %, and the number of links."""
    groups = dict.fromkeys((push.arm, push.link) for push in staged)
    halves = [half_found([p for p in staged if (p.arm, p.link) == group]) for group in groups]
    return sum(half.is_kept for half in halves), len(halves)


def _row(name: str, link: str, staged: Sequence[Staged]) -> list[str]:
    cells = [name, link, _promised(staged) if link != "all" else ""]
    for direction in DIRECTIONS:
        own = [push for push in staged if push.direction == direction]
        cells.append(f"{half_found(own).ratio:.2f}" if own else "-")
    half = half_found(staged)
    return [*cells, f"{half.ratio:.2f} ± {half.deviation * half.ratio:.2f}", str(half.pushes)]


def _promised(staged: Sequence[Staged]) -> str:
    """Return the median promised forces of the specimens in the best and worst direction."""
    found = []
    for direction in ("best", "worst"):
        own = [push.promised for push in staged if push.direction == direction]
        found.append(f"{np.median(own):.0f}" if own else "-")
    return ", ".join(found)
