"""Time line of a replay: seconds since the first sample, continuous across clock jumps."""

from __future__ import annotations

from math import isnan, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.playback.recording import TimedBlock

Array = NDArray[np.float64]


class ClockJump(NamedTuple):
    """A backward jump of the clock that stamped the joint states.

    Attributes:
        time: time of the first sample after the jump, on the time line of the replay [s].
        back: size of the jump: stamp that this sample would have without the jump, minus its stamp
            [s].
    """

    time: float
    back: float

    def to_json(self) -> dict[str, Any]:
        """Return time and size as plain values for ``json``."""
        return {"time": self.time, "back": self.back}


class ReplayClock:
    """Maps stamps of samples to the time line of a replay: the time since the first sample.

    After a jump of the clock the time line continues with the time that passed on the clock of the
    recorder, or with one period if that clock jumped as well.

    Attributes:
        offset: offset that is subtracted from the stamps since the last jump [s]; NaN before the
            first sample.
        start: stamp of the first sample [s]; NaN before it.
        time: time of the last sample on the time line [s].
        jumps: jumps of the clock so far.
    """

    def __init__(self) -> None:
        self.offset = self.start = nan
        self.time = 0.0
        self.jumps: list[ClockJump] = []
        self._stamp = self._receipt = nan

    def times(self, block: TimedBlock, period: float) -> Array:
        """Return the times of a block of samples, (k,) [s], and advance to its end.

        If the clock went back before the block, a :class:`ClockJump` is added to :attr:`jumps`.

        Args:
            block: samples that follow the previous block.
            period: usual time between samples [s]; NaN before the second sample.
        """
        stamp = block.samples.stamp
        first = float(stamp[0])
        if isnan(self.offset):
            self.offset = self.start = first
        elif block.samples.after_jump:
            passed = block.first_receipt - self._receipt
            usual = 0.0 if isnan(period) else period
            step = passed if passed > 0.0 else usual
            self.jumps.append(ClockJump(self.time + step, self._stamp + step - first))
            self.offset = first - (self.time + step)
        times = stamp - self.offset
        self._stamp, self._receipt = float(stamp[-1]), block.last_receipt
        self.time = float(times[-1])
        return times
