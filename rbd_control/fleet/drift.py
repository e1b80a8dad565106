"""Drift of a quantity over time: a straight line with the standard error of its slope."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

DAY = 86_400.0
"""Length of a day [s]."""

MONTH = 365.25 / 12.0
"""Mean length of a month [days]."""

FEWEST = 3
"""Minimum number of values for the standard error of a slope."""

CONFIDENCE = 0.95
"""Confidence level of a drift."""


@dataclass(frozen=True)
class Drift:
    """A straight line through a quantity over time, by least squares.

    Attributes:
        count: number of values.
        days: time from the first to the last value [days].
        mean: mean of the values.
        slope: change per month.
        standard_error: standard error of ``slope``.
    """

    count: int
    days: float
    mean: float
    slope: float
    standard_error: float

    @property
    def is_significant(self) -> bool:
        """Whether the slope is not zero, at a confidence of :data:`CONFIDENCE` (Student's t)."""
        from scipy.special import stdtrit

        limit = float(stdtrit(self.count - 2, 0.5 + 0.5 * CONFIDENCE))
        return abs(self.slope) > limit * self.standard_error


def fit_drift(times: Sequence[float], values: Sequence[float]) -> Drift | None:
    """Fit a line; None with fewer than :data:`FEWEST` values or no time between them.

    The slope is the change per month. Its standard error assumes independent values of equal
    variance. The time t is in months, and the deviations are the distances from the line::

        slope = S_ty / S_tt,    standard error = sqrt(sum of squared deviations / (n - 2) / S_tt)

    Args:
        times: times of the values, (n,) [s].
        values: the values, (n,).
    """
    t = np.array(times, dtype=float) / DAY
    y = np.array(values, dtype=float)
    n = t.size
    if n < FEWEST or np.ptp(t) <= 0.0:
        return None
    months = (t - t.mean()) / MONTH
    spread = float(months @ months)
    slope = float(months @ (y - y.mean())) / spread
    left = y - y.mean() - slope * months
    error = math.sqrt(float(left @ left) / (n - 2) / spread)
    return Drift(n, float(np.ptp(t)), float(y.mean()), slope, error)
