"""Levels that a signal without contact exceeds at a required rate, by extreme-value statistics.

The signal, the magnitude of a residual, is cut into blocks much longer than its correlation time,
so that their maxima are nearly independent. These maxima tend to a
Gumbel distribution; with location ``mu`` and scale ``beta`` fitted to ``n`` of them, the level that
a block passes with probability ``p`` is::

    level = mu + beta y        y = -log(-log(1 - p))

Gaussian noise would have a lighter tail and lower levels; but model errors, mainly at reversals of
friction, cause the largest residuals, which are rarer and larger.

A small number of maxima makes the fit uncertain. From the information matrix of the fit, the
variance of the level is ``(beta² / n) (1.109 + 0.514 y + 0.608 y²)``, and the returned level is
:data:`CERTAINTY` standard deviations above the fitted one.

Source: Coles, *An Introduction to Statistical Modeling of Extreme Values*, Springer 2001, ch. 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

BLOCK = 0.25
"""Length of a block [s]; the correlation time of residuals is some tens of milliseconds."""
CERTAINTY = 1.28
"""Number of standard errors by which a returned level exceeds the fitted level: the one-sided 90 %
quantile of the normal distribution."""
SEEN = 1.05
"""Smallest ratio of a returned level to the largest observed block maximum."""


def block_maxima(t: Array, signal: Array) -> Array:
    """Return the maximum of each signal in each block of :data:`BLOCK` seconds except the last.

    Args:
        t: times of the samples, (k,) [s], increasing; the first block begins at ``t[0]``.
        signal: magnitudes of m residuals, (k, m).

    Returns:
        Maxima of n blocks, (n, m), in the unit of ``signal``. The last block is left out because it
        is usually incomplete. Blocks without samples are left out as well.
    """
    number = np.floor((t - t[0]) / BLOCK).astype(int)
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    # The last block is usually incomplete.
    return np.asarray(np.maximum.reduceat(signal, starts, axis=0)[:-1])


def alarm_levels(maxima: Array, alarms_per_hour: float) -> Array:
    """Return the level that each signal without contact exceeds at the rate ``alarms_per_hour``.

    Args:
        maxima: maxima of n blocks of m signals, (n, m), from :func:`block_maxima`.
        alarms_per_hour: required rate of each signal [1/h], above 0 and below ``3600 / BLOCK``.

    Returns:
        Levels, (m,), in the unit of ``maxima``: :data:`CERTAINTY` standard errors above the fitted
        levels, and at least :data:`SEEN` times the largest maximum.
    """
    from scipy.stats import gumbel_r

    p = alarms_per_hour * BLOCK / 3600.0
    y = -np.log(-np.log1p(-p))
    error = np.sqrt((1.109 + 0.514 * y + 0.608 * y * y) / len(maxima))
    location, scale = np.array([gumbel_r.fit(column) for column in maxima.T]).T
    levels = location + scale * (y + CERTAINTY * error)
    return np.asarray(np.maximum(levels, SEEN * maxima.max(axis=0)))
