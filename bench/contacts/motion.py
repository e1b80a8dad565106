"""Exciting motion: sums of sines with random amplitudes, frequencies and phases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rbd_control.dynamics import Model

HARMONICS = 5
FREQUENCIES = (0.05, 0.5)
"""Range of the frequencies [Hz], drawn evenly in the logarithm; the motion is not periodic."""
SPEED = 0.25
"""Mean velocity amplitude of the sines [rad/s]; at most a fifth of the velocity limit."""
REACH = 0.7
"""Largest distance of a joint from the centre [rad]; at most 90 % of the way to its limit."""


@dataclass(frozen=True, eq=False)
class Reference:
    """Desired positions, velocities and accelerations at k times, (k, nv) each.

    The units are rad, rad/s and rad/s².
    """

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray


class Motion:
    """An endless random motion, in which each joint follows a sum of five sines.

    Args:
        model: the arm, whose limits of position and velocity bound the motion.
        centre: centre of the motion, (nv,) [rad].
        rng: source of amplitudes, frequencies and phases.
        speed: mean velocity amplitude of the sines [rad/s].
        frequencies: range of the frequencies [Hz].
    """

    def __init__(
        self,
        model: Model,
        centre: np.ndarray,
        rng: np.random.Generator,
        speed: float = SPEED,
        frequencies: tuple[float, float] = FREQUENCIES,
    ) -> None:
        n = model.nv
        low, high = np.log(frequencies)
        self._omega = 2.0 * np.pi * np.exp(rng.uniform(low, high, (HARMONICS, n)))
        self._phase = rng.uniform(0.0, 2.0 * np.pi, (HARMONICS, n))
        fastest = np.minimum(speed, 0.2 * model.velocity_limit)
        amplitude = rng.uniform(0.5, 1.5, (HARMONICS, n)) * fastest / self._omega
        room = np.minimum(model.upper_limit - centre, centre - model.lower_limit)
        reach = np.minimum(0.9 * room, REACH)
        # Slow sines have the largest amplitudes; each is limited to half of the reach.
        amplitude = np.minimum(amplitude, reach / 2.0)
        self._amplitude = amplitude * np.minimum(1.0, reach / amplitude.sum(axis=0))
        self._centre = centre

    def at(self, t: np.ndarray) -> Reference:
        """Return the desired motion at times ``t``, (k,) [s]."""
        angle = self._omega * t[:, None, None] + self._phase
        sine, cosine = np.sin(angle), np.cos(angle)
        q = self._centre + (self._amplitude * sine).sum(axis=1)
        v = (self._amplitude * self._omega * cosine).sum(axis=1)
        a = -(self._amplitude * self._omega**2 * sine).sum(axis=1)
        return Reference(q, v, a)
