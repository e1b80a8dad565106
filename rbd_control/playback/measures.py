"""What a replay measures: series reduced for pictures, efforts and gravity, scaled thresholds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.estimation import DetectorParameters
from rbd_control.playback.truth import Score

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


LATCHED = 3.0
"""Time of motion without known contact for which one event may keep the flag raised [s]."""


class LatchWatch:
    """Finds the event whose flag is raised for the longest time of motion without known contact.

    Attributes:
        longest: this time [s]; 0 if there was none.
        since: time at which the flag of that event was raised [s]; NaN if there was none.
    """

    def __init__(self) -> None:
        self.longest, self.since = 0.0, nan
        self._is_raised, self._lasted, self._begun = False, 0.0, nan

    def add(self, times: Array, steps: Array, raised: Flags, counts: Flags) -> None:
        """Process k samples.

        Args:
            times: their times, (k,) [s].
            steps: time from the previous sample to each, (k,) [s].
            raised: whether the flag is raised with each, (k,).
            counts: whether the arm moves without known contact, (k,).
        """
        if not raised.any():
            self._is_raised, self._lasted = False, 0.0
            return
        total = self._lasted + np.cumsum(np.where(raised & counts, steps, 0.0))
        lasted = total - np.maximum.accumulate(np.where(raised, 0.0, total))
        rises = raised & ~np.concatenate([[self._is_raised], raised[:-1]])
        begun = np.concatenate([[self._begun], times])[
            np.maximum.accumulate(np.where(rises, np.arange(1, raised.size + 1), 0))
        ]
        k = int(np.argmax(lasted))
        if lasted[k] > self.longest:
            self.longest, self.since = float(lasted[k]), float(begun[k])
        self._is_raised = bool(raised[-1])
        self._lasted, self._begun = float(lasted[-1]), float(begun[-1])


class Envelope:
    """Minimum and maximum per time bin of several series that share their times.

    The bins are narrow at first. When the series is longer than all bins together, neighbouring
    bins are merged and the width doubles. NaN is ignored; a bin with only NaN is NaN.

    Args:
        channels: number of series.
        bins: number of bins, even.
        width: initial width of a bin [s].

    Raises:
        ValueError: for an odd number of bins.
    """

    def __init__(self, channels: int, bins: int = 2000, width: float = 1e-3) -> None:
        if bins % 2:
            raise ValueError(f"bins is {bins}; neighbours are merged, so give an even number")
        self._width = width
        self._lower = np.full((bins, channels), np.nan)
        self._upper = np.full((bins, channels), np.nan)
        self._seen = np.zeros(bins, dtype=bool)

    def add(self, times: Array, values: Array) -> None:
        """Add ``values``, (m, channels), at ``times``, (m,) [s].

        The first bin begins at time zero.

        Raises:
            ValueError: if times are negative, or not in order within this call.
        """
        if not times.size:
            return
        if times[0] < 0.0 or np.any(np.diff(times) < 0.0):
            raise ValueError("times of an envelope are negative or out of order")
        while times[-1] >= self._width * len(self._seen):
            self._fold()
        each = (times / self._width).astype(np.intp)
        first = np.flatnonzero(np.diff(each, prepend=-1))
        bins = each[first]
        self._lower[bins] = np.fmin(self._lower[bins], np.fmin.reduceat(values, first))
        self._upper[bins] = np.fmax(self._upper[bins], np.fmax.reduceat(values, first))
        self._seen[bins] = True

    def series(self) -> tuple[Array, Array, Array]:
        """Return centre (k,) [s], minimum and maximum (k, channels) of each bin with samples."""
        filled = np.flatnonzero(self._seen)
        times = np.asarray((filled + 0.5) * self._width, dtype=np.float64)
        return times, self._lower[filled], self._upper[filled]

    def _fold(self) -> None:
        half = len(self._seen) // 2
        self._lower[:half] = np.fmin(self._lower[0::2], self._lower[1::2])
        self._upper[:half] = np.fmax(self._upper[0::2], self._upper[1::2])
        self._seen[:half] = self._seen[0::2] | self._seen[1::2]
        self._lower[half:] = self._upper[half:] = np.nan
        self._seen[half:] = False
        self._width *= 2.0


LEAST_GRAVITY = 1.0
"""RMS gravity torque below which the effort of a joint is not checked [N·m or N]."""

FITTING = (0.6, 1.6)
"""Lowest and highest accepted ratio of effort to gravity torque.

