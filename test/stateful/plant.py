"""The arm of an example as it really is: payload, friction, mechanical stops and encoders."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import gravity_torque
from rbd_control.simulation.plant import Surroundings, Truth, advance
from stateful.setup import Setup

Array = NDArray[np.float64]

STOPS_BEYOND = 0.4
"""Distance of the mechanical stops from the described position limits [rad or m]."""


class Plant:
    """Moves an arm under the torque of its motors, and measures it.

    Args:
        setup: the arm, its friction and payload, and the errors of its encoders.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup, self._arm = setup, setup.arm
        model, n = setup.arm.model, setup.arm.model.nv
        self.described = model
        """Model with the announced payload; an arm that compensates gravity uses its weight."""
        self.attach(setup.payload)
        coulomb, viscous = setup.friction
        self._around = Surroundings(
            np.full(n, coulomb),
            np.full(n, viscous),
            0.01,
            model.lower_limit - STOPS_BEYOND,
            model.upper_limit + STOPS_BEYOND,
            np.zeros(0, dtype=np.int64),
            np.zeros((0, 3)),
            0.0,
            np.zeros((0, 10)),
            np.zeros(0, dtype=np.int64),
            np.zeros((0, 3)),
            np.zeros((0, 6)),
        )
        self._truth = Truth(np.zeros(n), np.zeros(n), np.zeros((n, 3)), np.zeros((n, 3)))
        self._substeps = max(round(setup.period / 0.001), 1)
        self._random = np.random.default_rng(0)
        # Before the start, brakes or another controller hold the arm.
        start = np.array(setup.start or setup.arm.home)
        held = np.zeros(n) if setup.compensated else gravity_torque(model, start)
        self._on_the_way = deque([held] * round(setup.delay / setup.period))

    def attach(self, mass: float) -> None:
        """Let the arm carry a payload from now on [kg]."""
        self.payload = mass
        self._true_model = self._arm.loaded(mass)

    def measure(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Return position and velocity with the errors of the encoders, (n,) each."""
        q, v = q.copy(), v.copy()
        for x, noise, step in zip((q, v), self._setup.noise, self._setup.resolution, strict=True):
            if noise:
                x += self._random.normal(scale=noise, size=x.size)
            if step:
                np.round(x / step, out=x)
                x *= step
        if self._setup.wraps:
            turns = self._arm.continuous
            q[turns] = (q[turns] + np.pi) % (2.0 * np.pi) - np.pi
        return q, v

    def is_at_a_stop(self, q: Array) -> bool:
        """Return whether a mechanical stop pushes a joint back at ``q``, (n,) [rad or m]."""
        beyond = (q < self._around.lower) | (q > self._around.upper)
        return bool(beyond.any())

    def move(self, q: Array, v: Array, command: Array, push: Array) -> Array:
        """Advance ``q`` and ``v`` by one period, in place; return the torque of the motors.

        Args:
            q, v: position and velocity, (n,) each [rad or m, rad/s or m/s].
            command: (n,) torque that the controller sends [N·m or N].
            push: (n,) torque of contacts [N·m or N].
        """
        self._on_the_way.append(command)
        motors = self._on_the_way.popleft()
        if self._setup.compensated:
            motors = motors + gravity_torque(self.described, q)
        motors = np.minimum(np.maximum(motors, -self._arm.strength), self._arm.strength)
        advance(
            self._true_model.packed,
            q,
            v,
            motors + push,
            self._around,
            self._setup.period / self._substeps,
            self._substeps,
            self._truth,
        )
        return motors
