"""Error of the wrench at the tool, for specimens in MuJoCo that are calibrated on free motion.

The detector is calibrated for each specimen on a separate contact-free motion. Then the specimen
moves, and wrenches of random size and direction act on its last link, each constant in the axes of
the tool frame. Every wrench is evaluated once, :data:`SETTLED` after its start, when the observer
has settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import mujoco
import numpy as np
from scipy.stats import chi2

from bench.contacts.arms import arm
from bench.contacts.episode import simulate
from bench.contacts.plant import Plant
from bench.contacts.study import FREE, calibrated
from bench.contacts.touch import Touch
from rbd_control.estimation import ContactDetector

FRAMES = {
    "panda": "panda_link8",
    "ur5": "tool0",
    "ur10": "tool0",
    "xarm7": "link7",
    "arm7": "tool",
}
"""Tool frame of each arm."""

FORCE, MOMENT = 15.0, 2.0
"""Standard deviations of each component of the wrenches [N, N·m]."""
FIRST, LENGTH, PAUSE = 1.0, 0.4, 0.3
"""Start of the first wrench, length of each and time between two of them [s]."""
SETTLED = 0.3
"""Time from the start of a wrench to its evaluation [s]."""
LEAST_FORCE, LEAST_MOMENT, SHARE = 2.0, 0.5, 0.1
"""Limits of the errors of force [N] and moment [N·m], and as a fraction of the true value."""
TOOL_COUNT = 40
"""Number of wrenches on each specimen."""
LEAST_WITHIN = 0.95
"""Smallest accepted share of the wrenches whose errors are within the limits."""
TOOL_HEAD = (
    "arm",
    "wrenches",
    "force: median, p95 [N]",
    "moment: median, p95 [N·m]",
    "within limits",
    "NEES / 6",
    "95 % band",
)


class Wrench(Touch):
    """A constant random wrench on the last link, in the axes of the tool frame.

    Args:
        start: start of the wrench [s].
        seed: seed of the wrench.
        frame: name of the tool frame.

    Attributes:
        wrench: ``[moment; force]`` in the tool frame, (6,) [N·m, N].
    """

    kind = "push"

    def __init__(self, start: float, seed: int, frame: str) -> None:
        super().__init__(start, LENGTH, seed)
        self._frame = frame
        scale = np.repeat([MOMENT, FORCE], 3)
        self.wrench = scale * self.rng.standard_normal(6)

    def before(self, plant: Plant, t: float) -> None:
        """Apply the wrench to the last link while it lasts."""
        if t >= self.planned + self.length:
            self.over = True
        elif t >= self.planned:
            self.row = plant.arm.model.nv - 1
            placement = plant.arm.model.link_placement[self._frame]
            rotation = plant.rotation(self.row) @ placement[:3, :3]
            moment, force = rotation @ self.wrench[:3], rotation @ self.wrench[3:]
            at, body = plant.place(self.row, placement[:3, 3]), plant.body[self.row]
            mujoco.mj_applyFT(
                plant.mj, plant.data, force, moment, at, body, plant.data.qfrc_applied
            )

    def after(self, plant: Plant, t: float) -> np.ndarray:
        """Return the force in the axes of the tool frame, (3,) [N]."""
        acts = self.planned <= t and not self.over
        return self.wrench[3:] if acts else np.zeros(3)


@dataclass(frozen=True, eq=False)
class ToolResult:
    """True and estimated wrenches at the tool, ``[moment; force]`` in the tool frame."""

    truth: np.ndarray
    """(k, 6) [N·m, N]."""
    estimate: np.ndarray
    """(k, 6) [N·m, N]."""
    covariance: np.ndarray
    """(k, 6, 6)."""

    @classmethod
    def together(cls, results: Sequence[ToolResult]) -> ToolResult:
        """Return one result with the wrenches of all results."""
        columns = ("truth", "estimate", "covariance")
        return cls(*(np.concatenate([getattr(r, name) for r in results]) for name in columns))

    @property
    def force_error(self) -> np.ndarray:
        """(k,) distance of the estimated force from the true one [N]."""
        return np.linalg.norm((self.estimate - self.truth)[:, 3:], axis=1)

    @property
    def moment_error(self) -> np.ndarray:
        """(k,) distance of the estimated moment from the true one [N·m]."""
        return np.linalg.norm((self.estimate - self.truth)[:, :3], axis=1)

    @property
    def within(self) -> np.ndarray:
        """(k,) bool: whether the errors of force and moment are both within their limits.

        The limits are :data:`LEAST_FORCE` and :data:`LEAST_MOMENT`, or the fraction :data:`SHARE`
        of the true value if it is larger.
        """
        moment, force = (np.linalg.norm(part, axis=1) for part in np.split(self.truth, 2, axis=1))
        return np.asarray(
            (self.force_error <= np.maximum(LEAST_FORCE, SHARE * force))
            & (self.moment_error <= np.maximum(LEAST_MOMENT, SHARE * moment))
        )

    @property
    def nees(self) -> np.ndarray:
        """(k,) normalised estimation error squared; six are expected of a true covariance."""
        error = self.estimate - self.truth
        scaled = np.linalg.solve(self.covariance, error[:, :, None])[:, :, 0]
        return np.einsum("ki,ki->k", error, scaled)


def judge_tool(name: str, seed: int, count: int, free: float = FREE) -> ToolResult:
    """Apply ``count`` wrenches to one specimen of an arm, and return true and estimated wrenches.

    Args:
        name: the arm.
        seed: seed of the specimen and of its motions.
        count: number of wrenches.
        free: length of the contact-free motion for the calibration [s].
    """
    plant = Plant(arm(name), seed)
    # The friction is that of the calibration; that it may change would widen the covariance.
    parameters = calibrated(plant, seed + 1, free)
    parameters = replace(parameters, tool_frame=FRAMES[name], follow_friction=False)
    starts = FIRST + (LENGTH + PAUSE) * np.arange(count)
    touches = [Wrench(start, 1000 * seed + k, FRAMES[name]) for k, start in enumerate(starts)]
    episode = simulate(plant, seed + 3, float(starts[-1]) + LENGTH + PAUSE, touches)
    detector = ContactDetector(parameters.corrected(plant.arm.model), parameters)
    truth, found, begin = [], [], 0
    for touch, start in zip(touches, starts, strict=True):
        end = int(np.searchsorted(episode.t, start + SETTLED)) + 1
        detector.update_block(
            *(column[begin:end] for column in (episode.t, episode.q, episode.v, episode.tau))
        )
        begin = end
        wrench = detector.tool_wrench()
        if wrench is not None:
            truth.append(touch.wrench)
            found.append(wrench)
    return ToolResult(
        np.array(truth),
        np.array([wrench.wrench for wrench in found]),
        np.array([wrench.covariance for wrench in found]),
    )


def band(result: ToolResult) -> tuple[float, float]:
    """Return the ends of the 95 % band of the mean of ``nees`` / 6.

    The band is that of normal and independent errors with the estimated covariances.
    """
    freedom = 6 * len(result.truth)
    low, high = chi2.ppf([0.025, 0.975], freedom) / freedom
    return float(low), float(high)


def is_accurate(result: ToolResult) -> bool:
    """Return whether the share of wrenches within the limits is at least :data:`LEAST_WITHIN`."""
    return bool(result.within.mean() >= LEAST_WITHIN)


def tool_row(result: ToolResult) -> list[str]:
    """Return the cells of a table that follow the name of the arm, see :data:`TOOL_HEAD`."""
    force, moment = (
        np.percentile(error, [50, 95]) for error in (result.force_error, result.moment_error)
    )
    low, high = band(result)
    return [
        f"{len(result.truth)}",
        f"{force[0]:.2f}, {force[1]:.2f}",
        f"{moment[0]:.3f}, {moment[1]:.3f}",
        f"{100.0 * result.within.mean():.0f} %",
        f"{result.nees.mean() / 6.0:.2f}",
        f"{low:.2f} to {high:.2f}",
    ]