Friction, motion or a small payload explain ratios in this range.
"""

REVERSED = -0.5
"""Ratio and correlation of effort and gravity torque below which the sign looks reversed."""

UNRELATED = 0.5
"""Magnitude of the correlation below which the effort does not follow gravity."""

SCALED = (0.3, 3.0)
"""Lowest and highest ratio that wrong masses, a payload or another unit of torque explain."""

_PERIOD = 0.02
"""Time between the samples that are checked [s]."""


@dataclass(frozen=True)
class EffortFit:
    """The least-squares fit ``effort = ratio * gravity torque + remainder`` of one joint.

    The effort is the joint torque to which the recorded effort has been converted.

    Attributes:
        joint: the joint.
        ratio: effort divided by gravity torque; NaN if ``gravity`` is below :data:`LEAST_GRAVITY`,
            or if ``remainder`` exceeds both ``gravity`` and ``|ratio| gravity``.
        correlation: correlation of effort and gravity torque through the origin; NaN where
            ``ratio`` is NaN, but 0 for an effort that is zero throughout.
        gravity: RMS gravity torque [N·m or N].
        remainder: RMS remainder [N·m or N].
        is_zero: whether the published effort is exactly zero throughout although the model needs a
            torque of at least :data:`LEAST_GRAVITY`.
    """

    joint: str
    ratio: float
    correlation: float
    gravity: float
    remainder: float
    is_zero: bool = False

    @property
    def complaint(self) -> str:
        """Text with the problem of this joint's effort and a remedy; empty without a problem.

        There is a problem if ``is_zero``, or if ``ratio`` is outside of :data:`FITTING` and the
        deviation ``|ratio - 1| * gravity`` is more than twice the remainder, which contains
        friction, inertia and contact.
        """
        if self.is_zero:
            return (
                f"the effort of {self.joint} is exactly zero throughout: effort not measured; fix "
                f"the driver, or use a topic that carries effort"
            )
        off = abs(self.ratio - 1.0) * self.gravity
        if FITTING[0] <= self.ratio <= FITTING[1] or not off > 2.0 * self.remainder:
            return ""
        if self.ratio < REVERSED and self.correlation < REVERSED:
            guess = "its sign looks reversed (change the sign of its effort_gain)"
        elif abs(self.correlation) < UNRELATED:
            guess = (
                "it does not follow gravity; the driver may subtract gravity, or it is not a torque"
            )
        elif SCALED[0] < self.ratio < SCALED[1]:
            guess = "masses of the model, the payload or the unit of the effort are wrong"
        else:
            guess = "it looks like motor current [A] or another unit, not torque"
        return (
            f"the effort of {self.joint} is {self.ratio:.2g} times the model's gravity torque "
            f"(correlation {self.correlation:.2f}): {guess}"
        )


class EffortCheck:
    """Compares recorded efforts with the model's gravity torque, by a fit for each joint.

    It uses at most fifty samples per second and adds them up, so memory does not grow.

    Args:
        model: the robot.
        parameters: ``effort_kind`` and ``effort_gain``, by which efforts are converted to torques.
    """

    def __init__(self, model: Model, parameters: DetectorParameters) -> None:
        self._model = model
        self._gain = parameters.for_joints("effort_gain", model.nv)
        self._without_gravity = parameters.effort_kind == "torque_without_gravity"
        self._last = -np.inf
        self._n = 0
        self._gg = np.zeros(model.nv)
        self._gt = np.zeros(model.nv)
        self._tt = np.zeros(model.nv)
        self._zero = np.ones(model.nv, dtype=bool)

    def add(self, times: Array, q: Array, tau: Array) -> None:
        """Process samples.

        Args:
            times: times of the samples since the first sample of the recording, (m,) [s],
                increasing, also over all calls.
            q: positions, (m, n) [rad or m].
            tau: efforts, (m, n), as recorded.
        """
        slot = np.floor(times / _PERIOD)
        rows = np.flatnonzero(np.diff(slot, prepend=self._last) > 0)
        if not rows.size:
            return
        self._last = slot[-1]
        gravity = gravity_torque(self._model, q[rows])
        torque = self._gain * tau[rows] + self._without_gravity * gravity
        self._n += rows.size
        self._zero &= (tau[rows] == 0.0).all(axis=0)
        self._gg += (gravity * gravity).sum(0)
        self._gt += (gravity * torque).sum(0)
        self._tt += (torque * torque).sum(0)

    def fits(self) -> tuple[EffortFit, ...]:
        """Return one fit for each joint, in the order of the model; empty without a sample."""
        if not self._n:
            return ()
        return tuple(
            self._fit(
                joint,
                float(self._gg[i]) / self._n,
                float(self._gt[i]) / self._n,
                float(self._tt[i]) / self._n,
                bool(self._zero[i]),
            )
            for i, joint in enumerate(
                self._model.joint_names, self._model.nv - len(self._model.joint_names)
            )
        )

    @staticmethod
    def _fit(joint: str, gg: float, gt: float, tt: float, zero: bool) -> EffortFit:
        """Return the fit of a joint.

        Args:
            joint: name of the joint.
            gg, tt: mean square of gravity torque and of effort.
            gt: mean product of gravity torque and effort.
            zero: whether the published effort is exactly zero throughout.
        """
        gravity = sqrt(gg)
        ratio = gt / gg if gravity >= LEAST_GRAVITY else nan
        remainder = sqrt(max(tt - gt * gt / gg, 0.0)) if gg > 0.0 else sqrt(tt)
        if not remainder <= max(1.0, abs(ratio)) * gravity:
            ratio = nan
        correlation = ratio * sqrt(gg / tt) if tt > 0.0 else 0.0
        is_zero = zero and gravity >= LEAST_GRAVITY
        return EffortFit(joint, ratio, correlation, gravity, remainder, is_zero)


FACTORS = (0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0)
"""Factors by which thresholds are multiplied for the curve."""

_THRESHOLDS = (
    "contact_threshold",
    "collision_threshold",
    "contact_force_threshold",
    "collision_force_threshold",
    "threshold_speed",
    "inertia_error",
    "effort_gain_error",
    "delay_error",
    "covered_error",
    "statistic_threshold",
    "statistic_speed",
)


@dataclass(frozen=True)
class CurvePoint:
    """Score of a replay whose thresholds were all multiplied by a factor.

    Attributes:
        factor: the factor.
        score: match of the events with the true contacts.
        free_time: time with a verdict and without true contact [s].
    """

    factor: float
    score: Score
    free_time: float


def scaled(parameters: DetectorParameters, factor: float) -> DetectorParameters:
    """Return ``parameters`` with all thresholds multiplied by ``factor``.

    This includes their increase with the motion. A threshold of zero, which selects a
    default, remains zero; fill in the defaults first.
    """
    values: dict[str, Any] = {name: getattr(parameters, name) for name in _THRESHOLDS}
    for name, value in values.items():
        several = isinstance(value, tuple)
        values[name] = tuple(factor * x for x in value) if several else factor * value
    return replace(parameters, **values)
