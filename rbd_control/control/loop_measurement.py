"""Measurement of the control loop by small torques, while the controller holds the arm.

One joint after another gets a torque beside the torque of the law:

1. None for :data:`QUIET`, which shows the noise of the velocity.
2. ``sin(w t) + 2 sin(3 w t)`` with w of :data:`FREQUENCY`. The amplitude grows from 1 % of the
   effort limit, or less for a light joint, until the joint moves clearly: faster than :data:`SPEED`
   for most of the time, and than its noise, by several steps of its encoder. The largest amplitude
   is :data:`LARGEST` of the effort limit. In a cycle it grows by what moves the joint, without
   friction and with the inertia of the description, at :data:`STEP_SPEED`, or by the 25th part of
   the largest amplitude.
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
from math import exp, isnan, nan, pi, sin
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.configuration import Setup
from rbd_control.control.controller_parameters import DriveParameters, commanded
from rbd_control.control.detector_verdict import DetectorVerdict
from rbd_control.control.drive_response import DriveFault
from rbd_control.control.loop_fit import (
    DelayFit,
    Fit,
    JointResponse,
    LoopResult,
    Record,
    momentum,
    resonance,
)
from rbd_control.control.modes import Modes
from rbd_control.control.motion import DesiredMotion
from rbd_control.control.safe_torque import STILL
from rbd_control.control.samples import SampleJudge
from rbd_control.dynamics import Model, mass_matrix
from rbd_control.errors import InputError

Array = NDArray[np.float64]

FREQUENCY = 5.0
"""Lower frequency of the torque [Hz]; the other one is three times as high."""

FEWEST = 8
"""Least number of samples that are examined; a joint at rest may repeat its joint states."""

SMALLEST, LARGEST = 0.01, 0.05
"""First and largest amplitude of the torque, as shares of the effort limit."""

SPEED = 0.05
"""Speed of the joint at which the amplitude stops growing [rad/s or m/s]."""

SLIDING = 0.6
"""Share of the time in which the joint must be faster than 20 % of its largest speed."""

SLIPPING = 0.2
"""Share of such a time below which the sign of a response is not examined."""

SLOWEST = 0.012
"""Least speed under the largest torque with which a delay is determined [rad/s or m/s]."""

LARGEST_SPEED, LARGEST_MOTION = 0.3, 0.01
"""Speed and motion of any joint that end the measurement [rad/s or m/s, rad or m]."""

FAST, SHRINKING = 0.2, 0.02
"""Speed above which the amplitude decreases [rad/s or m/s], and its time constant [s]."""

FAST_CYCLES = 3
"""Cycles with a fast joint after which the amplitude is final, though friction stops the joint."""

LONGEST_GROWTH = 25
"""Largest number of cycles in which the amplitude grows from zero to its largest value."""

STEP_SPEED = 0.15
"""Speed that a step of the amplitude adds to a joint without friction [rad/s or m/s]."""

RATE_SHARE = 0.3
"""Largest rate of the torque, as a share of ``torque_rate``."""

QUIET = 0.3
"""Time without torque before each joint [s]."""

CYCLES = 6
"""Number of cycles of the measurement."""

SWEEP, LOWEST, HIGHEST = 1.2, 10.0, 100.0
"""Duration of the sweep [s], and its ends [Hz]."""

FULL = 30.0
"""Frequency of the sweep from which it has its full amplitude [Hz]."""

HIGHEST_SHARE = 0.4
"""Highest frequency of the sweep as a share of the rate of the joint states."""

LOWEST_RATE = 50.0
"""Least rate of the joint states [Hz]: three samples per period of the higher frequency."""

SAME = 0.9
"""Least share of an effort that the command must explain for the delay between them."""

DEAD = 0.3
"""Effort per torque below which a drive counts as dead, relative to the other joints."""

CLEAR = 0.5
"""Least share of the motion that the torque must explain for a verdict about its sign."""


class Sample(NamedTuple):
    """A joint state, and the command until then; see :meth:`LoopMeasurement.take`."""

    stamp: float
    q: Array
    v: Array
    p: Array
    """Momentum plus the integral of ``bias``, whose derivative is the torque that acts."""
    bias: Array
    """g - Cᵀ v, with the gravity torque that the commands contain."""
    impulse: Array
    """Integral of the command."""
    effort: Array | None


class Growth(NamedTuple):
    """Growth of the amplitude of the torque.

    Attributes:
        step: most in a cycle [N·m or N].
        most: largest amplitude [N·m or N].
        speed: speed of the joint at which the growth ends [rad/s or m/s].
    """

    step: float
    most: float
    speed: float


class JointMotion(NamedTuple):
    """DesiredMotion of a joint under torque.

    Attributes:
        speed: largest speed [rad/s or m/s].
        resolution: resolution of the velocity [rad/s or m/s].
        is_clear: whether a delay can be determined from it.
        is_usual: whether the joint is as fast as intended, and stands for short times only.
    """

    speed: float
    resolution: float
    is_clear: bool
    is_usual: bool


class LoopMeasurement:
    """Measures the loop of one arm at rest, see the module.

    Args:
        model: the arm with its payload.
        effort: (nv,) effort limits [N·m or N].
        torque_rate: (nv,) rate limits of the torque [N·m/s or N/s].
        drives: the gravity that the arm compensates by itself, which no command contains.

    Attributes:
        result: the result; None until the measurement has ended.
        reversed_joint: index of the joint whose drive acts against its command, or None.
    """

    def __init__(
        self, model: Model, effort: Array, torque_rate: Array, drives: DriveParameters
    ) -> None:
        self._model, self._effort, self._rate = model, effort, torque_rate
        self._commanded = commanded(drives, model).packed
        self.result: LoopResult | None = None
        self.reversed_joint: int | None = None
        self._sample: Sample | None = None
        self._impulse, self._own = np.zeros(model.nv), np.zeros(model.nv)
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
            self._impulse = self._impulse + sent * dt
            self._own = self._own + before.bias * dt
            self._periods.append(dt)
        else:
            self._origin = q
        p, bias = momentum(self._commanded, q, v)
        self._sample = Sample(stamp, q, v, p + self._own, bias, self._impulse, effort)
        if self.result is not None:
            return torque
        moved = self._too_far(q, v)
        if moved:
            self._look_at_sign(1, SLOWEST)
            self.end(moved if self.reversed_joint is None else REVERSED.format(self._name()))
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
        M = mass_matrix(self._model, self._now.q)
        self._amplitude, self._opposite = 0.0, 0
        self._records: list[Sample] = []
        self._gains.append(nan)
        yield from self._apply(QUIET, _none)
        period = float(np.median(self._periods))
        if period * LOWEST_RATE > 1.0:
            slow = f"joint states at {1.0 / period:.3g} Hz; {LOWEST_RATE:g} Hz are needed"
            return JointResponse(name, note=f"not determined: {slow}")
        steps = np.diff([each.v[i] for each in self._records], append=0.0)[:-1]
        noise = float(np.sqrt(0.5 * np.mean(np.square(steps)))) if len(steps) else 0.0
        begin = self._now.stamp
        yield from self._grow(i, begin, float(1.0 / np.linalg.inv(M)[i, i]), noise)
        self._records = self._records[-1:]
        if self.reversed_joint is None:
            yield from self._cycles(i, CYCLES, begin, None)
            self._look_at_sign(1)
        if self.reversed_joint is not None:
            return JointResponse(name, note=REVERSED.format(name))
        moved = self._motion(i, noise)
        slow_speed = max(3.0 * noise, moved.resolution, 0.2 * moved.speed)
        record = self._record(i)
        is_clear = moved.is_clear and len(record.t) >= FEWEST
        motion = DelayFit(record, slow_speed) if is_clear else None
        is_felt = self._now.effort is not None and len(self._records) >= FEWEST
        felt = DelayFit(self._efforts(i), None) if is_felt else None
        fits = [each for each in (motion, felt) if each is not None]
        self._records = self._records[-1:]
        band = (LOWEST, min(HIGHEST, HIGHEST_SHARE / period))
        if motion is not None:
            sweep = _sweep(band, RATE_SHARE * self._rate[i] / self._amplitude)
            yield from self._apply(SWEEP, sweep, fits)
        yield from self._apply(QUIET, _none, fits)
        for fit in fits:
            while not fit.step():
                yield 0.0
        response = JointResponse(name, note=STANDS)
        if motion is not None:
            noise_of_p = float(np.linalg.norm(M[i]))
            noise_of_p *= max(noise, moved.resolution / 12.0**0.5)
            found, (t, p, impulse, _, _) = motion.result(), self._record(i)
            response = _response(name, found, resonance(t, p, impulse, noise_of_p, band))
        if felt is None or not felt.has_response:
            return response
        effort = felt.result()
        is_same = effort.explained > SAME
        self._gains[-1] = effort.gain if is_same else 0.0
        return replace(response, effort_delay=effort.delay if is_same else nan)

    def _grow(
        self, i: int, begin: float, inertia: float, noise: float
    ) -> Generator[float, None, None]:
        """Yield cycles of growing torque until the joint moves as intended.

        Args:
            i: the joint.
            begin: stamp of the first cycle [s].
            inertia: inertia of the joint while the others are free [kg·m² or kg].
            noise: standard deviation of its velocity [rad/s or m/s].
        """
        most = min(LARGEST * self._effort[i], RATE_SHARE * self._rate[i] / _RATE)
        step = max(STEP_SPEED * inertia / _SPEED, most / LONGEST_GROWTH)
        self._amplitude = min(SMALLEST * self._effort[i], 0.25 * step, most)
        growth = Growth(step, most, max(SPEED, 20.0 * noise))
        fast_cycles, is_usual = 0, False
        while self._amplitude < most and not is_usual and fast_cycles < FAST_CYCLES:
            since = self._now.stamp - 1.0 / FREQUENCY
            self._records = [each for each in self._records if each.stamp > since]
            yield from self._cycles(i, 1, begin, growth)
            moved = self._motion(i, noise)
            is_usual = moved.is_usual
            fast_cycles += moved.speed > growth.speed
            self._look_at_sign(2, 0.5 * SPEED)
            if self.reversed_joint is not None:
                return

    def _cycles(
        self, i: int, count: int, begin: float, growth: Growth | None
    ) -> Generator[float, None, None]:
        """Yield cycles of the torque, the first of which began at ``begin`` [s].

        The amplitude doubles at most in a cycle, and does not grow any more once the joint is fast
        enough. Its growth is continuous: the torque then adds no mean velocity.

        Args:
            i: the joint.
            count: number of cycles.
            begin: stamp of the first cycle of the joint [s].
            growth: how the amplitude grows; None: not.
        """
        first = last = self._now.stamp
        while last - first < count / FREQUENCY:
            yield self._amplitude * _wave(last - begin)
            self._note()
            dt, last = self._now.stamp - last, self._now.stamp
            if growth is not None and abs(self._now.v[i]) > growth.speed:
                growth = None
            if growth is not None:
                step = min(self._amplitude, growth.step) * dt * FREQUENCY
                self._amplitude = min(self._amplitude + step, growth.most)
            self._shrink(i, dt)

    def _shrink(self, i: int, dt: float) -> None:
        """Reduce the amplitude while the joint is fast, as after a release of static friction."""
        if abs(self._now.v[i]) > FAST:
            self._amplitude *= exp(-dt / SHRINKING)

    def _note(self) -> None:
        """Record the last sample, unless it repeats the one before."""
        now = self._now
        if self._records:
            last = self._records[-1]
            is_silent = now.effort is None or last.effort is None
            same = is_silent or np.array_equal(now.effort, last.effort)  # type: ignore[arg-type]
            if same and np.array_equal(now.v, last.v):
                return
        self._records.append(now)

    def _apply(
        self, seconds: float, torque: Callable[[float], float], fits: list[DelayFit] | None = None
    ) -> Generator[float, None, None]:
        """Yield a torque over the time since now, and record the samples.

        Args:
            seconds: duration [s].
            torque: the torque over the time, for an amplitude of 1.
            fits: fits to continue in the meantime.
        """
        begin = self._now.stamp
        while self._now.stamp - begin < seconds:
            yield self._amplitude * torque(self._now.stamp - begin)
            self._note()
            self._shrink(self._joint, self._periods[-1])
            for _ in range(1 + int(1e3 * self._periods[-1])):
                for fit in fits or ():
                    fit.step()

    @property
    def _now(self) -> Sample:
        assert self._sample is not None
        return self._sample

    def _motion(self, i: int, noise: float) -> JointMotion:
        """Return how a joint moved in the record."""
        v = np.array([each.v[i] for each in self._records])
        q = np.array([each.q[i] for each in self._records])
        v = v - np.median(v)
        speed, resolution = float(np.abs(v).max()), _least_step(v)
        is_clear = speed > max(SLOWEST, 10.0 * max(noise, resolution / 12.0**0.5))
        is_clear = is_clear and bool(np.ptp(q) > 4.0 * _least_step(q))
        slides = float(np.mean(np.abs(v) > 0.2 * speed)) > SLIDING
        is_usual = is_clear and slides and speed > SPEED
        return JointMotion(speed, resolution, is_clear, is_usual)

    def _record(self, i: int) -> Record:
        """Return the record of the momentum, without samples that repeat the velocities."""
        rows = [
            now
            for before, now in zip([None, *self._records[:-1]], self._records, strict=True)
            if before is None or not np.array_equal(before.v, now.v)
        ]
        columns = [(s.stamp, s.p[i], s.impulse[i], s.q[i], s.v[i]) for s in rows]
        return Record(*np.array(columns).T.copy())

    def _efforts(self, i: int) -> Record:
        """Return the record of the measured effort."""
        columns = [
            (s.stamp, s.impulse[i], s.effort[i], s.q[i], s.v[i])
            for s in self._records
            if s.effort is not None
        ]
        t, impulse, efforts, q, v = np.array(columns).T.copy()
        means = 0.5 * (efforts[1:] + efforts[:-1])
        p = np.concatenate(([0.0], np.cumsum(means * np.diff(t))))
        return Record(t, p, impulse, q, v)

    def _name(self) -> str:
        """Return the name of the joint under torque."""
        return self._model.joint_names[self._joint]

    def _look_at_sign(self, times: int, slowest: float = SPEED) -> None:
        """Find out whether the joint under torque moves against it.

        Args:
            times: number of successive records that must show it.
            slowest: least speed of the joint [rad/s or m/s].
        """
        record = None if self._test is None or not self._records else self._record(self._joint)
        if record is None or len(record.t) < FEWEST:
            return
        fastest = float(np.abs(record.v).max())
        # Short slips between times at rest fit either sign.
        slides = float(np.mean(np.abs(record.v) > 0.2 * fastest)) > SLIPPING
        is_fast = fastest > slowest and slides
        is_seen = is_fast and DelayFit(record, 0.1 * fastest).is_reversed()
        self._opposite = self._opposite + 1 if is_seen else 0
        if self._opposite >= times:
            self.reversed_joint = self._joint

    def _too_far(self, q: Array, v: Array) -> str:
        """Return a message if a joint leaves the bounds of the measurement, or an empty text."""
        motion, speed = np.abs(q - self._origin), np.abs(v)
        for i, name in enumerate(self._model.joint_names):
            unit = self._model.position_unit(i)
            if speed[i] > LARGEST_SPEED:
                return f"{name} moved at {speed[i]:.3g} {unit}/s; limit {LARGEST_SPEED:g} {unit}/s"
            if motion[i] > LARGEST_MOTION:
                return f"{name} moved by {motion[i]:.3g} {unit}; limit {LARGEST_MOTION:g} {unit}"
        return ""

    def _with_dead_drives(self) -> list[JointResponse]:
        """Return the responses, with a note for joints whose measured effort shows no torque.

        The efforts of other joints, whose unit may be wrong, show which gain is usual.
        """
        moving = [
            abs(gain)
            for each, gain in zip(self._joints, self._gains, strict=False)
            if each.is_determined and gain != 0.0 and not isnan(gain)
        ]
        least = DEAD * float(np.median(moving)) if moving else 0.0
        return [
            replace(each, note=DEAD_DRIVE) if each.note == STANDS and abs(gain) < least else each
            for each, gain in zip(self._joints, self._gains, strict=False)
        ]


STANDS = "not determined: it does not move; friction holds it, or its drive is dead"
"""Note for a joint that does not move under the largest torque."""

DEAD_DRIVE = "dead drive, or friction before its torque sensor: neither motion nor measured torque"
"""Note for a joint that does not move, and whose effort does not show the torque."""

UNCLEAR = "not determined: the motion does not follow the torque clearly"
"""Note for a joint whose delay has a large standard error."""

REVERSED = "reversed drive: {} moves against its torque; check wiring and sign of the motor"
"""Note for a joint whose drive acts against its command."""


def _response(name: str, fit: Fit, peak: float) -> JointResponse:
    """Return the response of a joint from the fit of its motion, and its resonance or 0 [Hz]."""
    found = JointResponse(name, fit.delay, fit.error, nan, 1.0 / (fit.gain or nan), peak or nan)
    is_clear = fit.explained > CLEAR and found.is_determined
    return found if is_clear else JointResponse(name, note=UNCLEAR)


def _none(_: float) -> float:
    return 0.0


def _wave(t: float) -> float:
    """Return the torque for an amplitude of 1 at a time [s]."""
    w = 2.0 * pi * FREQUENCY
    return (sin(w * t) + 2.0 * sin(3.0 * w * t)) / 2.53


_SPEED = 0.66 / (2.0 * pi * FREQUENCY)
"""Largest speed per amplitude that :func:`_wave` gives to an inertia of 1 kg·m² [s]."""

_RATE = 2.8 * 2.0 * pi * FREQUENCY
"""Largest rate per amplitude of :func:`_wave` [1/s]."""


def _sweep(band: tuple[float, float], rate: float) -> Callable[[float], float]:
    """Return a torque that sweeps through a band, for an amplitude of 1.

    Args:
        band: ends of the band [Hz].
        rate: largest rate of the torque [1/s].
    """
    low, high = 2.0 * pi * band[0], 2.0 * pi * band[1]

    def torque(t: float) -> float:
        w = low + (high - low) * t / SWEEP
        return min(1.0, w / (2.0 * pi * FULL), rate / w) * sin(
            low * t + 0.5 * (high - low) * t * t / SWEEP
        )

    return torque


def _least_step(x: Array) -> float:
    """Return the least difference of different successive values; 0 if all are equal."""
    steps = np.abs(np.diff(x))
    steps = steps[steps > 0.0]
    return float(steps.min()) if len(steps) else 0.0


class LoopOrder:
    """Measures the loop of one arm on request, while the arm is held.

    Args:
        setup, samples, motion, modes, verdict: parts of the controller that the order reads.

    Attributes:
        result: the last result; None before the first measurement has ended.
    """

    def __init__(
        self,
        setup: Setup,
        samples: SampleJudge,
        motion: DesiredMotion,
        modes: Modes,
        verdict: DetectorVerdict,
    ) -> None:
        self._setup, self._samples, self._motion = setup, samples, motion
        self._modes, self._verdict = modes, verdict
        self._running: LoopMeasurement | None = None
        self.result: LoopResult | None = None

    def reconfigure(self) -> None:
        """End a measurement, because the configuration has changed."""
        self._end("the parameters changed")

    @property
    def is_running(self) -> bool:
        """Whether a measurement is in progress."""
        return self._running is not None

    def begin(self) -> None:
        """Begin a measurement.

        Raises:
            InputError: with the reason, unless the arm is held at rest without contact, and no
                measurement is in progress.
        """
        if self._running is not None:
            raise InputError("cannot measure the loop: a measurement is in progress")
        obstacle = self._obstacle()
        if not obstacle and not float(np.abs(self._samples.v).max()) < STILL:
            obstacle = "the arm moves; wait until it stands"
        if obstacle:
            raise InputError(f"cannot measure the loop: {obstacle}")
        now = self._setup.now
        self._running = LoopMeasurement(
            now.model, now.limits.effort, now.limits.torque_rate, now.parameters
        )

    def torque(self, sent: Array, effort: Array | None) -> tuple[Array | None, DriveFault | None]:
        """Process the last sample.

        Args:
            sent: (nv,) command until this sample [N·m or N].
            effort: (nv,) measured torque [N·m or N], or None.

        Returns:
            The torque to add to the torque of the law, (nv,) [N·m or N], or None; and a drive that
            acts against its command, or None.
        """
        self.check()
        running, samples = self._running, self._samples
        if running is None:
            return None, None
        torque = running.take(samples.stamp, samples.q, samples.v, sent, effort)
        if running.result is None:
            return torque, None
        self._end("")
        if running.reversed_joint is None:
            return None, None
        return None, DriveFault((running.reversed_joint,), running.result.ended)

    def check(self) -> None:
        """End a measurement that the mode or a contact does not permit any more."""
        if self._running is not None:
            obstacle = self._obstacle()
            if obstacle:
                self._end(obstacle)

    def _end(self, reason: str) -> None:
        """Store the result of a measurement that is in progress."""
        running, self._running = self._running, None
        if running is not None:
            running.end(reason)
            self.result = running.result

    def _obstacle(self) -> str:
        """Return why a measurement is not possible now, or an empty text."""
        if self._modes.mode == "safe":
            return f"the mode is safe ({self._modes.reason})"
        if self._modes.mode != "hold" or self._motion.moving:
            return "the arm is not held at a point; call ~/hold first"
        if self._verdict.contact(self._samples.now):
            return "the contact detector reports contact"
        return ""
