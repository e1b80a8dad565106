"""Reduction of long series for pictures: minimum and maximum per time bin, in bounded memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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
