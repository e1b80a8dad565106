"""Detection of joint states that repeat although the arm moves, and their period of updates.

A driver or simulation that repeats its last sample publishes increasing stamps, so that a timeout
does not find it. Equal samples are normal in two cases: the hardware updates more slowly than the
driver publishes, and the arm is at rest, where many drivers report equal encoder counts and a
velocity that is zero, rounded, or has a constant bias. Joint states are therefore frozen only if
all positions and velocities repeat to the last digit in :data:`LEAST_SAMPLES` samples or more, and
for a time T with::

    T > repeated_time + PERIODS * period
    max_i |v_i| > LEAST_SPEED
    max_i |v_i| (T - period) > LEAST_WAY

where ``period`` is the longest recent time between two changes. They stay frozen until a position
or velocity changes. :mod:`rbd_control.control.standing_joint` finds joint states that froze at
rest, once the arm should move.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.kernels import equal
from rbd_control.control.safety_parameters import FaultParameters

Array = NDArray[np.float64]

LEAST_SAMPLES = 3
"""Smallest number of equal samples that can count as frozen."""

LEAST_SPEED = 0.02
"""Largest bias of a velocity at rest [rad/s or m/s].

Slower frozen joint states are found by their tracking error, which grows as slowly.
"""

LEAST_WAY = 0.006
"""Least motion that a velocity promises for equal positions to contradict it [rad or m].

An encoder of 12 bits has steps of 1.5 mrad. A velocity in steps of 0.1 rad/s with a filter of 25 ms
promises 2.7 mrad after the joint has stopped.
"""

PERIODS = 1.5
"""Periods of the updates that repeated samples may last beyond ``repeated_time``.

At 50 Hz one missing update, which makes 0.04 s of equal samples, is thus no fault.
"""

FORGETTING = 0.2
"""Weight of a shorter time between two changes in the longest recent time."""

ROUNDING = 1e-9
"""Rounding error of a difference of stamps [s]."""


class Repetition:
    """Detects frozen joint states of one arm in motion, by the rule of this module.

    Args:
        names: names of the joints.
        parameters: ``repeated_time``, ``repeated_time_at_rest``, and ``timeout``, which bounds the
            period of the updates.

    Attributes:
        is_repeating: whether positions and velocities of the last two samples were equal.
    """

    def __init__(self, names: tuple[str, ...], parameters: FaultParameters) -> None:
        self.set_parameters(names, parameters)
        self.reset()

    def set_parameters(self, names: tuple[str, ...], parameters: FaultParameters) -> None:
        """Use other parameters from the next sample on; arguments as of the constructor."""
        self._names, self._parameters = names, parameters

    def restart(self) -> None:
        """Forget the last samples, unless the joint states are frozen.

        Frozen joint states remain frozen until a position or velocity changes, whatever the clock
        of their stamps does.
        """
        if not self._frozen:
            self.reset()

    def reset(self) -> None:
        """Forget all samples, and end a detected fault; the next sample is not compared."""
        self._last: tuple[Array, Array, Array | None] | None = None
        self._count, self._period = 0, 0.0
        self._since = self._effort_since = self._stamp = 0.0
        self._frozen = ""
        self.is_repeating = False

    def take(self, stamp: float, q: Array, v: Array, effort: Array | None) -> str:
        """Compare a sample with the previous sample.

        Args:
            stamp: time of the sample [s].
            q, v: reported positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            effort: measured efforts in any unit, (nv,), or None. Efforts that are not finite count
                as None, because NaN is never equal to itself.

        Returns:
            The reason while the joint states are frozen, otherwise an empty text.
        """
        if effort is not None and not np.isfinite(effort).all():
            effort = None
        last, self._last, self._stamp = self._last, (q, v, effort), stamp
        if last is None or not _same_effort(effort, last[2]):
            self._effort_since = stamp
        self.is_repeating = last is not None and _is_same(q, v, last)
        if not self.is_repeating:
            if last is not None:
                time = min(stamp - self._since, self._parameters.timeout)
                self._period += max(time - self._period, FORGETTING * (time - self._period))
            self._count, self._since, self._frozen = 1, stamp, ""
            return ""
        self._count += 1
        if self._frozen or self._count < LEAST_SAMPLES or not self.is_overdue:
            return self._frozen
        j = int(np.abs(v).argmax())
        speed = abs(v[j])
        if speed > LEAST_SPEED and speed * (self.time - self._period) > LEAST_WAY:
            self._frozen = (
                f"joint states have repeated to the last digit for {self.time:.3g} s with "
                f"{self._names[j]} at a speed of {v[j]:.4g}"
            )
        return self._frozen

    def repeats(self, q: Array, v: Array) -> bool:
        """Return whether reported positions and velocities, (nv,) each, equal the last sample."""
        return self._last is not None and _is_same(q, v, self._last)

    @property
    def time(self) -> float:
        """Time since a position or velocity has changed [s]."""
        return self._stamp - self._since

    @property
    def longest(self) -> float:
        """Longest time without a change that the hardware explains [s]."""
        return self._parameters.repeated_time + PERIODS * self._period

    @property
    def is_overdue(self) -> bool:
        """Whether the samples have repeated for longer than the hardware explains."""
        return self.is_repeating and self.time > self.longest - ROUNDING

    @property
    def time_at_rest(self) -> float:
        """Time for which samples have repeated [s]; 0 below ``repeated_time_at_rest``.

        Only the time for which measured efforts repeated as well counts: while efforts change, the
        driver is not frozen.
        """
        time = self._stamp - max(self._since, self._effort_since)
        return time if time >= self._parameters.repeated_time_at_rest - ROUNDING else 0.0


def _is_same(q: Array, v: Array, last: tuple[Array, Array, Array | None]) -> bool:
    return bool(equal(q, last[0]) and equal(v, last[1]))


def _same_effort(effort: Array | None, last: Array | None) -> bool:
    """Return whether measured efforts are unchanged, or missing in the previous sample."""
    return last is None or (effort is not None and bool(equal(effort, last)))
