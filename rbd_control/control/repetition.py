"""Joint states that repeat to the last digit: a driver or a simulation that has stopped.

Stamps that go on make such data look alive, and no timeout notices. Exact repetition of position,
velocity and measured effort is judged by what it would mean:

- With a velocity that would move the encoder by a step it contradicts itself. Three equal
  samples over ``repeated_time`` are frozen. Two or a few equal samples are normal where a driver
  publishes faster than its hardware updates.
- At rest it is normal, as velocities may be cut to zero and encoders have steps, as long as the
  torque stays what it was. Where the torque has changed by more than dry friction can bear, the
  arm should have moved: after ``repeated_time`` the joint states are frozen. A measured effort that
  repeats while the torque changes is frozen at a fifth of that.

Joint states that are frozen stay so until one of their numbers changes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.kernels import equal, largest_share
from rbd_control.control.safety_parameters import FaultParameters

Array = NDArray[np.float64]

LEAST_SAMPLES = 3
"""Number of equal samples below which nothing is concluded."""

ENCODER_STEP = 1e-5
"""Motion within ``repeated_time`` below which a joint counts as at rest [rad or m].

An encoder of 19 bits has steps of 1.2e-5 rad.
"""

WITH_EFFORT = 0.2
"""Share of ``repeated_torque_share`` that counts where the measured effort repeats, too."""

NEVER = 2.0
"""Value of ``repeated_torque_share`` that turns the check at rest off."""

_ROUNDING = 1e-9
"""Error of a difference of stamps [s]."""


class Repetition:
    """Follows the repetition of one arm's joint states.

    Args:
        names: names of the joints.
        effort: (nv,) largest torque of each joint [N·m or N].
        parameters: times and torque share that are tolerated.
    """

    def __init__(self, names: tuple[str, ...], effort: Array, parameters: FaultParameters) -> None:
        self.set_parameters(names, effort, parameters)
        self.reset()

    def set_parameters(
        self, names: tuple[str, ...], effort: Array, parameters: FaultParameters
    ) -> None:
        """Use other limits from the next sample on."""
        self._names, self._effort, self._parameters = names, effort, parameters

    def reset(self) -> None:
        """Compare the next sample with none."""
        self._last: tuple[Array, Array, Array | None] | None = None
        self._count = 0
        self._since = self._stamp = 0.0
        self._moving = self._measured = False
        self._frozen = ""
        self._torque: Array | None = None
        self._order = 0
        self._pushed_since = np.inf

    def take(self, stamp: float, q: Array, v: Array, effort: Array | None) -> str:
        """Compare a sample with the one before it.

        Args:
            stamp: time of the sample [s].
            q, v: positions and velocities, (nv,) each.
            effort: measured torque, (nv,), or None; one that is not finite is none.

        Returns:
            Why the joint states are frozen, or an empty text.
        """
        if effort is not None and not np.isfinite(effort).all():
            effort = None  # NaN would be unlike itself, and repetition go unseen
        last, self._last = self._last, (q, v, effort)
        self._stamp = stamp
        if last is None or not _same(q, v, effort, last):
            self._count, self._since = 1, stamp
            # A slower joint may well repeat: an encoder shows no part of a step.
            way = np.abs(v) * self._parameters.repeated_time
            self._moving = bool((way > ENCODER_STEP).any())
            self._measured = effort is not None and bool(effort.any())
            self._frozen, self._torque = "", None
            return ""
        self._count += 1
        if self._frozen or not self._moving or self._count < LEAST_SAMPLES:
            return self._frozen
        time = stamp - self._since
        if time < self._parameters.repeated_time - _ROUNDING:
            return ""
        j = int(np.abs(v).argmax())
        self._frozen = (
            f"joint states have repeated to the last digit for {time:.3g} s with "
            f"{self._names[j]} at a speed of {v[j]:.4g}"
        )
        return self._frozen

    def push(self, torque: Array, order: int) -> str:
        """Compare the torque wanted for this sample with that at the begin of the repetition.

        Args:
            torque: (nv,) torque that the law wants [N·m or N].
            order: changes where the desired motion jumps, and with it the torque; the comparison
                then begins anew.

        Returns:
            Why the joint states are frozen, or an empty text.
        """
        if self._torque is None or order != self._order:
            self._torque, self._order = torque, order
            self._pushed_since = np.inf
            return ""
        if self._count < LEAST_SAMPLES or self._moving:
            return ""
        most = self._parameters.repeated_torque_share
        if self._measured and most < NEVER:
            most *= WITH_EFFORT
        j, share = largest_share(torque, self._torque, self._effort)
        if share <= most:
            self._pushed_since = np.inf
            return ""
        self._pushed_since = min(self._pushed_since, self._stamp)
        if self._stamp - self._pushed_since < self._parameters.repeated_time - _ROUNDING:
            return ""
        change = abs(torque[j] - self._torque[j])
        self._frozen = (
            f"joint states have repeated to the last digit for {self._stamp - self._since:.3g} s "
            f"while the torque of {self._names[j]} changed by {change:.4g} "
            f"(at most {most * self._effort[j]:.4g})"
        )
        return self._frozen

    def forget_torque(self) -> None:
        """Compare torques anew: a change of the payload or of a gain changes them at rest, too."""
        self._torque, self._pushed_since = None, np.inf

    @property
    def time_at_rest(self) -> float:
        """Time for which samples at rest have repeated [s]; 0 below ``repeated_time_at_rest``."""
        time = self._stamp - self._since
        if self._moving or time < self._parameters.repeated_time_at_rest - _ROUNDING:
            return 0.0
        return time


def _same(
    q: Array, v: Array, effort: Array | None, last: tuple[Array, Array, Array | None]
) -> bool:
    if not (equal(q, last[0]) and equal(v, last[1])):
        return False
    if effort is None or last[2] is None:
        return effort is last[2]
    return bool(equal(effort, last[2]))
