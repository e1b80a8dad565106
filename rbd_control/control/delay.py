"""Growth of the delay of joint states on their way to the controller."""

from __future__ import annotations

from math import inf, nan

CLOCK_DRIFT = 1e-3
"""Relative drift of the clock of the stamps that never counts as delay.

Quartz clocks differ by up to 2e-4, and ntpd corrects a clock at up to 5e-4.
"""


class Delay:
    """Measures by how much joint states are more delayed than the least delayed before them.

    The lag of a joint state is the time of its arrival on a steady clock less its stamp: its delay
    plus the unknown offset of the two clocks. The offset cancels in the difference from the least
    lag, which is the smallest of all lags so far, where each lag counts as larger by
    :data:`CLOCK_DRIFT` times the time since its arrival. A drift of the clock of the stamps up to
    this rate is therefore no delay, and a delay that grows more slowly is not noticed. A clock
    that is slowed down faster, to correct it without a step, cannot be distinguished from a
    growing delay.

    A stamp that does not increase restarts the measurement: the clock of the stamps went back.

    Attributes:
        arrival: arrival of the last joint state [s]; NaN before the first.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget all joint states; the next one is the least delayed."""
        self._first: tuple[float, float] | None = None
        self._least, self._stamp, self.arrival = inf, -inf, nan

    def excess(self, stamp: float, now: float) -> float:
        """Return the delay of a joint state beyond the least delay [s]; 0 after a restart.

        Args:
            stamp: stamp of the joint state [s].
            now: its arrival on the steady clock [s].
        """
        if stamp <= self._stamp:
            self.restart()
        if self._first is None:
            self._first = stamp, now
        # Differences first: stamps since 1970 have a resolution of 2.4e-7 s, too coarse for a sum.
        lag = (now - self._first[1]) - (stamp - self._first[0])
        if self._least < inf:
            self._least += CLOCK_DRIFT * max(now - self.arrival, 0.0)
        self._least = min(self._least, lag)
        self._stamp, self.arrival = stamp, now
        return lag - self._least
