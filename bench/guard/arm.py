"""A simulated position-controlled arm that follows a path and stops on the path on request."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from bench.contacts.motion import Reference
from bench.contacts.plant import PERIOD, Plant
from bench.contacts.touch import Touch
from bench.guard.motion import PickAndPlace

DECELERATION = 5.0
"""Deceleration of the fastest joint when goals are cancelled [rad/s²]."""
VELOCITY_WEIGHT = 0.4
"""Weight of the newest difference of positions in the measured velocity."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Measured values of the arm in one step."""

    t: float
    """Time of the sample [s]."""
    q: np.ndarray
    """(nv,) positions of the encoders [rad]."""
    v: np.ndarray
    """(nv,) filtered differences of the encoder positions [rad/s]."""
    tau: np.ndarray
    """(nv,) measured joint torques, including friction [N·m]."""


class PositionControlledArm:
    """Follows a path by stiff position control of its joints.

    For a stop the speed along the path decreases at a constant rate, so that the fastest joint
    decelerates by :data:`DECELERATION`.

    Args:
        plant: the arm in MuJoCo.
        path: the motion to follow.
        seed: seed of the noise of the torque sensors.

    Attributes:
        plant: the arm in MuJoCo.
        t: time from the start of the motion [s].
        stop_time: planned duration of the stop [s]; NaN before a stop.
        is_touched: whether there was contact in the last step.
    """

    def __init__(self, plant: Plant, path: PickAndPlace, seed: int) -> None:
        self.plant, self._path = plant, path
        self._rng = np.random.default_rng(seed)
        self._count = 2.0 * np.pi / 2**plant.arm.encoder_bits
        plant.start(path.at(np.zeros(1)))
        self._last = self._measured()
        self._v = np.zeros_like(self._last)
        self._gains = plant.gains()
        self._along, self._rate, self._slowing = 0.0, 1.0, 0.0
        self.t = 0.0
        self.stop_time = np.nan
        self.is_touched = False

    def stop(self) -> None:
        """Begin to stop on the path; a second call has no effect."""
        if self._slowing == 0.0:
            fastest = float(np.abs(self._path.at(np.array([self._along])).v).max())
            self.stop_time = max(fastest / DECELERATION, PERIOD)
            self._slowing = 1.0 / self.stop_time

    def step(self, touch: Touch | None = None) -> Sample:
        """Advance by one period of 1 ms and return the measured sample.

        Args:
            touch: the contact that acts on the arm while it lasts; None without contact.
        """
        plant, mj, data = self.plant, self.plant.mj, self.plant.data
        wanted = self._reference()
        mujoco.mj_step1(mj, data)
        torque = np.empty(mj.nv)
        mujoco.mj_mulM(mj, data, torque, wanted.a)
        torque += data.qfrc_bias + plant.friction(wanted.v)
        stiffness, damping = self._gains
        torque += stiffness * (wanted.q - data.qpos) + damping * (wanted.v - data.qvel)
        data.qfrc_applied[:] = torque
        plant.set_friction()
        if touch:
            touch.before(plant, self.t)
        sample = self._sample(torque)
        mujoco.mj_step2(mj, data)
        self.is_touched = touch is not None and self._note(touch, torque)
        self.t += PERIOD
        self._along += self._rate * PERIOD
        self._rate = max(self._rate - self._slowing * PERIOD, 0.0)
        return sample

    def _reference(self) -> Reference:
        """Return the present desired state, (nv,) each."""
        at = self._path.at(np.array([self._along]))
        rate, slowing = self._rate, self._slowing if self._rate > 0.0 else 0.0
        v, a = at.v[0], at.a[0]
        return Reference(at.q[0], rate * v, rate * rate * a - slowing * v)

    def _note(self, touch: Touch, torque: np.ndarray) -> bool:
        """Let ``touch`` record the step; return whether there was contact."""
        external = self.plant.data.qfrc_applied - torque
        if self.plant.data.ncon:
            external += self.plant.contact_torque()
        force = touch.after(self.plant, self.t)
        if force.any():
            touch.note(self.t, force, external)
        return bool(force.any())

    def _measured(self) -> np.ndarray:
        q: np.ndarray = self._count * np.round(self.plant.data.qpos / self._count)
        return q

    def _sample(self, torque: np.ndarray) -> Sample:
        q = self._measured()
        self._v = self._v + VELOCITY_WEIGHT * ((q - self._last) / PERIOD - self._v)
        self._last = q
        noise = self.plant.torque_noise * self._rng.standard_normal(torque.shape)
        return Sample(self.t, q, self._v, torque + noise)
