"""Collection of samples, usually of the first seconds, to find mismatches of model and robot."""

from __future__ import annotations

import math

import numpy as np

from rbd_control.estimation.contact_detector import ContactDetector
from rbd_control.estimation.mismatch import Mismatch, find_mismatches
from rbd_control.estimation.motion import Motion

PERIOD = 0.02
"""Period of the stored samples [s]; model errors change only as fast as the motion."""


class FitWatch:
    """Collects samples for :func:`~rbd_control.estimation.find_mismatches`, one per :data:`PERIOD`.

    The collection is complete after ``length`` / :data:`PERIOD` samples, rounded up. At sample
    rates below 1 / :data:`PERIOD` (50 Hz) this takes longer than ``length``.

    Args:
        length: duration of the collection [s], which bounds the memory.
    """

    def __init__(self, length: float) -> None:
        self._most = math.ceil(length / PERIOD)
        self._slot = -math.inf
        self._samples: list[tuple[float, np.ndarray, np.ndarray, np.ndarray]] = []

    @property
    def is_full(self) -> bool:
        """Whether the collection is complete; further samples are then ignored."""
        return len(self._samples) >= self._most

    def add(self, stamp: float, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> bool:
        """Add one sample and return whether it completes the collection.

        The first sample of each :data:`PERIOD` is stored, all others are ignored.

        Args:
            stamp: time of the sample [s]; must increase.
            q, v: positions and velocities, (nq,) and (nv,) [rad or m, rad/s or m/s].
            tau: joint efforts as published, (nv,), of the kind ``effort_kind``.

        Returns:
            True only for the sample that completes the collection.
        """
        slot = stamp // PERIOD
        if slot <= self._slot or self.is_full:
            return False
        self._slot = slot
        self._samples.append((stamp, q.copy(), v.copy(), tau.copy()))
        return self.is_full

    def add_block(self, stamps: np.ndarray, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> None:
        """Add k samples as :meth:`add` adds one.

        Args:
            stamps: times of the samples, (k,) [s]; must increase.
            q, v: positions and velocities, (k, nq) and (k, nv) [rad or m, rad/s or m/s].
            tau: joint efforts as published, (k, nv).
        """
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
        """Return the errors of model, effort or payload that explain the collected residual.

        Args:
            detector: its model, parameters and tare (``bias``) are used; it is unchanged.

        Returns:
            The result of :func:`~rbd_control.estimation.find_mismatches`; empty without samples.
        """
        if not self._samples:
            return ()
        motion = Motion("start", *(np.array(each) for each in zip(*self._samples, strict=True)))
        return find_mismatches(motion, detector.model, detector.parameters, detector.bias)
