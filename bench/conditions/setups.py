"""The two arms of the study with friction, sensors and efforts of real size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import mujoco
import numpy as np

from bench.contacts.arms import Arm, arm
from bench.contacts.episode import Episode
from bench.contacts.plant import Plant, typical_friction
from bench.gains.arm import COULOMB, GAINS, ROTORS, VISCOUS
from rbd_control.dynamics import Model
from rbd_control.identification.threshold_calibration import START, CalibratedParameters

GAIN_ERROR = 0.02
"""Largest relative error of a gain of the data sheet."""
SMOOTH = 0.03
"""Speed over which Coulomb friction changes its sign [rad/s]."""
HAND = 0.73
"""Mass of the hand of the rows with a wrong description [kg]."""
HAND_SIZE = 0.04
"""Radius of gyration of a payload [m]."""


@dataclass(frozen=True, eq=False)
class Setup:
    """An arm of the study, its drives, and how it is declared to the detector."""

    name: str
    arm: Arm
    coulomb: np.ndarray
    """(nv,) [N·m]."""
    viscous: np.ndarray
    """(nv,) [N·m·s/rad]."""
    noise: np.ndarray
    """(nv,) standard deviation of a sample of the effort, as torque [N·m]."""
    stiffness: np.ndarray
    """(nv,) stiffness of the joints in the row with elastic joints [N·m/rad]."""
    loaded: tuple[int, int]
    """Two joints that carry much weight, whose efforts are swapped or reversed."""
    payload: tuple[float, float, float]
    """Centre of mass of payloads in the frame of the last link [m]."""
    declared: CalibratedParameters
    """Parameters from which the calibration starts: kind and gain of the efforts."""
    rotor: np.ndarray | None = None
    """(nv,) inertia of motor and gear at the joint [kg·m²]; None: those of the plant."""
    load: float = 0.0
    """Increase of Coulomb friction with the torque on the joint, as a share of this torque."""
    gains: np.ndarray | None = None
    """(nv,) true torque per unit of effort [N·m/A]; None: efforts are torques."""

    def effort(self, tau: np.ndarray) -> np.ndarray:
        """Return efforts as the driver publishes them for torques ``tau``, (k, nv) [N·m]."""
        return tau if self.gains is None else tau / self.gains

    def plant(self, seed: int) -> ChangingPlant:
        """Return a specimen of the arm."""
        return ChangingPlant(self, seed)

    def with_payload(self, model: Model, mass: float) -> Model:
        """Return a model with a compact payload at :attr:`payload`."""
        inertia = HAND_SIZE**2 * mass * np.eye(3)
        return model.with_payload(model.joint_links[-1], mass, self.payload, inertia)


class ChangingPlant(Plant):
    """A specimen whose friction, payload and mounting can change while it moves.

    Args:
        setup: the arm.
        seed: seed of the specimen.
    """

    def __init__(self, setup: Setup, seed: int) -> None:
        super().__init__(setup.arm, seed)
        self.setup = setup
        rng = np.random.default_rng(seed)
        n = self.mj.nv
        self.coulomb = setup.coulomb * rng.uniform(0.9, 1.1, n)
        self.viscous = setup.viscous * rng.uniform(0.9, 1.1, n)
        self.torque_noise: Any = setup.noise
        if setup.rotor is not None:
            self.mj.dof_armature[:] = setup.rotor
        self._first = self.coulomb.copy(), self.viscous.copy()
        self._load = setup.load
        self._bias, self._damping = self.data.qfrc_bias, self.mj.dof_damping
        self._frictionloss[:] = 0.0
        last = self.body[-1]
        self._bare = float(self.mj.body_mass[last]), self.mj.body_ipos[last].copy()
        self._bare_inertia = _turned(self.mj.body_iquat[last], self.mj.body_inertia[last])
        self.scale_friction(1.0)

    def set_friction(self) -> None:
        """Set the friction for the present velocity and load as a damping.

        Friction ``coulomb tanh(v / s) + viscous v`` is its secant slope times v. The slope is
        implicit in MuJoCo's integrator, so that light joints are stable. The dry friction of the
        base class would raise the thresholds of a calibration above the errors under study.
        """
        coulomb = self.coulomb
        if self._load:
            coulomb = coulomb + self._load * np.abs(self._bias)
        speed = np.maximum(np.abs(self._qvel), 1e-6)
        self._damping[:] = self.viscous + coulomb * np.tanh(speed / SMOOTH) / speed

    def scale_friction(self, factor: float) -> None:
        """Set Coulomb and viscous friction to a multiple of those of the specimen."""
        self.coulomb, self.viscous = (factor * part for part in self._first)
        self._load = factor * self.setup.load

    def attach(self, mass: float) -> None:
        """Fix a compact payload of ``mass`` [kg] to the last link, in place of a former one."""
        m, c = self._bare
        payload = np.array(self.setup.payload)
        total = m + mass
        centre = (m * c + mass * payload) / total
        inertia = self._bare_inertia + mass * HAND_SIZE**2 * np.eye(3)
        for part, place in ((m, c), (mass, payload)):
            d = place - centre
            inertia = inertia + part * (d @ d * np.eye(3) - np.outer(d, d))
        moments, axes = np.linalg.eigh(inertia)
        axes[:, 0] *= np.sign(np.linalg.det(axes))
        last = self.body[-1]
        self.mj.body_mass[last], self.mj.body_ipos[last] = total, centre
        self.mj.body_inertia[last] = moments
        mujoco.mju_mat2Quat(self.mj.body_iquat[last], axes.ravel())

    def tilt(self, degrees: float) -> None:
        """Tilt the base about a horizontal axis between x and y."""
        angle = np.radians(degrees)
        size = float(np.linalg.norm(self.mj.opt.gravity))
        side = np.array([np.sqrt(0.5), -np.sqrt(0.5), 0.0])
        self.mj.opt.gravity[:] = size * (np.sin(angle) * side - np.cos(angle) * np.eye(3)[2])


@dataclass(frozen=True, eq=False)
class Samples:
    """What a driver publishes: stamps (k,) [s], and positions, velocities, efforts (k, nv)."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray

    @classmethod
    def of(cls, episode: Episode, setup: Setup) -> Samples:
        """Return the samples of an episode with the efforts that the arm publishes."""
        return cls(episode.t, episode.q, episode.v, setup.effort(episode.tau))

    def only(self, kept: np.ndarray | slice) -> Samples:
        """Return a part of the samples."""
        return Samples(self.t[kept], self.q[kept], self.v[kept], self.tau[kept])


