"""Simulated sensors of the arm."""

from __future__ import annotations

from math import exp, tau

import numpy as np
from numpy.typing import NDArray

from rbd_control.joint_states import JointSample
from rbd_control.simulation.simulation_parameters import SimulationParameters

Array = NDArray[np.float64]


class Sensors:
    """Simulated encoders, velocity measurement and torque sensors of an arm, with lost messages.

    Args:
        parameters: resolution of the encoders, noise, dropout and filter of the velocity.
        q: initial positions, (nv,) [rad or m].
        random: source of the noise and the dropouts.
    """

    def __init__(
        self, parameters: SimulationParameters, q: Array, random: np.random.Generator
    ) -> None:
        self._resolution = parameters.encoder_resolution
        self._differentiate = parameters.velocity_from_encoder
        self._rate = parameters.rate
        self._weight = 1.0 - exp(-tau * parameters.velocity_cutoff / parameters.rate)
        self._noise = parameters.effort_noise
        self._dropout = parameters.dropout
        self._random = random
        self._q = self._encoded(q)
        self._v = np.zeros_like(q)

    @property
    def position(self) -> Array:
        """Last measured positions, (nv,) [rad or m], also of a lost joint state."""
        return self._q.copy()

    def read(self, stamp: float, q: Array, v: Array, effort: Array) -> JointSample | None:
        """Measure one joint state; call it once per period.

        With ``velocity_from_encoder`` the velocity is the filtered difference of successive
        measured positions. The velocity filter and the random numbers advance also if the joint
        state is lost.

        Args:
            stamp: time of the joint state [s].
            q: true positions, (nv,) [rad or m].
            v: true velocities, (nv,) [rad/s or m/s]; measured only if ``velocity_from_encoder`` is
                false.
            effort: true torques of the motors, (nv,) [N·m or N], measured with noise.

        Returns:
            The joint state with measured positions, velocities and efforts; None if it is lost.
        """
        measured = self._encoded(q)
        self._v = self._v + self._weight * ((measured - self._q) * self._rate - self._v)
        self._q = measured
        noisy = effort + self._noise * self._random.standard_normal(effort.shape)
        if self._random.random() < self._dropout:
            return None
        velocity = self._v if self._differentiate else v
        return JointSample(stamp, measured.copy(), velocity.copy(), noisy)

    def _encoded(self, q: Array) -> Array:
        if self._resolution == 0.0:
            return q.copy()
        return np.rint(q / self._resolution) * self._resolution
