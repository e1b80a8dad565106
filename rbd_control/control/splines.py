"""Piecewise polynomials through states: quintics, cubics and clamped splines."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

Array = NDArray[np.float64]


def fill_velocities(knots: Array, q: Array, v: Array) -> None:
    """Replace rows of NaN in ``v``, run by run between points that have a velocity."""
    given = np.flatnonzero(~np.isnan(v[:, 0]))
    for first, last in pairwise(given):
        if last > first + 1:
            run = slice(first, last + 1)
            spline = CubicSpline(knots[run], q[run], bc_type=((1, v[first]), (1, v[last])))
            v[first + 1 : last] = spline(knots[first + 1 : last], 1)


def hermite(h: Array, q: Array, v: Array, a: Array) -> Array:
    """Coefficients (m, 6, n) through m + 1 states, for segments of length ``h`` (m, 1).

    Quintic where both ends carry accelerations, cubic where one of them is a row of NaN.
    """
    c = np.zeros((len(h), 6, q.shape[1]))
    c[:, 0], c[:, 1] = q[:-1], v[:-1]
    mean = (q[1:] - q[:-1]) / h
    c[:, 2] = (3.0 * mean - 2.0 * v[:-1] - v[1:]) / h
    c[:, 3] = (v[:-1] + v[1:] - 2.0 * mean) / h**2

    k = np.flatnonzero(~np.isnan(a[:-1, 0] + a[1:, 0]))
    h = h[k]
    # What position, velocity and acceleration still lack at the end of the segment.
    x = q[k + 1] - q[k] - v[k] * h - 0.5 * a[k] * h**2
    y = v[k + 1] - v[k] - a[k] * h
    z = a[k + 1] - a[k]
    c[k, 2] = 0.5 * a[k]
    c[k, 3] = (10.0 * x - 4.0 * y * h + 0.5 * z * h**2) / h**3
    c[k, 4] = (-15.0 * x + 7.0 * y * h - z * h**2) / h**4
    c[k, 5] = (6.0 * x - 3.0 * y * h + 0.5 * z * h**2) / h**5
    return c
