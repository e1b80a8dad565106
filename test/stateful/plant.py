"""The arm of an example as it really is: payload, friction, gears, mechanical stops, encoders."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import gravity_torque, mass_matrix
from rbd_control.robot.friction import CoulombViscousFriction
from rbd_control.simulation.plant import Surroundings, Truth, advance
from stateful.setup import Setup

Array = NDArray[np.float64]

STOPS_BEYOND = 0.4
"""Distance of the mechanical stops from the described position limits [rad or m]."""


ELASTIC_STEP = 0.000_25
"""Longest step of an arm with elastic gears, whose highest resonance is about 200 Hz [s]."""

LIGHTEST_ROTOR = 0.05
"""Least inertia of the rotor of a revolute joint; ten times this mass otherwise [kg·m²]."""

LEAST_ROTOR_SHARE = 0.1
"""Least inertia of a rotor as a share of the largest inertia of its joint. With lighter rotors and
encoders on the motors the drawn gains have too little margin (``test/test_loop.py``)."""

SPRING_DAMPING = 0.02
"""Damping ratio of the springs of elastic gears between a rotor and a link at rest."""


class Gears:
    """Elastic gears of an arm: the state of its links, and the springs that drive them.

    Args:
        setup: the arm, with ``elastic``.
        q: (n,) position of the links at rest [rad or m].
    """

    def __init__(self, setup: Setup, q: Array) -> None:
        elastic, arm = setup.elastic, setup.arm
        assert elastic is not None
        mass = mass_matrix(arm.model, q)
        inertia = np.diagonal(mass) * np.where(arm.revolute, 1.0, 0.1)
        rotor = np.maximum(elastic.rotor * np.sqrt(inertia / inertia.max()), LIGHTEST_ROTOR)
        rotor = rotor * np.where(arm.revolute, 1.0, 10.0)
        self.rotor: Array = np.maximum(rotor, LEAST_ROTOR_SHARE * arm.inertia)
        """(n,) inertia of the rotors [kg·m² or kg]."""
        root = np.sqrt(self.rotor)
        # With stiffnesses k times the rotors, the resonances are sqrt(k (1 + B M^-1)).
        ratios = np.linalg.inv(mass) * root * root[:, None]
        rate = 2.0 * np.pi * elastic.resonance / np.sqrt(1.0 + np.linalg.eigvalsh(ratios)[0])
        self.stiffness: Array = self.rotor * rate**2
        self.damping: Array = 2.0 * SPRING_DAMPING * rate * self.rotor
        self.q, self.v = q.copy(), np.zeros(q.size)
        """Position and velocity of the links, (n,) each [rad or m, rad/s or m/s]."""
        self.on_motor = elastic.on_motor
        self.theta, self.w = q.copy(), np.zeros(q.size)
        """Position and velocity of the rotors, likewise."""

    def lock(self, q: Array) -> None:
        """Let closed brakes hold links and rotors at ``q``, (n,) [rad or m]."""
        self.q[:], self.theta[:], self.v[:], self.w[:] = q, q, 0.0, 0.0

    def torque(self) -> Array:
        """Return the torque of the springs on the links, (n,) [N·m or N]."""
        return self.stiffness * (self.theta - self.q) + self.damping * (self.w - self.v)

    def turn(self, torque: Array, h: float) -> None:
        """Advance the rotors by ``h`` [s] under the torque of motors and springs, (n,)."""
        self.w += h * torque / self.rotor
        self.theta += h * self.w

    @property
    def energy(self) -> float:
        """Kinetic energy of the rotors and energy of the springs [J]."""
        stretch = self.theta - self.q
        return 0.5 * float(self.rotor @ self.w**2 + self.stiffness @ stretch**2)


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
        friction = CoulombViscousFriction(
            np.full(n, coulomb), np.full(n, viscous), np.zeros(n), np.full(n, 0.01)
        )
        self._around = Surroundings(
            friction.kind,
            friction.coefficients(n),
            np.zeros(n),
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
        self._on_the_way = deque([(held, held)] * round(setup.delay / setup.period))
        self._gears = None if setup.elastic is None else Gears(setup, start)
        self._filtered = np.zeros(n)
        self.given = 0.0
        """Work in the last period that a brake is not responsible for, see :meth:`move` [J]."""

    @property
    def rotor(self) -> Array:
        """Inertia of the rotors, which the description lacks, (n,) [kg·m² or kg]."""
        return np.zeros(self._filtered.size) if self._gears is None else self._gears.rotor

    def ringing(self, torque: Array) -> Array:
        """Return the measured speeds to which steps of the motor torque excite the rotors, (n,).

        A rotor on a spring at rest swings with ``torque / sqrt(stiffness rotor)``, while the link
        has hardly moved. Zero for rigid joints, and with encoders on the links.

        Args:
            torque: size of the steps, (n,) [N·m or N].
        """
        gears = self._gears
        if gears is None or not gears.on_motor:
            return np.zeros(torque.size)
        return np.asarray(torque / np.sqrt(gears.stiffness * gears.rotor))

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

    def velocity(self, v: Array) -> Array:
        """Return the velocity after the filter of the encoders; without a filter ``v`` itself."""
        return self._filtered if self._setup.velocity_lag else v

    def lock(self, q: Array) -> None:
        """Let closed brakes hold the arm at ``q``, (n,) [rad or m]."""
        self._filtered[:] = 0.0
        if self._gears is not None:
            self._gears.lock(q)

    def energy(self, q: Array, v: Array) -> float:
        """Return the energy of links, rotors and springs, without potential energy [J]."""
        gears = self._gears
        if gears is not None:
            q, v = gears.q, gears.v
        kinetic = 0.5 * float(v @ mass_matrix(self._true_model, q) @ v)
        return kinetic + (0.0 if gears is None else gears.energy)

    def is_at_a_stop(self, q: Array) -> bool:
        """Return whether a mechanical stop pushes a joint back at ``q``, (n,) [rad or m]."""
        beyond = (q < self._around.lower) | (q > self._around.upper)
        return bool(beyond.any())

    def move(
        self, q: Array, v: Array, command: Array, push: Array, brake: Array | None = None
    ) -> Array:
        """Advance ``q`` and ``v`` by one period, in place; return the torque of the motors.

        The work of pushes, of gravity, and of all torque but the brake is added up in ``given``.

        Args:
            q, v: position and velocity as the encoders should measure them, (n,) each [rad or m,
                rad/s or m/s].
            command: (n,) torque that the controller sends [N·m or N].
            push: (n,) torque of contacts [N·m or N].
            brake: (n,) part of the command that brakes a measured motion [N·m or N]; None for zero.
        """
        self._on_the_way.append((command, command if brake is None else command - brake))
        motors, driving = self._on_the_way.popleft()
        if self._setup.compensated:
            own = gravity_torque(self.described, q)
            motors, driving = motors + own, driving + own
        strength = self._arm.strength
        motors = np.minimum(np.maximum(motors, -strength), strength)
        driving = np.minimum(np.maximum(driving, -strength), strength)
        before, weight = q.copy(), gravity_torque(self._true_model, q)
        if self._gears is None:
            self._advance(q, v, motors + push, self._setup.period, self._substeps)
            moved = q - before
            self.given = float((driving + push - weight) @ moved)
        else:
            self.given = self._move_gears(q, v, motors, push, driving, weight)
        if self._setup.velocity_lag:
            share = 1.0 - np.exp(-self._setup.period / self._setup.velocity_lag)
            self._filtered += share * (v - self._filtered)
        return motors

    def _move_gears(
        self, q: Array, v: Array, motors: Array, push: Array, driving: Array, weight: Array
    ) -> float:
        """Move links and rotors by one period; write what is measured; return the given work."""
        gears = self._gears
        assert gears is not None
        steps = round(self._setup.period / ELASTIC_STEP)
        h = self._setup.period / steps
        links, rotors = gears.q.copy(), gears.theta.copy()
        for _ in range(steps):
            spring = gears.torque()
            self._advance(gears.q, gears.v, spring + push, h, 1)
            gears.turn(motors - spring, h)
        q[:], v[:] = (gears.theta, gears.w) if gears.on_motor else (gears.q, gears.v)
        given = driving @ (gears.theta - rotors) + (push - weight) @ (gears.q - links)
        return float(given)

    def _advance(self, q: Array, v: Array, torque: Array, time: float, substeps: int) -> None:
        """Move the links by ``time`` [s] under a torque, (n,)."""
        packed, around, truth = self._true_model.packed, self._around, self._truth
        advance(packed, q, v, torque, around, time / substeps, substeps, truth)
