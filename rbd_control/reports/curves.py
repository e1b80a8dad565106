"""Reduction of long series to short curves: an envelope, and all samples around events.

An :class:`~rbd_control.playback.measures.Envelope` keeps the lowest and highest value of each time
bin, so no peak is lost. Around events (onsets and releases of contacts) all samples are kept, up to
a maximum number of values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rbd_control.estimation import BlockDetection
from rbd_control.joint_states import SampleBlock
from rbd_control.playback.measures import Envelope
from rbd_control.playback.report import AFTER, BEFORE

Array = NDArray[np.float64]

AROUND_RELEASE = 0.2
"""Time before and after a release for which every sample is kept [s]."""

BUDGET = 140_000
"""Maximum number of values at full resolution; the recordings of a replay share it.

It suffices for 13 contacts of at most 1 s, with 7 joints at 1 kHz.
"""

BINS = 2000
"""Maximum number of bins of the envelope; a series longer than 2 s spans at least half of them."""

_REMEMBERED = 3.0
"""Time for which all samples are stored until it is known whether they are near an event [s].

An onset is reported later than it occurs.
"""

_STEP = 1e-3
"""Step to which values are rounded; further digits are noise and would increase the file size."""


class Curves:
    """Several series with common times, reduced to short curves during their collection.

    Args:
        channels: number of series.
        budget: maximum number of values that are kept at full resolution, over all series.
    """

    def __init__(self, channels: int, budget: int = BUDGET) -> None:
        self._envelope = Envelope(channels, BINS)
        self._rows = budget // max(channels, 1)
        self._windows: list[tuple[float, float]] = []
        self._recent: list[tuple[Array, Array]] = []
        self._kept: list[tuple[Array, Array]] = [(np.zeros(0), np.zeros((0, channels)))]
        self._left_out: set[tuple[float, float]] = set()

    def add(self, times: Array, values: Array, windows: Sequence[tuple[float, float]] = ()) -> None:
        """Add a block of samples; blocks must follow each other in order of time.

        Args:
            times: times (k,) [s], not negative and not decreasing.
            values: values (k, channels); NaN for a missing value.
            windows: begin and end [s] of intervals in which every sample is to be kept; they may
                begin in earlier blocks, up to 3 s before the last of ``times``. Intervals that
                overlap a block for which the budget does not suffice are not kept completely.

        Raises:
            ValueError: if a time is negative, or less than the time before it in this block.
        """
        if not times.size:
            return
        self._envelope.add(times, values)
        self._windows.extend(windows)
        self._recent.append((times, values))
        while float(self._recent[0][0][-1]) < float(times[-1]) - _REMEMBERED:
            self._settle(*self._recent.pop(0))

    def series(self) -> tuple[Array, Array]:
        """Return times (m,) [s] and values (m, channels), in order of time, to be drawn as lines.

        In windows that are kept, these are all samples. Elsewhere, each time bin has two points:
        its lowest and its highest value. NaN means a missing value. Values are rounded to 0.001.
        """
        for block in self._recent:
            self._settle(*block)
        self._recent = []
        times, lower, upper = self._envelope.series()
        quarter = 0.25 * (float(np.diff(times).min()) if times.size > 1 else 0.0)
        detail_times, detail = (np.concatenate(part) for part in zip(*self._kept, strict=True))
        outside = ~_inside(times, self._covered(detail_times))
        every = np.concatenate([times[outside] - quarter, times[outside] + quarter, detail_times])
        values = np.concatenate([lower[outside], upper[outside], detail])
        order = np.argsort(every, kind="stable")
        return every[order], np.round(values[order] / _STEP) * _STEP

    def shows_all_of(self, time: float) -> bool:
        """Return whether the curves have every sample around a time [s]; call :meth:`series` first.

        It is True if the time is in a window given to :meth:`add`, and in none for which the
        budget did not suffice.
        """
        moment = np.array([time])
        return bool(
            _inside(moment, self._windows)[0] and not _inside(moment, list(self._left_out))[0]
        )

    def _covered(self, detail_times: Array) -> list[tuple[float, float]]:
        """Return the windows in which every sample is kept."""
        if not detail_times.size:
            return []
        return [w for w in self._windows if w not in self._left_out]

    def _settle(self, times: Array, values: Array) -> None:
        """Store the samples inside the windows permanently, up to the budget."""
        chosen = _inside(times, self._windows)
        size = int(chosen.sum())
        if size > self._rows:
            begin, end = float(times[0]), float(times[-1])
            self._left_out.update(w for w in self._windows if w[0] <= end and begin <= w[1])
            return
        self._rows -= size
        if size:
            self._kept.append((times[chosen], values[chosen]))


class ResidualCurves(Curves):
    """Residuals (estimated external torques) divided by their thresholds, from a replay.

    There is one series per joint. As far as the budget suffices, all samples are kept from 0.3 s
    before to 1.2 s after each onset, and 0.2 s before and after each release. NaN stands for
    samples without a verdict (whether there is contact).
    """

    def watch(self, times: Array, _: SampleBlock, found: BlockDetection) -> None:
        """Add a block of samples; pass this method to ``replay`` as its argument ``watch``.

        Args:
            times: times (k,) since the first sample of the recording [s].
            _: the samples, which are not used.
            found: the detections of these samples.
        """
        ratios = found.residual / found.threshold
        windows = []
        for k, event in found.events:
            now = float(times[k])
            if event.release is None:
                onset = now - (event.detected - event.onset)
                windows.append((onset - BEFORE, onset + AFTER))
            else:
                windows.append((now - AROUND_RELEASE, now + AROUND_RELEASE))
        self.add(times, np.where(found.valid[:, None], ratios, np.nan), windows)


def _inside(times: Array, windows: Sequence[tuple[float, float]]) -> NDArray[np.bool_]:
    """Return which times are in one of the windows, (k,) bool."""
    inside = np.zeros(times.shape, dtype=bool)
    if not times.size:
        return inside
    first, last = float(times[0]), float(times[-1])
    for begin, end in windows:
        if begin <= last and first <= end:
            inside |= (times >= begin) & (times <= end)
    return inside
