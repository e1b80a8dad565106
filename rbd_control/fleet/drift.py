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
"""Confidence level at which a drift counts as significant."""


@dataclass(frozen=True)
class Drift:
    """A straight line through the values of a quantity over time, fitted by least squares.

    Attributes:
        count: number of values.
        days: time from the first to the last value [days].
        mean: mean of the values [unit of the quantity].
        slope: change per month of :data:`MONTH` days [unit of the quantity per month].
        standard_error: standard error of ``slope``, in the same unit.
    """

    count: int
    days: float
    mean: float
    slope: float
    standard_error: float

    @property
    def is_significant(self) -> bool:
        """Whether the slope differs from zero at the level :data:`CONFIDENCE` (Student's t)."""
        from scipy.special import stdtrit

        limit = float(stdtrit(self.count - 2, 0.5 + 0.5 * CONFIDENCE))
        return abs(self.slope) > limit * self.standard_error


def fit_drift(times: Sequence[float], values: Sequence[float]) -> Drift | None:
    """Fit a line; return None with fewer than :data:`FEWEST` values, or if all times are equal.

    The slope is the change per month. Its standard error assumes independent values of equal
    variance. The time t is in months, and the deviations are the distances from the line::

        slope = S_ty / S_tt,    standard error = sqrt(sum of squared deviations / (n - 2) / S_tt)

    Args:
        times: times of the values, in any order, (n,) [s].
        values: the values, (n,), in any unit.
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
