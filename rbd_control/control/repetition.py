"""Detection of frozen joint states: a driver or simulation that repeats its last sample.

Such data have increasing stamps, so a timeout does not detect them. Exact repetition of position
and velocity has two cases, whether the measured effort changes or not, because efforts may come
from other hardware than the encoders.

- In motion, with a velocity that would move the encoder by at least one step, repetition is a
  contradiction. The step is the smallest change of the position that the joint has shown. Three
  equal samples over ``repeated_time`` count as frozen. Two or a few equal samples are normal if a
  driver publishes faster than its hardware updates.
- At rest, repetition is normal as long as the torque does not change, because velocities may be
  rounded to zero and encoders have steps. If the torque has changed by more than static friction
  can hold, the arm should have moved: after ``repeated_time`` the joint states count as frozen. If
  the measured effort repeats as well, a fifth of this change suffices.

Frozen joint states stay frozen until one of their positions or velocities changes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.kernels import equal, largest_share
from rbd_control.control.safety_parameters import FaultParameters
from rbd_control.dynamics.compiled import compiled

Array = NDArray[np.float64]

LEAST_SAMPLES = 3
"""Smallest number of equal samples that can count as frozen."""

FINEST_STEP = 1e-5
"""Smallest encoder step that is assumed, whatever changes of position were seen [rad or m].

