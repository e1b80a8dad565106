"""Collection of samples of the first seconds for the check of the model."""

from __future__ import annotations

import math

import numpy as np

from rbd_control.estimation.contact_detector import ContactDetector
from rbd_control.estimation.mismatch import Mismatch, find_mismatches
from rbd_control.estimation.motion import Motion

PERIOD = 0.02
"""Period of the stored samples [s]; model errors change only as fast as the motion."""


class FitWatch:
    """Stores one sample per :data:`PERIOD` for ``length`` seconds.

    Args:
        length: duration of the collection [s], which bounds the memory.
    """

    def __init__(self, length: float) -> None:
        self._most = math.ceil(length / PERIOD)
        self._slot = -math.inf
        self._samples: list[tuple[float, np.ndarray, np.ndarray, np.ndarray]] = []

    @property
    def is_full(self) -> bool:
        """Whether the collection is complete."""
        return len(self._samples) >= self._most

    def add(self, stamp: float, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> bool:
        """Add one sample with an increasing stamp; return whether the collection is complete."""
        slot = stamp // PERIOD
        if slot <= self._slot or self.is_full:
            return False
        self._slot = slot
        self._samples.append((stamp, q.copy(), v.copy(), tau.copy()))
        return self.is_full

    def add_block(self, stamps: np.ndarray, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> None:
        """Add k samples."""
        if self.is_full:
            return
        slots = stamps // PERIOD
        rows = np.flatnonzero(np.diff(slots, prepend=self._slot) > 0.0)
        rows = rows[slots[rows] > self._slot][: self._most - len(self._samples)]
        if rows.size:
            self._slot = float(slots[rows[-1]])
            kept = stamps[rows].tolist(), q[rows], v[rows], tau[rows]
            self._samples.extend(zip(*kept, strict=True))

    def mismatches(self, detector: ContactDetector) -> tuple[Mismatch, ...]:
        """Return the explanations of the detector's residual in the collected samples."""
        if not self._samples:
            return ()
        motion = Motion("start", *(np.array(each) for each in zip(*self._samples, strict=True)))
        return find_mismatches(motion, detector.model, detector.parameters, detector.bias)
