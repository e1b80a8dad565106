"""An arm in MuJoCo with its drives, its elastic joints and its sensors."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf, pi

import mujoco
import numpy as np
from numpy.typing import NDArray

from bench.contacts.plant import LEAST_INERTIA, typical_friction, without_geometry
from bench.robots.descriptions import describe
from bench.robots.kernel import (
    COMMANDED,
    COMPENSATION,
    GRAVITY,
    PUSHED,
    Joints,
    State,
    advance,
    drive,
)
from bench.robots.robots import ROBOTS, Robot
from rbd_control.dynamics import gravity_torque

Array = NDArray[np.float64]

BLOCK = 0.001
"""Time for which mass matrix, bias and torques are constant [s]."""
ELASTIC_STEP = 0.0001
"""Substep of elastic joints [s]; a light wrist on its spring resonates at up to 500 Hz."""
STOPS_BEYOND = 0.1
"""Distance of the mechanical stops from the described position limits [rad]."""
CURRENT_ERROR = 0.1
"""Largest relative error of a torque that is computed from the motor current."""


@dataclass(frozen=True, eq=False)
class Push:
    """A force of a hand on a point of a link."""

    row: int
    """Row of the joint that moves the link."""
    point: Array
    """The point in the frame of the link, (3,) [m]."""
    force: Array
    """Largest force, (3,) in world axes [N]."""
    start: float
    seconds: float
    is_held: bool = False
    """Whether the force is constant; otherwise it is a half sine."""

    def at(self, t: float) -> Array | None:
        """Return the force at a time, (3,) [N]; None before and after the push."""
        since = t - self.start
        if not 0.0 <= since < self.seconds:
            return None
        return self.force if self.is_held else self.force * np.sin(pi * since / self.seconds)


@dataclass(frozen=True, eq=False)
class Measured:
    """A joint state as the driver publishes it."""

    q: Array
    v: Array
    effort: Array | None


class Failures:
    """Failures of drives and sensors, which may be set at any time.

    Attributes:
        gain: (nv,) factor of each commanded torque: -1 for a reversed drive, 0 for a dead drive.
        motor: (nv,) factor of the whole torque of each motor, also of the drive's own torques.
        wires: (nv,) index of the joint that gets the command of each joint.
        locked: (nv,) bool, joints with a closed brake.
        offset: (nv,) error of each position [rad].
        velocity_factor: factor of the velocities.
        velocity_delay: additional delay of the velocities [s].
        command_delay: additional delay of the commands [s].
    """

    def __init__(self, n: int) -> None:
        self.gain, self.motor, self.wires = np.ones(n), np.ones(n), np.arange(n)
        self.locked, self.offset = np.zeros(n, dtype=np.bool_), np.zeros(n)
        self.velocity_factor = 1.0
        self.velocity_delay = self.command_delay = 0.0


class Plant:
    """One specimen of a robot; call :meth:`start`, then :meth:`advance` and :meth:`measure`.

    Args:
        robot: the robot.
        seed: seed of friction, masses and noise.

    Attributes:
        arm: the arm with its nominal description.
        state: the true state.
        failures: failures that are present.
        pushes: pushes of hands; past ones are removed.
        t: time since the start [s].
        work: (4,) work since the start of commanded torque, own gravity torque and own friction
            compensation of the drive, and of pushes [J].
        delivered: (nv,) commanded part of the torque of the motors [N·m].
    """

    def __init__(self, robot: Robot, seed: int) -> None:
        self.robot, self.arm = robot, describe(robot.arm)
        model = self.arm.model
        n = self._n = model.nv
        self._M = np.zeros((n, n))
        self.mj = mujoco.MjSpec.from_string(without_geometry(self.arm.urdf)).compile()
        self.data = mujoco.MjData(self.mj)
        self.body = np.array([self.mj.body(link).id for link in model.joint_links])
        rng = self._random = np.random.default_rng(seed)
        error = rng.uniform(*robot.mass_error, n) * rng.choice([-1.0, 1.0], n)
        self.mj.body_mass[self.body] *= 1.0 + error
        self.mj.body_inertia[self.body] *= 1.0 + error[:, None]
        self.gravity = self.mj.opt.gravity.copy()
        self._make_joints(rng)
        self._gains = 1.0 + CURRENT_ERROR * rng.uniform(-1.0, 1.0, n)
        self._count = 2.0 * pi / 2**robot.encoder_bits
        self._most_change = robot.torque_rate * BLOCK if robot.torque_rate else inf
        cutoff = robot.velocity_cutoff
        self._weight = 1.0 - np.exp(-2.0 * pi * cutoff * BLOCK) if cutoff else 1.0
        self.start(self.arm.centre)

    def _make_joints(self, rng: np.random.Generator) -> None:
        """Draw the friction, and set rotors, springs and stops."""
        robot, model, n = self.robot, self.arm.model, self._n
        coulomb, viscous = typical_friction(model)
        coulomb = coulomb * rng.uniform(0.7, 1.3, n)
        if robot.coulomb[1]:
            coulomb = model.effort_limit * rng.uniform(*robot.coulomb, n)
        self.data.qpos[:] = self.arm.centre
        inertia = np.diag(self._mass_matrix()).copy()
        rotor = np.array(robot.rotor) if robot.rotor else np.maximum(LEAST_INERTIA - inertia, 0.0)
        stiffness, damping = np.full(n, robot.stiffness), np.zeros(n)
        if robot.stiffness:
            reduced = rotor * inertia / (rotor + inertia)
            damping = 2.0 * robot.damping_ratio * np.sqrt(robot.stiffness * reduced)
        self.joints = Joints(
            rotor,
            stiffness,
            damping,
            coulomb,
            rng.uniform(0.0, 0.2, n),
            robot.viscous * viscous * rng.uniform(0.7, 1.3, n),
            model.lower_limit - STOPS_BEYOND,
            model.upper_limit + STOPS_BEYOND,
        )

    def start(self, q: Array) -> None:
        """Hold the arm at rest at a position, (nv,) [rad], without failures and pushes."""
        n = self._n
        self.failures = Failures(n)
        self.pushes: list[Push] = []
        self.t = 0.0
        self.mj.opt.gravity[:] = self.gravity
        self.state = State(q.copy(), np.zeros(n), q.copy(), np.zeros(n))
        self.data.qpos[:], self.data.qvel[:] = q, 0.0
        weight = self._bias().copy()
        if self.robot.stiffness:
            self.state.theta[:] += weight / self.joints.stiffness
        # Until the first command brakes hold the arm.
        own = self.own_gravity() if self.robot.compensates_gravity else np.zeros(n)
        self.delivered = weight - own
        self._commands: deque[tuple[float, float, Array]] = deque()
        self._speeds: deque[tuple[float, Array]] = deque()
        self._filtered = np.zeros(n)
        self._late = np.zeros(n)
        self._target = self.delivered.copy()
        self._sent = -inf  # time at which the present target was sent
        self._torque = np.zeros((4, n))
        self._torque[COMMANDED] = self.delivered
        self._impulse = np.zeros(n)
        self.work = np.zeros(4)
        self._measurements, self._last = 0, Measured(q, np.zeros(n), None)

    # --- Motion ----------------------------------------------------------------------------------

    def send(self, torque: Array) -> None:
        """Receive a command, (nv,) [N·m], which acts after the delay."""
        delay = self.robot.command_delay + self.failures.command_delay
        self._commands.append((self.t + delay, self.t, torque))

    def has_arrived(self, since: float) -> bool:
        """Return whether the motors deliver a command that was sent at ``since`` [s] or later."""
        is_new = self._sent >= since - 0.5 * BLOCK
        return is_new and bool(np.abs(self.delivered - self._target).max() < _EQUAL)

    def advance(self, seconds: float) -> None:
        """Move the arm for a time that is a multiple of :data:`BLOCK` [s]."""
        steps = round(BLOCK / ELASTIC_STEP) if self.robot.stiffness else 1
        if self.robot.compensates_gravity:
            self._torque[GRAVITY] = self.failures.motor * self.own_gravity()
        state, data = self.state, self.data
        for _ in range(round(seconds / BLOCK)):
            data.qpos[:], data.qvel[:] = state.q, state.v
            M, bias = self._mass_matrix(), self._bias()
            self._drive()
            self._push()
            advance(
                state,
                self.joints,
                M,
                bias,
                self._torque,
                self.failures.locked,
                BLOCK / steps,
                steps,
                self._impulse,
                self.work,
            )
            self.t += BLOCK
            self._sense()

    def _mass_matrix(self) -> Array:
        """Return the mass matrix at ``data.qpos``; the caller must not keep it."""
        mujoco.mj_kinematics(self.mj, self.data)
        mujoco.mj_comPos(self.mj, self.data)
        mujoco.mj_crb(self.mj, self.data)
        mujoco.mj_fullM(self.mj, self.data, self._M)
        return self._M

    def _bias(self) -> Array:
        """Return C v + g at ``data.qpos`` and ``data.qvel``; the caller must not keep it.

        The kinematics must be up to date, as after :meth:`_mass_matrix`.
        """
        mujoco.mj_comVel(self.mj, self.data)
        mujoco.mj_rne(self.mj, self.data, 0, self.data.qfrc_bias)
        return self.data.qfrc_bias

    def own_gravity(self) -> Array:
        """Return the gravity torque of the described arm at the measured side, (nv,) [N·m]."""
        return gravity_torque(self.arm.model, self._side()[0])

    def _side(self) -> tuple[Array, Array]:
        """Return true position and velocity on the measured side."""
        state = self.state
        return (state.q, state.v) if self.robot.side == "link" else (state.theta, state.w)

    def _drive(self) -> None:
        """Set the torques of the motors for the next block."""
        robot, failures, torque = self.robot, self.failures, self._torque
        while self._commands and self._commands[0][0] <= self.t + 0.5 * BLOCK:
            _, self._sent, command = self._commands.popleft()
            limit = self.arm.model.effort_limit
            self._target = np.clip((failures.gain * command)[failures.wires], -limit, limit)
        drive(
            self.delivered,
            self._target,
            self._most_change,
            robot.compensated_friction,
            failures.motor,
            self.joints,
            self.state.w,
            torque,
        )

    def _push(self) -> None:
        """Set the joint torques of the pushes for the next block."""
        torque = self._torque[PUSHED]
        torque[:] = 0.0
        if not self.pushes:
            return
        jacobian = np.empty((3, self._n))
        for push in self.pushes:
            force = push.at(self.t)
            if force is not None:
                turn = self.data.xmat[self.body[push.row]].reshape(3, 3)
                at = self.data.xpos[self.body[push.row]] + turn @ push.point
                mujoco.mj_jac(self.mj, self.data, jacobian, None, at, self.body[push.row])
                torque += jacobian.T @ force
        self.pushes = [push for push in self.pushes if self.t < push.start + push.seconds]

    # --- Sensors ---------------------------------------------------------------------------------

    def _sense(self) -> None:
        """Filter and delay the velocities after a block."""
        v = self._side()[1]
        self._filtered = self._filtered + self._weight * (v - self._filtered)
        delay = self.robot.velocity_delay + self.failures.velocity_delay
        self._speeds.append((self.t + delay, self._filtered))
        while self._speeds and self._speeds[0][0] <= self.t + 0.5 * BLOCK:
            self._late = self._speeds.popleft()[1]

    def measure(self) -> Measured:
        """Return the next joint state of the driver; call it once per period."""
        robot, failures, noise = self.robot, self.failures, self._random
        self._measurements += 1
        if (self._measurements - 1) % robot.repeats:
            return self._last
        q = self._count * np.round((self._side()[0] + failures.offset) / self._count)
        v = self._late + robot.velocity_noise * noise.standard_normal(self._n)
        v = failures.velocity_factor * v + robot.velocity_bias
        if robot.velocity_step:
            v = robot.velocity_step * np.round(v / robot.velocity_step)
        self._last = Measured(q, v, self._effort())
        return self._last

    def _effort(self) -> Array | None:
        """Return the efforts of a joint state, (nv,) [N·m]; None if the driver has none."""
        if self.robot.effort == "none":
            return None
        state, joints = self.state, self.joints
        noise = _EFFORT_NOISE * self.arm.model.effort_limit * self._random.standard_normal(self._n)
        if self.robot.effort == "torque" and self.robot.stiffness:
            return joints.stiffness * (state.theta - state.q) + noise
        motor = self._torque[COMMANDED] + self._torque[GRAVITY] + self._torque[COMPENSATION]
        return (self._gains * motor if self.robot.effort == "current" else motor) + noise

    # --- Energy ----------------------------------------------------------------------------------

    def energies(self) -> tuple[float, float]:
        """Return the energy of motion and springs, and the potential energy in gravity [J]."""
        state, joints, data = self.state, self.joints, self.data
        data.qpos[:], data.qvel[:] = state.q, state.v
        M = self._mass_matrix()
        motion = 0.5 * (state.v @ M @ state.v + joints.rotor @ np.square(state.w))
        if self.robot.stiffness:
            motion += 0.5 * float(joints.stiffness @ np.square(state.theta - state.q))
        heights = data.xipos @ self.mj.opt.gravity
        return float(motion), -float(self.mj.body_mass @ heights)


_EFFORT_NOISE = 0.0005
"""Standard deviation of measured torques as a share of the effort limit: 0.04 N·m on a Panda."""
_EQUAL = 1e-9
"""Difference of torques that counts as zero [N·m]."""


def make_plant(name: str, seed: int) -> Plant:
    """Return a specimen of a robot of :data:`bench.robots.robots.ROBOTS`.

    Args:
        name: name of the robot.
        seed: seed of friction, masses and noise.

    Raises:
        KeyError: if there is no robot of this name.
    """
    return Plant(ROBOTS[name], seed)
