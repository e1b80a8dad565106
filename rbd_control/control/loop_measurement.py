"""Measurement of the control loop by small torques, while the controller holds the arm.

One joint after another gets a torque beside the torque of the law:

1. None for :data:`QUIET`, which shows the noise of the velocity.
2. Cycles of ``sin(w t) + 0.8 sin(3 w t)`` with w of :data:`FREQUENCY`. The amplitude grows from
   1 % of the effort limit, or less for a light joint, until the joint moves clearly: faster than
   :data:`SPEED` and than its noise, by several steps of its encoder. It is at most
   :data:`LARGEST` of the effort limit, and grows in steps that move the joint, without friction and
   with the inertia of the description, by 0.1 rad/s at most.
3. :data:`CYCLES` cycles with this amplitude, from which :mod:`~rbd_control.control.loop_fit`
   determines the delay, the inertia and the sign of the response.
4. A sweep over the frequencies of resonances.

The torque ends at once if a joint leaves :data:`LARGEST_MOTION` or :data:`LARGEST_SPEED`. A drive
that acts against its command is recognised from the first motion of its joint. A joint that does
not move under the largest torque is held by friction, or its drive is dead: if the efforts of
another joint follow the commands and its own effort does not, the drive is dead.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from math import isnan, nan, pi, sin
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.loop_fit import DelayFit, Fit, Record, resonance
from rbd_control.control.loop_result import JointResponse, LoopResult
from rbd_control.dynamics import Model, mass_matrix

Array = NDArray[np.float64]

FREQUENCY = 5.0
"""Lower frequency of the torque [Hz]; the other one is three times as high."""

SMALLEST, LARGEST = 0.01, 0.05
"""First and largest amplitude of the torque, as shares of the effort limit."""

SPEED = 0.05
"""Speed of the joint at which the amplitude stops growing [rad/s or m/s]."""

SLOWEST = 0.012
"""Least speed under the largest torque with which a delay is determined [rad/s or m/s]."""

LARGEST_SPEED, LARGEST_MOTION = 0.3, 0.01
"""Speed and motion of any joint that end the measurement [rad/s or m/s, rad or m]."""

STEP_SPEED = 0.1
"""Speed that a step of the amplitude adds to a joint without friction [rad/s or m/s]."""

RATE_SHARE = 0.3
"""Largest rate of the torque, as a share of ``torque_rate``."""

QUIET = 0.3
"""Time without torque before each joint [s]."""

CYCLES = 6
"""Number of cycles of the measurement."""

SWEEP, LOWEST, HIGHEST = 1.2, 10.0, 100.0
"""Duration of the sweep [s], and its ends [Hz]."""

HIGHEST_SHARE = 0.4
"""Highest frequency of the sweep as a share of the rate of the joint states."""

LOWEST_RATE = 50.0
"""Least rate of the joint states [Hz]: three samples per period of the higher frequency."""

DEAD = 0.3
"""Effort per torque below which a drive counts as dead, relative to the other joints."""

CLEAR = 0.5
"""Least share of the motion that the torque must explain for a verdict about its sign."""

class Sample(NamedTuple):
    """A joint state, and the command until then; see :meth:`LoopMeasurement.take`."""

    stamp: float
    q: Array
    v: Array
    impulse: Array
    effort: Array | None


class LoopMeasurement:
    """Measures the loop of one arm at rest, see the module.

    Args:
        model: the arm with its payload.
        effort: (nv,) effort limits [N·m or N].
        torque_rate: (nv,) rate limits of the torque [N·m/s or N/s].

    Attributes:
        result: the result; None until the measurement has ended.
        reversed_joint: index of the joint whose drive acts against its command, or None.
    """

    def __init__(self, model: Model, effort: Array, torque_rate: Array) -> None:
        self._model, self._effort, self._rate = model, effort, torque_rate
        self.result: LoopResult | None = None
        self.reversed_joint: int | None = None
        self._sample: Sample | None = None
        self._integral = np.zeros(model.nv)
        self._origin = np.zeros(model.nv)
        self._periods: list[float] = []
        self._joints: list[JointResponse] = []
        self._gains: list[float] = []
        """Gain of the effort of each joint; NaN if it is not determined."""
        self._joint = 0
        self._test: Generator[float, None, JointResponse] | None = None

    def take(self, stamp: float, q: Array, v: Array, sent: Array, effort: Array | None) -> Array:
        """Process a joint state; return the torque to add to the next command, (nv,) [N·m or N].

        Args:
            stamp: time of the joint state [s].
            q, v: measured, (nv,) each [rad or m, rad/s or m/s].
            sent: (nv,) command since the previous joint state [N·m or N].
            effort: (nv,) measured torque [N·m or N], or None.
        """
        torque = np.zeros(self._model.nv)
        before = self._sample
        if before is not None:
            dt = stamp - before.stamp
            if dt <= 0.0:
                return torque
            self._integral = self._integral + sent * dt
            self._periods.append(dt)
        else:
            self._origin = q
        self._sample = Sample(stamp, q, v, self._integral, effort)
        if self.result is not None:
            return torque
        moved = self._too_far(q, v)
        if moved:
            self._look_at_sign()
            self.end(moved)
            return torque
        if self._test is None:
            self._origin = q
            self._test = self._measure(self._joint)
        try:
            torque[self._joint] = next(self._test)
        except StopIteration as ended:
            self._joints.append(ended.value)
            self._joint, self._test = self._joint + 1, None
            if self.reversed_joint is not None:
                self.end(self._joints[-1].note)
            elif self._joint == self._model.nv:
                self.end("")
        return torque

    def end(self, reason: str) -> None:
        """End the measurement; joints that were not measured yet are missing in the result.

        Args:
            reason: why it ends early; empty if it is complete.
        """
        if self.result is None:
            period = float(np.median(self._periods)) if self._periods else nan
            self.result = LoopResult(tuple(self._with_dead_drives()), period, reason)

    # --- One joint -------------------------------------------------------------------------------

    def _measure(self, i: int) -> Generator[float, None, JointResponse]:
        """Yield the torque of a joint for each sample; return its response."""
        name = self._model.joint_names[i]
        self._records: list[Sample] = []
        M = mass_matrix(self._model, self._now.q)
        self._row = M[i]
        inertia = 1.0 / np.linalg.inv(M)[i, i]
        yield from self._apply(QUIET, lambda t: 0.0)
        period = float(np.median(self._periods))
        if period * LOWEST_RATE > 1.0:
            self._gains.append(nan)
            return JointResponse(
                name, note=f"joint states at {1.0 / period:.3g} Hz; needs {LOWEST_RATE:g} Hz"
            )
        quiet = np.array([each.v[i] for each in self._records])
        noise, before = float(np.std(np.diff(quiet))) / 2.0**0.5, self._records
        most = min(LARGEST * self._effort[i], RATE_SHARE * self._rate[i] / (6.0 * pi * FREQUENCY))
        step = STEP_SPEED * inertia * 2.0 * pi * FREQUENCY
        amplitude = min(SMALLEST * self._effort[i], step, most)
        while True:
            self._records = [before[-1]]
            yield from self._apply(1.0 / FREQUENCY, lambda t, A=amplitude: A * _wave(t))
            speed, resolution, is_clear = self._motion(i, noise)
            if is_clear:
                self._look_at_sign()
            if self.reversed_joint is not None:
                self._gains.append(nan)
                return JointResponse(name, note=_REVERSED.format(name))
            if (is_clear and speed >= SPEED) or amplitude == most:
                break
            before, largest = self._records, 2.0 * amplitude
            if speed > 0.2 * SPEED:
                largest = min(largest, 1.2 * amplitude * SPEED / speed)
            amplitude = min(max(largest, 1.05 * amplitude), amplitude + step, most)
        is_clear = is_clear and speed >= max(SLOWEST, 5.0 * noise)
        self._records = self._records[-1:]
        yield from self._apply(CYCLES / FREQUENCY, lambda t: amplitude * _wave(t))
        slow = max(3.0 * noise, resolution, 0.2 * speed)
        motion = DelayFit(self._record(i), slow) if is_clear else None
        felt = None if self._now.effort is None else DelayFit(self._efforts(i), None)
        fits = [each for each in (motion, felt) if each is not None]
        self._records = self._records[-1:]
        band = (LOWEST, min(HIGHEST, HIGHEST_SHARE / period))
        if is_clear:
            sweep = _sweep(amplitude, band, RATE_SHARE * self._rate[i])
            yield from self._apply(SWEEP, sweep, fits)
        yield from self._apply(QUIET, lambda t: 0.0, fits)
        while not all([fit.step() for fit in fits]):
            yield 0.0
        effort = Fit(nan, nan, nan, 0.0) if felt is None else felt.result()
        self._gains.append(effort.gain if effort.explained > CLEAR else 0.0)
        if felt is None or not np.ptp(self._efforts(i).p):
            self._gains[-1] = nan
        effort_delay = effort.delay if effort.explained > CLEAR else nan
        if motion is None:
            return JointResponse(name, effort_delay=effort_delay, note=STANDS)
        found = motion.result()
        if found.explained < CLEAR or isnan(found.delay):
            return JointResponse(name, effort_delay=effort_delay, note=UNCLEAR)
        if found.gain < 0.0:
            self.reversed_joint = i
            return JointResponse(name, note=_REVERSED.format(name))
        scale = float(np.linalg.norm(self._row)) * max(noise, resolution / 12.0**0.5)
        t, p, impulse, _, _ = self._record(i)
        peak = resonance(t, p, impulse, scale, band)
        response = JointResponse(
            name, found.delay, found.error, effort_delay, 1.0 / found.gain, peak or nan
        )
        return response if response.is_determined else JointResponse(name, note=UNCLEAR)

    def _apply(
        self, seconds: float, torque: Callable[[float], float], fits: list[DelayFit] | None = None
    ) -> Generator[float, None, None]:
        """Yield a torque over the time since now, and record the samples.

        Args:
            seconds: duration [s].
            torque: the torque over the time [N·m or N].
            fits: fits to continue in the meantime.
        """
        begin = self._now.stamp
        while self._now.stamp - begin < seconds:
            yield torque(self._now.stamp - begin)
            self._records.append(self._now)
            for _ in range(1 + int(1e3 * self._periods[-1])):
                for fit in fits or ():
                    fit.step()

    @property
    def _now(self) -> Sample:
        assert self._sample is not None
        return self._sample

    def _motion(self, i: int, noise: float) -> tuple[float, float, bool]:
        """Return largest speed and resolution of the velocity, and whether the motion is clear."""
        v = np.array([each.v[i] for each in self._records])
        q = np.array([each.q[i] for each in self._records])
        speed, resolution = float(np.abs(v - np.median(v)).max()), _least_step(v)
        is_clear = speed > 10.0 * max(noise, resolution / 12.0**0.5)
        return speed, resolution, is_clear and bool(np.ptp(q) > 4.0 * _least_step(q))

    def _record(self, i: int) -> Record:
        """Return the record of the momentum."""
        rows = self._records
        columns = [(s.stamp, self._row @ s.v, s.impulse[i], s.q[i], s.v[i]) for s in rows]
        return Record(*np.array(columns).T.copy())

    def _efforts(self, i: int) -> Record:
        """Return the record of the measured effort."""
        record = self._record(i)
        zero = np.zeros(len(record.v))
        efforts = np.array([zero if s.effort is None else s.effort for s in self._records])[:, i]
        means = 0.5 * (efforts[1:] + efforts[:-1])
        p = np.concatenate(([0.0], np.cumsum(means * np.diff(record.t))))
        return record._replace(p=p)

    def _look_at_sign(self) -> None:
        """Find out whether the joint under torque moves against it."""
        if self._test is None or len(self._records) < 8:
            return
        i = self._joint
        record = self._record(i)
        gain, explained = DelayFit(record, 0.1 * float(np.abs(record.v).max())).sign()
        if gain < 0.0 and explained > CLEAR:
            self.reversed_joint = i

    def _too_far(self, q: Array, v: Array) -> str:
        """Return a message if a joint leaves the bounds of the measurement, or an empty text."""
        motion, speed = np.abs(q - self._origin), np.abs(v)
        for i, name in enumerate(self._model.joint_names):
            if speed[i] > LARGEST_SPEED:
                return f"{name} moved at {speed[i]:.2g} rad/s or m/s; limit {LARGEST_SPEED:g}"
            if motion[i] > LARGEST_MOTION:
                return f"{name} moved by {motion[i]:.2g} rad or m; limit {LARGEST_MOTION:g}"
        return ""

    def _with_dead_drives(self) -> list[JointResponse]:
        """Return the responses, with a note for joints whose measured effort shows no torque.

        The efforts of other joints, whose unit may be wrong, show which gain is usual.
        """
        moving = [
            abs(gain)
            for gain, each in zip(self._gains, self._joints, strict=True)
            if each.is_determined and gain != 0.0 and not isnan(gain)
        ]
        least = DEAD * float(np.median(moving)) if moving else 0.0
        return [
            replace(each, note=DEAD_DRIVE) if each.note == STANDS and abs(gain) < least else each
            for gain, each in zip(self._gains, self._joints, strict=True)
        ]


STANDS = "not determined: it does not move; friction holds it, or its drive is dead"
"""Note for a joint that does not move under the largest torque."""

DEAD_DRIVE = "dead drive, or friction before its torque sensor: neither motion nor measured torque"
"""Note for a joint that does not move, and whose effort does not show the torque."""

UNCLEAR = "not determined: the motion does not follow the torque clearly"
"""Note for a joint whose delay has a large standard error."""

_REVERSED = "reversed drive: {} moves against its torque; check the wiring and the sign of the motor"


def _wave(t: float) -> float:
    """Return the torque of a cycle, for an amplitude of 1."""
    w = 2.0 * pi * FREQUENCY
    return (sin(w * t) + 0.8 * sin(3.0 * w * t)) / 1.35


def _sweep(
    amplitude: float, band: tuple[float, float], rate: float
) -> Callable[[float], float]:
    """Return a torque that sweeps through a band, over the time [s], within a rate limit."""
    low, high = 2.0 * pi * band[0], 2.0 * pi * band[1]

    def torque(t: float) -> float:
        w = low + (high - low) * t / SWEEP
        return min(amplitude, rate / w) * sin(low * t + 0.5 * (high - low) * t * t / SWEEP)

    return torque


def _least_step(x: Array) -> float:
    """Return the least difference of different successive values; 0 if all are equal."""
    steps = np.abs(np.diff(x))
    steps = steps[steps > 0.0]
    return float(steps.min()) if len(steps) else 0.0
