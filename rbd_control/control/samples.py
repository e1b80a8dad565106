"""Joint states of the controller: late, repeated, contradictory or valid.

**Detection of joint states that repeat although the arm moves, and their period of updates.**

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
or velocity changes. :mod:`rbd_control.control.watches` finds joint states that froze at
rest, once the arm should move.
"""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters, FaultParameters
from rbd_control.control.kernels import equal
from rbd_control.control.limits import ArmLimits
from rbd_control.control.velocity_match import VelocityMatch
from rbd_control.dynamics import Model
from rbd_control.joint_states.plausibility import (
    LastSample,
    MotionPlausibility,
    continuous_joints,
    unwrap,
)

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


_FORGETTING = 0.05
"""Weight of a new, shorter period in the running largest period."""

FORGIVING = 0.06
"""Number of unusable samples that each valid sample makes up for.

One unusable sample in 17.7 keeps the count of unusable samples constant. The count grows if they
are more frequent, and stays below 2 if they are one in 20 or fewer.
"""


class SampleJudge:
    """Validates joint states and stores the last valid sample.

    Positions of continuous joints are unwrapped here: each position is the one nearest to the
    previous position. All other parts of the controller use the unwrapped positions only. The
    unwrapping restarts with the first sample after a loss of joint states. Call
    :meth:`set_parameters` before the first sample.

    Args:
        model: the arm.

    Attributes:
        continuous: indices of the continuous joints.
        q, v: positions, unwrapped, and velocities of the last valid sample, (nv,) each [rad or m,
            rad/s or m/s].
        stamp: stamp of the last valid sample [s]; minus infinity before the first.
        now: arrival of the last valid sample on a steady clock [s]; minus infinity before the
            first.
        dt: time from the stamp of the previous valid sample [s]; 0 for the first sample after a
            loss.
        wait: time from the arrival of the previous valid sample [s], also after a loss or a
            restart; infinite for the first sample of all.
        good: whether the last valid sample is up to date; false before the first sample, and after
            a loss: a call of :meth:`lose`, or refused samples that are a fault.
        lost: whether the samples refused since the last valid sample are a fault: ``bad_samples``
            unusable samples in a row or for more than ``timeout``, ``bad_samples`` (at least 2)
            more than valid samples make up for, see :data:`FORGIVING`, or one sample that is frozen
            or whose velocity contradicts its positions.
        mixed: whether unusable samples come among valid samples and are a fault, as from two
            publishers whose joint states contradict each other. All samples are refused then,
            until valid samples have made up for one unusable sample: 17 without another one.
        refusal: the reason if the last sample could not be used, otherwise an empty text.
        turned: (nv,) offset added by unwrapping [rad]; None means zero for all joints.
        longest_period: largest period of recent samples, up to ``timeout`` [s]. It rises at once,
            and falls by 5 % of the difference with each shorter period; ``timeout`` at first.
    """

    def __init__(self, model: Model) -> None:
        n = model.nv
        self._n = n
        self.continuous: NDArray[np.int64] = continuous_joints(model)
        self.stamp = self.now = -inf
        self.q: Array = np.zeros(n)
        self.v: Array = np.zeros(n)
        self._rest: Array = np.zeros(n)
        self.dt = self.wait = 0.0
        self.good = self.lost = self.mixed = False
        self.refusal = ""
        self.turned: Array | None = None
        self._in_a_row, self._unusable = 0, 0.0
        self._follows = False
        """Whether the next sample is compared with the last valid one."""
        self._delay = Delay()
        self._heard = -inf  # arrival of the last sample, also if it was refused
        self._repetition: Repetition | None = None
        self._match = VelocityMatch(model.joint_names, self.continuous)

    def set_parameters(self, limits: ArmLimits, parameters: ControllerParameters) -> None:
        """Use other limits and parameters from the next sample on."""
        self._parameters = parameters
        names, speed, jump = (
            limits.joint_names,
            limits.plausible_speed,
            parameters.implausible_jump,
        )
        if self._repetition is None:
            self._repetition = Repetition(names, parameters)
            self._plausibility = MotionPlausibility(names, speed, jump, self.continuous)
            self.longest_period = parameters.timeout
        else:
            self._repetition.set_parameters(names, parameters)
            self._plausibility.set_bounds(names, speed, jump)

    @property
    def repetition(self) -> Repetition:
        """The detector of repeated samples."""
        assert self._repetition is not None
        return self._repetition

    def reset(self) -> None:
        """Discard all samples; the next sample counts as the first."""
        self.lose()
        self.mixed, self._in_a_row, self._unusable = False, 0, 0.0
        self._delay.restart()
        self.longest_period = self._parameters.timeout
        self.repetition.reset()
        self._plausibility.reset()
        self._match.reset()

    def lose(self) -> None:
        """Mark the last sample as out of date: the next one is not checked for a jump from it.

        ``good`` becomes False. Continuous joints are unwrapped anew from the next valid sample. The
        checks for frozen joint states and contradictory velocities go on.
        """
        self.good, self._follows, self.refusal = False, False, ""

    def restart_clock(self) -> None:
        """Mark the last sample as out of date, because the clock of the stamps jumped."""
        self.lose()
        self.repetition.restart()
        self._delay.restart()

    def take(self, stamp: float, q: Any, v: Any, now: float, effort: Any = None) -> str:
        """Validate one sample and, if it is valid, store it.

        A sample is refused if it has no velocity, another number of joints or implausible numbers
        (:class:`MotionPlausibility`), if its delay has grown by more than ``delay_growth``
        (:class:`Delay`), if joint states are frozen (:class:`Repetition`), or if a velocity
        contradicts the positions (:class:`VelocityMatch`). A sample that repeats the last one is
        valid, but no new measurement: it is compared with nothing, unless the arm is at rest.

        Args:
            stamp: stamp of the sample [s].
            q, v: reported positions and velocities, (nv,) each [rad or m, rad/s or m/s]; ``v`` None
                if it is missing.
            now: arrival of the sample on a steady clock [s].
            effort: measured efforts in any unit, (nv,), for :attr:`Repetition.time_at_rest`; None
                if they are missing. Efforts of another shape count as missing.

        Returns:
            The reason if the sample is refused, otherwise an empty text.
        """
        heard, self._heard = self._heard, now
        try:
            position, velocity, measured = self._arrays(q, v, effort)
        except (TypeError, ValueError, OverflowError) as error:
            return self._reject(str(error), now)
        before, elapsed = self._before(stamp, position)
        refusal = ""
        if not (self._follows and self.repetition.repeats(position, velocity)):
            refusal = self._plausibility.refusal(stamp, position, velocity, before)
        if refusal:
            defect = self._contradiction_at_bounded_speed(stamp, position, velocity, before)
            if defect:
                return self._distrust(defect)
            return self._reject(refusal, now)
        delayed = self._delayed(stamp, now, heard)
        if delayed:
            return self._reject(delayed, now)
        # Reported positions are compared, because the unwrapping restarts after each loss.
        reported, turned = position, None
        if self._follows and self.continuous.size:
            reported = position.copy()
            turned = unwrap(position, before.q, self.continuous)
        repetition = self.repetition
        defect = repetition.take(stamp, reported, velocity, measured)
        # A repeated sample is no new measurement, unless the arm is known to be at rest.
        if not defect and repetition.is_repeating and not repetition.is_overdue:
            defect = self._match.lasting(stamp)
        elif not defect:
            defect = self._match.take(stamp, reported, velocity, self._parameters.velocity_mismatch)
        if defect:
            return self._distrust(defect)
        self.dt = elapsed
        self.wait = now - self.now
        if self._follows:
            period = min(self.dt, self._parameters.timeout)
            self.longest_period += max(
                period - self.longest_period, _FORGETTING * (period - self.longest_period)
            )
        self.stamp, self.now, self.q, self.v = stamp, now, position, velocity
        self.turned = turned if turned is not None and turned.any() else None
        self._follows = True
        return self._forgive()

    def reported(self, q: Array) -> Array:
        """Return positions without the offset of the unwrapping, as the encoders report them.

        Args:
            q: unwrapped positions, (nv,) [rad or m].
        """
        return q if self.turned is None else q - self.turned

    def silent(self, now: float) -> bool:
        """Return whether the last valid sample arrived more than ``timeout`` before ``now`` [s]."""
        return now - self.now > self._parameters.timeout

    def _arrays(self, q: Any, v: Any, effort: Any) -> tuple[Array, Array, Array | None]:
        """Copy the fields of a sample into contiguous arrays, as the kernels require."""
        if v is None:
            raise ValueError("joint states carry no velocity")
        position = np.array(q, dtype=np.float64)
        velocity = np.array(v, dtype=np.float64)
        shape = (self._n,)
        if position.shape != shape or velocity.shape != shape:
            raise ValueError(
                f"joint states of shape {position.shape} and {velocity.shape}; the arm has "
                f"{self._n} joints"
            )
        measured = None if effort is None else np.array(effort, dtype=np.float64)
        if measured is not None and measured.shape != shape:
            measured = None
        return position, velocity, measured

    def _before(self, stamp: float, q: Array) -> tuple[LastSample, float]:
        """Return the sample that positions ``q`` are compared with, and the time since then [s].

        After a loss this is ``q`` itself at rest, and no time.
        """
        if not self._follows:
            return LastSample(q, self._rest, 0.0, 0.0), 0.0
        elapsed = max(stamp - self.stamp, 0.0)
        unchanged = min(self.repetition.time, self._parameters.timeout)
        return LastSample(self.q, self.v, elapsed, unchanged), elapsed

    def _contradiction_at_bounded_speed(
        self, stamp: float, q: Array, v: Array, before: LastSample
    ) -> str:
        """Return the contradiction of a sample that was refused for its speed alone, or "".

        Velocities in another unit, or of the motor before its gear, may be implausible in every
        sample, and would then never be compared with the positions. For this comparison, speeds
        above the highest plausible speed are reduced to it.
        """
        bounded = self._plausibility.bounded(v)
        if self._plausibility.refusal(stamp, q, bounded, before):
            return ""
        return self._match.take(stamp, q, bounded, self._parameters.velocity_mismatch)

    def _delayed(self, stamp: float, now: float, heard: float) -> str:
        """Return a message if the delay has grown by more than ``delay_growth``, or "".

        After a gap of more than ``timeout`` since the sample that arrived at ``heard``, in which a
        paused node leaves samples in its queue, the delay is not judged, because the gap itself is
        a fault. Refused samples leave no gap.
        """
        most = self._parameters.delay_growth
        follows_gap = now - heard > self._parameters.timeout
        excess = self._delay.excess(stamp, now)
        if not 0.0 < most < excess or follows_gap:
            return ""
        return (
            f"joint states arrive too late: their delay has grown by {excess:.3g} s, by more than "
            f"delay_growth ({most:g} s); check the network and the driver"
        )

    @property
    def _most_unusable(self) -> int:
        """Number of unusable samples, less those made up for, that is a fault."""
        return max(self._parameters.bad_samples, 2)

    def _forgive(self) -> str:
        """Count a valid sample; return the reason if all samples are refused, or ""."""
        self._in_a_row = 0
        self._unusable = max(self._unusable - FORGIVING, 0.0)
        self.mixed = self.mixed and self._unusable > self._most_unusable - 1
        if self.mixed:
            self.refusal = "unusable joint states have arrived among valid joint states"
        else:
            self.refusal = ""
        self.good, self.lost = not self.mixed, self.mixed
        return self.refusal

    def _distrust(self, defect: str) -> str:
        self.good, self._follows, self.lost, self.refusal = False, False, True, defect
        return defect

    def _reject(self, refusal: str, now: float) -> str:
        most = self._most_unusable
        self._in_a_row += 1
        self._unusable = min(self._unusable + 1.0, most)
        self.mixed = self.mixed or self._unusable >= most > self._in_a_row
        if self.mixed:
            refusal = (
                f"{refusal}; such joint states arrive among valid joint states; check whether "
                "there is a second publisher"
            )
        self.refusal = refusal
        if self.mixed or self._in_a_row >= self._parameters.bad_samples or self.silent(now):
            self.good, self._follows, self.lost = False, False, True
        return refusal
