"""What the first seconds of a robot tell of its model: samples gathered for the mismatch check."""

from __future__ import annotations

import math

import numpy as np

from rbd_control.estimation.contact_detector import ContactDetector
from rbd_control.estimation.mismatch import Mismatch, find_mismatches
from rbd_control.estimation.motion import Motion

PERIOD = 0.02
"""Time between the samples that are kept [s]: errors of the model change with the motion only."""


class FitWatch:
    """Keeps samples, one in :data:`PERIOD`, until it has those of ``length`` seconds.

    Args:
        length: how long to gather [s]; bounds the memory it takes.
    """

    def __init__(self, length: float) -> None:
        self._most = math.ceil(length / PERIOD)
        self._slot = -math.inf
        self._samples: list[tuple[float, np.ndarray, np.ndarray, np.ndarray]] = []

    @property
    def is_full(self) -> bool:
        """Whether it has all it wants."""
        return len(self._samples) >= self._most

    def add(self, stamp: float, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> bool:
        """Take one sample, later than the ones before; whether it is the last that is wanted."""
        slot = stamp // PERIOD
        if slot <= self._slot or self.is_full:
            return False
        self._slot = slot
        self._samples.append((stamp, q.copy(), v.copy(), tau.copy()))
        return self.is_full

    def add_block(self, stamps: np.ndarray, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> None:
        """Take k samples."""
        if self.is_full:
            return
        for k in np.flatnonzero(np.diff(stamps // PERIOD, prepend=self._slot) > 0.0):
            self.add(float(stamps[k]), q[k], v[k], tau[k])

    def mismatches(self, detector: ContactDetector) -> tuple[Mismatch, ...]:
        """Return the explanations of the detector's residual in the collected samples."""
        if not self._samples:
            return ()
        motion = Motion("start", *(np.array(each) for each in zip(*self._samples, strict=True)))
        return find_mismatches(motion, detector.model, detector.parameters, detector.bias)
