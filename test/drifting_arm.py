"""An arm in joint space whose friction changes: prescribed motion, and the efforts it takes.

The dynamics are those of the model, and the detector has the friction of the file, so that the
residual is noise, changed friction and the external torque. Velocities have the quantization of
an encoder of 19 bits, efforts white noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from robots import urdf_path

from rbd_control.dynamics import Model, frame_jacobian, inverse_dynamics
from rbd_control.estimation import BlockDetection, ContactDetector, DetectorParameters

RATE = 250.0
"""Rate of the samples [Hz]."""
LEAST = 0.3
"""Smallest contact threshold [N·m]."""
SCALE = 0.03
"""Velocity scale of the friction [rad/s]."""
NOISE = 2e-4, 0.25
"""Standard deviations of velocities and efforts [rad/s, N·m]."""

Factor = Callable[[np.ndarray], np.ndarray]
"""Factor of the friction at times (k,) [s]."""


@dataclass(eq=False)
class DriftingArm:
    """An arm with Coulomb friction ``coulomb`` [N·m] and viscous friction ``viscous`` (nv,)."""

    model: Model
    centre: np.ndarray
    coulomb: np.ndarray
    viscous: np.ndarray

    @cached_property
    def parameters(self) -> DetectorParameters:
        """Return parameters with thresholds from 30 s of free motion with the friction of the file.

        The thresholds are a quarter above the largest residual, and at least :data:`LEAST`.
        """
        first = DetectorParameters(
            friction_model="coulomb_viscous",
            friction_coulomb=tuple(self.coulomb),
            friction_viscous=tuple(self.viscous),
            friction_velocity_scale=(SCALE,),
            contact_threshold=(50.0,),
            collision_threshold=(100.0,),
            observer_gain=(20.0,),
            onset_debounce=0.008,
            settling_time=0.3,
            follow_friction=False,
        )
        found = run(ContactDetector(self.model, first), self.samples(30.0, seed=100))
        residual = np.concatenate([block.residual[block.valid] for block in found])
        covariance = np.cov(residual.T)
        length = np.sqrt(np.einsum("ki,ij,kj->k", residual, np.linalg.inv(covariance), residual))
        return replace(
            first,
            contact_threshold=tuple(np.maximum(1.25 * np.abs(residual).max(axis=0), LEAST)),
            residual_covariance=tuple(covariance.ravel()),
            statistic_threshold=1.25 * float(length.max()),
            follow_friction=True,
        )

    def detector(self) -> ContactDetector:
        """Return a detector with :attr:`parameters`."""
        return ContactDetector(self.model, self.parameters)

    def motion(self, t: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return positions, velocities and accelerations of a lively motion, (k, nv) each."""
        rng = np.random.default_rng(seed)
        q, v, a = np.tile(self.centre, (t.size, 1)), 0.0, 0.0
        for period in (7.1, 3.3):
            w = 2.0 * np.pi / (period * rng.uniform(0.8, 1.25, self.model.nv))
            phase, reach = rng.uniform(0.0, 2.0 * np.pi, self.model.nv), 0.25 / w
            angle = w * t[:, None] + phase
            q = q + reach * np.sin(angle)
            v = v + reach * w * np.cos(angle)
            a = a - reach * w**2 * np.sin(angle)
        return q, np.asarray(v), np.asarray(a)

    def samples(
        self,
        seconds: float,
        factor: Factor = np.ones_like,
        external: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None = None,
        *,
        moving: bool = True,
        turning: float = 0.0,
        start: float = 0.0,
        seed: int = 0,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return stamps, positions, velocities and efforts.

        Args:
            seconds: length of the motion [s].
            factor: factor of the friction at each time.
            external: external torque (k, nv) at times, positions and velocities; none by default.
            moving: whether the arm moves; otherwise it stands at its centre.
            turning: velocity of the first joint of an arm that does not move otherwise [rad/s].
            start: time of the first sample [s].
            seed: seed of motion and noise.
        """
        t = start + np.arange(1, round(seconds * RATE) + 1) / RATE
        q, v, a = self.motion(t, seed)
        if not moving:
            q, v, a = np.tile(self.centre, (t.size, 1)), np.zeros_like(v), np.zeros_like(a)
            q[:, 0] += turning * t
            v[:, 0] = turning
        friction = self.coulomb * np.tanh(v / SCALE) + self.viscous * v
        tau = inverse_dynamics(self.model, q, v, a) + factor(t)[:, None] * friction
        if external is not None:
            tau = tau - external(t, q, v)
        rng = np.random.default_rng(seed + 1)
        tau = tau + NOISE[1] * rng.standard_normal(tau.shape)
        measured = v + NOISE[0] * rng.standard_normal(v.shape)
        return t, q, measured, tau

    def torque(self, q: np.ndarray, link: str, force: np.ndarray) -> np.ndarray:
        """Return the joint torques of a force (3,) [N] at the origin of a link, (k, nv)."""
        return np.einsum("kdi,d->ki", np.asarray(frame_jacobian(self.model, q, link))[:, 3:], force)


def run(
    detector: ContactDetector, samples: tuple[np.ndarray, ...], size: int = 5000
) -> list[BlockDetection]:
    """Run the detector over the samples in blocks."""
    return [
        detector.update_block(*(column[k : k + size] for column in samples))
        for k in range(0, samples[0].size, size)
    ]


def panda() -> DriftingArm:
    """Return a Panda with the friction of its harmonic drives."""
    locked = {"panda_finger_joint1": 0.0, "panda_finger_joint2": 0.0}
    return DriftingArm(
        Model.from_urdf(urdf_path("panda"), locked=locked),
        np.array((0.0, -0.3, 0.0, -1.9, 0.0, 1.8, 0.6)),
        np.array((3.0, 3.0, 2.5, 2.5, 1.5, 1.0, 0.8)),
        np.array((4.0, 4.0, 3.0, 3.0, 2.0, 1.5, 1.0)),
    )


def ur10() -> DriftingArm:
    """Return an arm of the size of a UR10e, whose friction is much larger than its thresholds."""
    return DriftingArm(
        Model.from_urdf(urdf_path("ur10")),
        np.array((0.0, -1.2, 1.4, -1.2, -1.3, 0.0)),
        np.array((8.0, 8.0, 6.0, 3.0, 3.0, 3.0)),
        np.array((12.0, 12.0, 8.0, 3.0, 3.0, 3.0)),
    )