def _turned(quaternion: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Return an inertia with these principal moments as a matrix in the axes of its body."""
    flat = np.empty(9)
    mujoco.mju_quat2Mat(flat, quaternion)
    axes = flat.reshape(3, 3)
    return axes @ np.diag(moments) @ axes.T


def _panda() -> Setup:
    found = arm("panda")
    coulomb, viscous = typical_friction(found.model)
    return Setup(
        "panda",
        found,
        coulomb=coulomb,
        viscous=viscous,
        noise=np.full(7, 0.05),
        stiffness=np.full(7, 10_000.0),
        loaded=(1, 3),
        payload=(0.03, 0.02, 0.17),
        declared=START,
    )


def _ur10e() -> Setup:
    found = arm("ur10")
    error = np.random.default_rng(10).uniform(-GAIN_ERROR, GAIN_ERROR, 6)
    return Setup(
        "ur10e",
        found,
        coulomb=COULOMB,
        viscous=VISCOUS,
        noise=0.08 * GAINS,
        stiffness=np.array([40_000.0, 40_000.0, 20_000.0, 10_000.0, 10_000.0, 10_000.0]),
        loaded=(1, 2),
        payload=(0.03, 0.16, 0.02),
        declared=replace(START, effort_kind="current", effort_gain=tuple(GAINS)),
        rotor=ROTORS,
        load=0.02,
        gains=GAINS * (1.0 + error),
    )


SETUPS = {"panda": _panda, "ur10e": _ur10e}


@cache
def setup(name: str) -> Setup:
    """Return the arm of this name from :data:`SETUPS`."""
    return SETUPS[name]()
