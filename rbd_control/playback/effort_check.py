"""Is the effort of a recording what it is declared to be? Measured against the model's gravity."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan, sqrt

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.estimation import DetectorParameters

Array = NDArray[np.float64]

LEAST_GRAVITY = 1.0
"""A joint that gravity loads with less than this (RMS) [N·m or N] tells nothing."""

FITTING = (0.6, 1.6)
"""Ratios of effort to gravity torque that friction, motion or a small payload explain."""

_PERIOD = 0.02


@dataclass(frozen=True)
class EffortFit:
    """``effort = ratio * gravity torque + remainder`` of one joint, least squares.

    ``correlation`` is that through the origin; ``gravity`` and ``remainder`` are RMS values
    [N·m or N]. ``ratio`` and ``correlation`` are NaN where they tell nothing: ``gravity`` is
    below :data:`LEAST_GRAVITY` or drowns in the remainder.
    """

    joint: str
    ratio: float
    correlation: float
    gravity: float
    remainder: float

    @property
    def complaint(self) -> str:
        """What is wrong with the effort of this joint; empty when it fits or cannot be told.

        Told only when what is off, ``(ratio - 1) * gravity``, is more than twice the remainder,
        which holds friction, inertia and contact.
        """
        off = abs(self.ratio - 1.0) * self.gravity
        if FITTING[0] <= self.ratio <= FITTING[1] or not off > 2.0 * self.remainder:
            return ""
        if self.ratio < -0.5 and self.correlation < -0.5:
            guess = "its sign looks reversed"
        elif abs(self.correlation) < 0.5:
            guess = (
                "it hardly follows gravity, as if gravity had been taken off, or it is no torque"
            )
        elif 0.3 < self.ratio < 3.0:
            guess = "the model's masses, the payload or the unit do not fit"
        else:
            guess = "it looks like motor current [A] or another unit, not torque"
        return (
            f"effort of {self.joint} is {self.ratio:.2g} x the model's gravity torque "
            f"(correlation {self.correlation:.2f}): {guess}"
        )


class EffortCheck:
    """Gathers positions and efforts, fifty a second at most, and fits each joint.

    Efforts are made torques first, as ``parameters`` declare.
    """

    def __init__(self, model: Model, parameters: DetectorParameters) -> None:
        self._model = model
        self._gain = parameters.for_joints("effort_gain", model.nv)
        self._without_gravity = parameters.effort_kind == "torque_without_gravity"
        self._last = 0.0
        self._n = 0
        self._gg = np.zeros(model.nv)
        self._gt = np.zeros(model.nv)
        self._tt = np.zeros(model.nv)

    def add(self, times: Array, q: Array, tau: Array) -> None:
        """Take positions and efforts (m, n) at ``times`` (m,) [s]."""
        slot = np.floor(times / _PERIOD)
        rows = np.flatnonzero(np.diff(slot, prepend=self._last) > 0)
        if not rows.size:
            return
        self._last = slot[-1]
        gravity = gravity_torque(self._model, q[rows])
        torque = self._gain * tau[rows] + self._without_gravity * gravity
        self._n += rows.size
        self._gg += (gravity * gravity).sum(0)
        self._gt += (gravity * torque).sum(0)
        self._tt += (torque * torque).sum(0)

    def fits(self) -> tuple[EffortFit, ...]:
        """One fit for each joint; none without a single effort."""
        if not self._n:
            return ()
        return tuple(
            self._fit(joint, float(gg) / self._n, float(gt) / self._n, float(tt) / self._n)
            for joint, gg, gt, tt in zip(
                self._model.joint_names, self._gg, self._gt, self._tt, strict=True
            )
        )

    @staticmethod
    def _fit(joint: str, gg: float, gt: float, tt: float) -> EffortFit:
        """From the mean squares and product of gravity torque and effort."""
        gravity = sqrt(gg)
        ratio = gt / gg if gravity >= LEAST_GRAVITY else nan
        remainder = sqrt(max(tt - gt * gt / gg, 0.0)) if gg > 0.0 else sqrt(tt)
        if not remainder <= max(1.0, abs(ratio)) * gravity:
            ratio = nan
        correlation = ratio * sqrt(gg / tt) if tt > 0.0 else 0.0
        return EffortFit(joint, ratio, correlation, gravity, remainder)
