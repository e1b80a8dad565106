"""What a driver may do to the samples of an arm, as functions for the rows of the table.

Each function returns a function of the setup, its samples and a random generator that returns other
samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.signal import lfilter

from bench.conditions.setups import Samples, Setup
from bench.contacts.plant import PERIOD
from rbd_control.dynamics import gravity_torque

Driver = Callable[[Setup, Samples, np.random.Generator], Samples]

AMPERES = 10.0
"""Torque per current of the row in which a driver of torques publishes currents [N·m/A]."""
SMOOTHING = 0.4
"""Weight of the newest sample in the filter of the velocities of motor encoders."""


def rate(hertz: float) -> Driver:
    """Publish only some of the samples; the nearest whole number of periods apart."""
    step = round(1.0 / (hertz * PERIOD))
    return lambda setup, samples, rng: samples.only(slice(None, None, step))


def late(field: str, seconds: float) -> Driver:
    """Publish one field, ``v`` or ``tau``, late."""
    count = round(seconds / PERIOD)

    def driver(setup: Setup, samples: Samples, rng: np.random.Generator) -> Samples:
        values = getattr(samples, field)
        shifted = np.concatenate([np.repeat(values[:1], count, axis=0), values[:-count]])
        return replace(samples, **{field: shifted})

    return driver


def noisy(factor: float) -> Driver:
    """Multiply the noise of the efforts."""

    def driver(setup: Setup, samples: Samples, rng: np.random.Generator) -> Samples:
        more = np.sqrt(factor**2 - 1.0) * setup.noise * rng.standard_normal(samples.tau.shape)
        return replace(samples, tau=samples.tau + setup.effort(more))

    return driver


def coarse_effort(step: float) -> Driver:
    """Round the efforts to multiples of a torque [N·m]."""

    def driver(setup: Setup, samples: Samples, rng: np.random.Generator) -> Samples:
        unit = setup.effort(np.full(samples.tau.shape[1], step))
        return replace(samples, tau=unit * np.round(samples.tau / unit))

    return driver


def coarse_position(step: float) -> Driver:
    """Round the positions to multiples of an angle [rad]; the velocities are unchanged."""
    return lambda setup, samples, rng: replace(samples, q=step * np.round(samples.q / step))


def lossy(share: float) -> Driver:
    """Lose a share of the messages, each by chance."""
    return lambda setup, samples, rng: samples.only(rng.random(samples.t.size) >= share)


def bursts(every: float, shortest: float, longest: float) -> Driver:
    """Lose all messages of a random time, every so many seconds on average [s]."""

    def driver(setup: Setup, samples: Samples, rng: np.random.Generator) -> Samples:
        kept = np.ones(samples.t.size, dtype=bool)
        start = samples.t[0]
        while True:
            start += rng.exponential(every)
            if start > samples.t[-1]:
                return samples.only(kept)
            end = start + rng.uniform(shortest, longest)
            kept[(samples.t >= start) & (samples.t < end)] = False
            start = end

    return driver


def jitter(seconds: float) -> Driver:
    """Stamp each message by up to this time too early or too late; the order is kept [s]."""

    def driver(setup: Setup, samples: Samples, rng: np.random.Generator) -> Samples:
        stamps = np.sort(samples.t + rng.uniform(-seconds, seconds, samples.t.size))
        return replace(samples, t=np.maximum(stamps, 1e-6 * np.arange(1, stamps.size + 1)))

    return driver


def nan(share: float) -> Driver:
    """Publish NaN as the effort of one joint in a share of the messages."""

    def driver(setup: Setup, samples: Samples, rng: np.random.Generator) -> Samples:
        tau = samples.tau.copy()
        rows = np.flatnonzero(rng.random(len(tau)) < share)
        tau[rows, rng.integers(tau.shape[1], size=rows.size)] = np.nan
        return replace(samples, tau=tau)

    return driver


def swapped() -> Driver:
    """Exchange the efforts of the two loaded joints."""

    def driver(setup: Setup, samples: Samples, rng: np.random.Generator) -> Samples:
        tau = samples.tau.copy()
        tau[:, list(setup.loaded)] = samples.tau[:, list(setup.loaded[::-1])]
        return replace(samples, tau=tau)

    return driver


def reversed_effort() -> Driver:
    """Reverse the sign of the effort of the second loaded joint."""

    def driver(setup: Setup, samples: Samples, rng: np.random.Generator) -> Samples:
        sign = np.ones(samples.tau.shape[1])
        sign[setup.loaded[1]] = -1.0
        return replace(samples, tau=sign * samples.tau)

    return driver


def without_gravity() -> Driver:
    """Subtract the gravity torque of the described arm from the efforts."""

    def driver(setup: Setup, samples: Samples, rng: np.random.Generator) -> Samples:
        weight = setup.effort(gravity_torque(setup.arm.model, samples.q))
        return replace(samples, tau=samples.tau - weight)

    return driver


def amperes() -> Driver:
    """Publish currents; an arm that publishes currents anyway is unchanged."""

    def driver(setup: Setup, samples: Samples, rng: np.random.Generator) -> Samples:
        return samples if setup.gains is not None else replace(samples, tau=samples.tau / AMPERES)

    return driver


def motor_side() -> Driver:
    """Measure positions and velocities at the motors of elastic joints.

    The spring of a joint turns by its torque over its stiffness, so that the motor is at
    ``q + tau / K``. This is exact for a joint that delivers the wanted torque at its spring; the
    resonance of the motor is left out. The samples must be without noise of the effort, which is
    added here.
    """

    def driver(setup: Setup, samples: Samples, rng: np.random.Generator) -> Samples:
        tau = samples.tau if setup.gains is None else samples.tau * setup.gains
        turn = tau / setup.stiffness
        speed = np.diff(turn, axis=0, prepend=turn[:1]) / PERIOD
        v = samples.v + lfilter([SMOOTHING], [1.0, SMOOTHING - 1.0], speed, axis=0)
        noise = setup.noise * rng.standard_normal(tau.shape)
        return Samples(samples.t, samples.q + turn, v, setup.effort(tau + noise))

    return driver