A joint that moves less than its step within ``repeated_time`` counts as at rest. An encoder of
19 bits has steps of 1.2e-5 rad.
"""

UNKNOWN_STEP = 0.002
"""Step of an encoder that has shown no change yet [rad or m]; 12 bits have steps of 1.5e-3 rad."""

WITH_EFFORT = 0.2
"""Factor on ``repeated_torque_share`` if the measured efforts repeat as well."""

NEVER = 2.0
"""Value of ``repeated_torque_share`` that disables the check at rest."""

ROUNDING = 1e-9
"""Rounding error of a difference of stamps [s]."""

ZERO, MEASURED, NOT_FINITE = range(3)
"""Results of :func:`effort_content`: only zeros; finite, not only zeros; NaN or infinite."""


class Repetition:
    """Detects frozen joint states of one arm, by the two rules of this module.

    Call :meth:`take` and then :meth:`push` for each sample. A detected fault lasts until a position
    or velocity differs from the previous sample.

    Args:
        names: names of the joints.
        effort: (nv,) largest torque of each joint [N·m or N].
        parameters: ``repeated_time``, ``repeated_torque_share`` and ``repeated_time_at_rest``.

    Attributes:
        step: smallest change of position that each encoder has shown, (nv,) [rad or m].
    """

    def __init__(self, names: tuple[str, ...], effort: Array, parameters: FaultParameters) -> None:
        self.set_parameters(names, effort, parameters)
        self.step = np.full(len(names), UNKNOWN_STEP)
        self.reset()

    def set_parameters(
        self, names: tuple[str, ...], effort: Array, parameters: FaultParameters
    ) -> None:
        """Use other limits from the next sample on; arguments as of the constructor."""
        self._names, self._effort, self._parameters = names, effort, parameters

    def restart(self) -> None:
        """Forget the last samples and torques, unless the joint states are frozen.

        Frozen joint states remain frozen until a position or velocity changes, whatever the clock
        of their stamps does.
        """
        if not self._frozen:
            self.reset()

    def reset(self) -> None:
        """Forget the last samples and torques, and end a detected fault.

        The next sample is not compared.
        """
        self._last: tuple[Array, Array, Array | None] | None = None
        self._count = 0
        self._since = self._effort_since = self._stamp = 0.0
        self._moving = self._measured = False
        self._frozen = ""
        self._torque: Array | None = None
        self._pushed: Array | None = None
        self._law_changed = False
        self._order = 0
        self._pushed_since = np.inf

    def take(self, stamp: float, q: Array, v: Array, effort: Array | None) -> str:
        """Compare a sample with the previous sample, and look for frozen joint states in motion.

        They are frozen if :data:`LEAST_SAMPLES` samples or more have been equal over
        ``repeated_time``, with a velocity that would move a joint by more than its encoder step
        within ``repeated_time``.

        Args:
            stamp: time of the sample [s].
            q, v: reported positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            effort: measured efforts in any unit, (nv,), or None; efforts that are not finite count
                as None.

        Returns:
            The reason while the joint states are frozen, also if :meth:`push` has found it;
            otherwise an empty text.
        """
        content = ZERO if effort is None else effort_content(effort)
        if content == NOT_FINITE:
            effort = None  # NaN is never equal to itself and would hide a repetition
        last, self._last = self._last, (q, v, effort)
        self._stamp = stamp
        self._measured = content == MEASURED
        if last is None or not _same_effort(effort, last[2]):
            self._effort_since = stamp
        if last is None or not (equal(q, last[0]) and equal(v, last[1])):
            self._count, self._since = 1, stamp
            if last is not None:
                learn_steps(q, last[0], self.step)
            # A slower joint may repeat, because an encoder has a finite resolution.
            self._moving = moves(v, self._parameters.repeated_time, self.step)
            self._frozen, self._torque, self._pushed_since = "", None, np.inf
            return ""
        self._count += 1
        if self._frozen or not self._moving or self._count < LEAST_SAMPLES:
            return self._frozen
        time = stamp - self._since
        if time < self._parameters.repeated_time - ROUNDING:
            return ""
        j = int(np.abs(v).argmax())
        self._frozen = (
            f"joint states have repeated to the last digit for {time:.3g} s with "
            f"{self._names[j]} at a speed of {v[j]:.4g}"
        )
        return self._frozen

    def push(self, torque: Array, withheld: Array, order: int) -> str:
        """Compare the torque for this sample with the torque at the start of the repetition.

        Joint states at rest are frozen if, while :data:`LEAST_SAMPLES` samples or more are equal,
        the torque of a joint differs from its torque at the first of them by more than
        ``repeated_torque_share`` of its effort limit for ``repeated_time``. If measured efforts
        repeat as well, a fifth of this share suffices.

        Args:
            torque: (nv,) torque of the law for the sample that :meth:`take` got last [N·m or N].
            withheld: (nv,) torque of the last sample that limits have withheld [N·m or N]; a change
                of the torque by so much moves no joint.
            order: number that changes when the torque jumps, because the desired motion jumps or
                the law ends or begins to track it; the comparison then restarts.

        Returns:
            The reason if the joint states are frozen, otherwise an empty text.
        """
        before, self._pushed = self._pushed, torque
        changed, self._law_changed = self._law_changed, False
        if changed and self._torque is not None and before is not None:
            self._torque = self._torque + (torque - before)
        if self._torque is None or order != self._order:
            self._torque, self._order = torque, order
            self._pushed_since = np.inf
            return ""
        most = self._parameters.repeated_torque_share
        if self._count < LEAST_SAMPLES or self._moving or most >= NEVER:
            return ""
        if self._measured and self._effort_since <= self._since:
            most *= WITH_EFFORT
        change = torque - self._torque
        change -= np.clip(change, -np.abs(withheld), np.abs(withheld))
        j, share = largest_share(self._torque + change, self._torque, self._effort)
        if share <= most:
            self._pushed_since = np.inf
            return ""
        self._pushed_since = min(self._pushed_since, self._stamp)
        if self._stamp - self._pushed_since < self._parameters.repeated_time - ROUNDING:
            return ""
        self._frozen = (
            f"joint states have repeated to the last digit for {self._stamp - self._since:.3g} s "
            f"while the torque of {self._names[j]} changed by {abs(change[j]):.4g} "
            f"(at most {most * self._effort[j]:.4g})"
        )
        return self._frozen

    def law_changes(self) -> None:
        """Leave the next step of the torque out: gains, payload or other parameters change.

        Earlier changes of the torque still count. Otherwise parameters that change again and again
        would hide frozen joint states.
        """
        self._law_changed = True

    def forget_torque(self) -> None:
        """Restart the comparison of torques, because the arm did not receive the last ones."""
        self._torque, self._pushed_since = None, np.inf

    @property
    def time(self) -> float:
        """Time for which positions and velocities have been equal [s]; 0 if the last two differ."""
        return self._stamp - self._since if self.is_repeating else 0.0

    @property
    def is_repeating(self) -> bool:
        """Whether positions and velocities of the last two samples were equal."""
        return self._count > 1

    @property
    def time_at_rest(self) -> float:
        """Time for which samples at rest have repeated [s]; 0 below ``repeated_time_at_rest``.

        Only the time for which measured efforts repeated as well counts: while efforts change, the
        driver is not frozen. The time is 0 in motion.
        """
        time = self._stamp - max(self._since, self._effort_since)
        if self._moving or time < self._parameters.repeated_time_at_rest - ROUNDING:
            return 0.0
        return time


@compiled
def effort_content(effort: Array) -> int:
    """Return ``ZERO``, ``MEASURED`` or ``NOT_FINITE`` for the efforts of a sample, (nv,)."""
    content = ZERO
    for i in range(effort.shape[0]):
        if not np.isfinite(effort[i]):
            return NOT_FINITE
        if effort[i] != 0.0:
            content = MEASURED
    return content


@compiled
def learn_steps(q: Array, last: Array, step: Array) -> None:
    """Reduce ``step``, in place, to a smaller change of position, but not below FINEST_STEP.

    Args:
        q, last: positions of a sample and of the previous sample, (nv,) each [rad or m].
        step: smallest change so far, (nv,) [rad or m]; a change of zero does not reduce it.
    """
    for i in range(q.shape[0]):
        change = abs(q[i] - last[i])
        if 0.0 < change < step[i]:
            step[i] = max(change, FINEST_STEP)


@compiled
def moves(v: Array, time: float, step: Array) -> bool:
    """Return whether a joint moves by more than its encoder step in a time.

    Args:
        v: velocities, (nv,) [rad/s or m/s].
        time: the time [s].
        step: encoder steps, (nv,) [rad or m].
    """
    moving = False
    for i in range(v.shape[0]):
        if abs(v[i]) * time > step[i]:
            moving = True
    return moving


def _same_effort(effort: Array | None, last: Array | None) -> bool:
    """Return whether measured efforts are unchanged, or missing in the previous sample."""
    return last is None or (effort is not None and bool(equal(effort, last)))
