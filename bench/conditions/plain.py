"""A plain first-order momentum observer with constant thresholds, as in the literature.

It shares model and friction with the calibrated detector, but none of its decision: no statistic,
no debounce, no checks of the samples. A sample with a number that is not finite is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.conditions.setups import Samples
from rbd_control.dynamics import Model
from rbd_control.estimation import DetectorParameters

GAIN = 50.0
"""Observer gain [1/s]."""
MARGIN = 1.3
"""Ratio of the thresholds to the largest residuals in the calibration motion."""
SETTLED = 0.5
"""Time after the start in which the residual is ignored [s]."""
LONGEST = 0.1
"""Longest time between samples; the observer restarts after a longer one [s]."""
HOLD = 0.15
"""Time after the last sample above a threshold at which a contact ends [s]."""


@dataclass(frozen=True, eq=False)
class PlainObserver:
    """The observer with its thresholds."""

    threshold: np.ndarray
    """(nv,) [N·m]."""

    @classmethod
    def calibrated(
        cls, free: Samples, model: Model, parameters: DetectorParameters
    ) -> PlainObserver:
        """Return the observer for a motion without contact.

        Args:
            free: the motion of the calibration.
            model: the arm with the corrections of the calibration.
            parameters: its friction, kind and gain of the efforts.
        """
        r = residual(free, model, parameters)
        return cls(MARGIN * np.abs(r[free.t - free.t[0] > SETTLED]).max(axis=0))

    def flags(
        self, samples: Samples, model: Model, parameters: DetectorParameters
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return times (m,) of the used samples [s], and whether there is contact, (m,) bool."""
        samples = samples.only(np.isfinite(samples.tau).all(axis=1))
        r = residual(samples, model, parameters)
        over = (np.abs(r) > self.threshold).any(axis=1)
        over[samples.t - samples.t[0] < SETTLED] = False
        last = np.maximum.accumulate(np.where(over, samples.t, -np.inf))
        return samples.t, samples.t - last < HOLD


def residual(samples: Samples, model: Model, parameters: DetectorParameters) -> np.ndarray:
    """Return the residual of the observer, (k, nv) [N·m].

    With ``x`` the mean external torque between two samples, ``r' = K (x - r)`` is solved exactly.
    """
    q, v, tau = (np.ascontiguousarray(x) for x in (samples.q, samples.v, samples.tau))
    balance = parameters.balance(model).run(q, v, tau)
    dt = np.diff(samples.t)
    x = np.diff(balance.p, axis=0) / dt[:, None] - 0.5 * (balance.rate[1:] + balance.rate[:-1])
    share = np.where(dt > LONGEST, 0.0, np.exp(-GAIN * dt))
    x[dt > LONGEST] = 0.0
    r = np.zeros_like(v)
    for k, (keep, step) in enumerate(zip(share.tolist(), (1.0 - share)[:, None] * x, strict=True)):
        np.multiply(r[k], keep, out=r[k + 1])
        r[k + 1] += step
    return r
