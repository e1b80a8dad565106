"""Control loop at 1 kHz: sensors, control law, motors, and the arm in MuJoCo, also with payload."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import mujoco
import numpy as np

from bench.compare.laws import Law
from bench.contacts.arms import Arm
from bench.contacts.motion import Reference
from bench.contacts.plant import PERIOD, Plant

PAYLOAD_LINKS = {"panda": "panda_link8", "ur5": "tool0"}
PAYLOAD_COM = (0.02, 0.03, 0.08)
"""Centre of mass of the payload in the frame of its link [m]."""
MASS_ERROR = (0.05, 0.05)
VELOCITY_CUTOFF = 50.0
"""Cutoff frequency of the filter on differences of encoder positions [Hz]."""


def loaded(arm: Arm, mass: float) -> Arm:
    """Return the arm with a payload: a ball of ``mass`` [kg] and 5 cm radius on its last link.

    Only the description for MuJoCo includes the payload; ``model``, which the laws use, does not.
    """
    robot = ElementTree.fromstring(arm.urdf)
    link = ElementTree.SubElement(robot, "link", name="payload")
    inertial = ElementTree.SubElement(link, "inertial")
    ElementTree.SubElement(inertial, "origin", xyz=" ".join(map(str, PAYLOAD_COM)))
    ElementTree.SubElement(inertial, "mass", value=str(mass))
    moments = dict.fromkeys(("ixx", "iyy", "izz"), str(0.4 * mass * 0.05**2))
    ElementTree.SubElement(inertial, "inertia", moments, ixy="0", ixz="0", iyz="0")
    joint = ElementTree.SubElement(robot, "joint", name="payload", type="fixed")
    ElementTree.SubElement(joint, "parent", link=PAYLOAD_LINKS[arm.name])
    ElementTree.SubElement(joint, "child", link="payload")
    return replace(arm, urdf=ElementTree.tostring(robot, encoding="unicode"))


class Loop:
    """Runs one specimen of an arm under one law; each call of :meth:`run` continues the motion.

    Args:
        plant: the specimen in MuJoCo.
        law: the control law.
        start: desired motion, whose first row is the initial state.
        seed: seed of the noise of the motors.
    """

    def __init__(self, plant: Plant, law: Law, start: Reference, seed: int) -> None:
        self._plant, self._law = plant, law
        self._noise = np.random.default_rng(seed)
        self._count = 2.0 * np.pi / 2**plant.arm.encoder_bits
        plant.start(start)
        self._angle = self._read()
        self._v = start.v[0].copy()
        self._weight = 1.0 - np.exp(-2.0 * np.pi * VELOCITY_CUTOFF * PERIOD)

    def run(self, reference: Reference) -> np.ndarray:
        """Follow ``reference``, one row per period of 1 ms; return the true position errors.

        Returns:
            True minus desired positions, (k, nv) [rad].
        """
        mj, data = self._plant.mj, self._plant.data
        errors = np.empty_like(reference.q)
        limit = self._plant.arm.model.effort_limit
        noise = self._plant.torque_noise
        for k, desired in enumerate(zip(reference.q, reference.v, reference.a, strict=True)):
            angle = self._read()
            self._v += self._weight * ((angle - self._angle) / PERIOD - self._v)
            self._angle = angle
            errors[k] = data.qpos - desired[0]
            tau = self._law(angle, self._v, *desired)
            np.clip(tau, -limit, limit, out=tau)
            data.qfrc_applied[:] = tau + noise * self._noise.standard_normal(limit.size)
            self._plant.set_friction()
            mujoco.mj_step(mj, data)
        return errors

    def _read(self) -> np.ndarray:
        return self._count * np.round(self._plant.data.qpos / self._count)


def rms(errors: np.ndarray) -> float:
    """Return the root of the mean square of errors over all axes, in the unit of the errors."""
    return float(np.sqrt(np.mean(np.square(errors))))
