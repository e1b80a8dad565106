"""A simulated arm of the size of a UR10e that publishes motor currents.

Kinematics and masses are the vendor's published data of the UR10e. The motion is prescribed.
The currents follow from inverse dynamics with masses, friction, motors and gains that differ from
the description.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.identification import RecordedMotion
from rbd_control.robot.inertial_corrections import InertialCorrections

Array = NDArray[np.float64]

JOINTS = ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")
MASSES = (7.369, 13.051, 3.989, 2.1, 1.98, 0.615)
GAINS = np.array([13.0, 13.0, 10.5, 10.5, 10.5, 10.5])
"""Nominal torque per current [N·m/A]."""
ROTORS = np.array([3.0, 3.0, 1.2, 0.3, 0.3, 0.3])
"""Inertia of motor and gear at the joint [kg·m²]."""
COULOMB = np.array([12.0, 12.0, 6.0, 2.5, 2.5, 2.5])
VISCOUS = np.array([18.0, 18.0, 9.0, 2.5, 2.5, 2.5])
ENCODER = 2.0 * np.pi / 2**17
"""Resolution of the positions [rad]."""
RATE = 125.0

_BODIES = (
    # Origin of the joint: xyz, rpy; centre of mass and radii of gyration of the link [m].
    ((0, 0, 0.1807), (0, 0, 0), (0.021, 0, 0.027), (0.068, 0.068, 0.064)),
    ((0, 0, 0), (np.pi / 2, 0, 0), (-0.380, 0, 0.158), (0.075, 0.26, 0.26)),
    ((-0.6127, 0, 0), (0, 0, 0), (-0.240, 0, 0.068), (0.052, 0.22, 0.22)),
    ((-0.57155, 0, 0.17415), (0, 0, 0), (0, 0.007, 0.018), (0.049, 0.049, 0.053)),
    ((0, -0.11985, 0), (np.pi / 2, 0, 0), (0, 0.007, 0.018), (0.049, 0.049, 0.053)),
    ((0, 0.11655, 0), (-np.pi / 2, 0, 0), (0, 0, -0.026), (0.031, 0.031, 0.036)),
)
CENTRE = np.array([0.0, -1.2, 1.3, -1.0, -1.3, 0.0])


def urdf() -> str:
    """Return the nominal URDF of the arm as text, without the errors of a specimen."""
    parts = ['<robot name="ur10e"><link name="base"/>']
    parent = "base"
    for joint, mass, body in zip(JOINTS, MASSES, _BODIES, strict=True):
        xyz, rpy, com, radii = (" ".join(f"{x:.6g}" for x in part) for part in body)
        xx, yy, zz = (mass * float(radius) ** 2 for radius in radii.split())
        parts.append(
            f'<link name="{joint}_link"><inertial><origin xyz="{com}"/><mass value="{mass}"/>'
            f'<inertia ixx="{xx:.6g}" iyy="{yy:.6g}" izz="{zz:.6g}" ixy="0" ixz="0" iyz="0"/>'
            f'</inertial></link><joint name="{joint}" type="revolute"><parent link="{parent}"/>'
            f'<child link="{joint}_link"/><origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="0 0 1"/>'
            f'<limit lower="-6.28" upper="6.28" velocity="3" effort="330"/></joint>'
        )
        parent = f"{joint}_link"
    return "".join([*parts, "</robot>"])


@dataclass(frozen=True, eq=False)
class Specimen:
    """One arm: its description, and its true properties, which differ from the description.

    ``description`` and ``true`` are the models; ``gains`` is the torque per current, (nv,) [N·m/A].
    """

    description: Model
    true: Model
    gains: Array
    friction: Array
    """Coulomb and viscous friction, (2, nv) [N·m, N·m·s/rad]."""

    @classmethod
    def drawn(cls, seed: int) -> Specimen:
        """Return a random arm with gains and friction within 30 % of the usual values.

        The errors of the masses have a standard deviation of 3 %, the errors of the centres of mass
        3 mm along each axis.
        """
        rng = np.random.default_rng(seed)
        description = Model.from_urdf(urdf())
        shifts = rng.normal(scale=0.003, size=(3, 6))
        corrections = InertialCorrections(
            mass_correction=tuple(0.03 * rng.normal(size=6) * MASSES),
            com_correction_x=tuple(shifts[0]),
            com_correction_y=tuple(shifts[1]),
            com_correction_z=tuple(shifts[2]),
        )
        return cls(
            description,
            corrections.corrected(description),
            GAINS * rng.uniform(0.7, 1.3, 6),
            np.array([COULOMB, VISCOUS]) * rng.uniform(0.7, 1.3, (2, 6)),
        )

    def loaded(self, mass: float, centre: tuple[float, float, float]) -> Specimen:
        """Return the same arm with a compact payload on its last link.

        Args:
            mass: mass of the payload [kg].
            centre: its centre of mass in the frame of the link [m].
        """
        inertia = 0.04**2 * mass * np.eye(3)
        return replace(self, true=self.true.with_payload("wrist_3_link", mass, centre, inertia))

    def recorded(
        self, seed: int, seconds: float = 50.0, speed_noise: float = 0.3 * ENCODER * RATE
    ) -> RecordedMotion:
        """Return a motion without contact as joint states with motor currents as efforts [A].

        Args:
            seed: seed of motion and noise.
            seconds: length of the motion [s].
            speed_noise: standard deviation of the noise of the velocities [rad/s].
        """
        rng = np.random.default_rng(seed)
        t = np.arange(0.0, seconds, 1.0 / RATE)
        q, v, a = _excitation(t, rng)
        coulomb, viscous = self.friction
        # Coulomb friction grows with the load of the gear and slightly towards standstill.
        need = inverse_dynamics(self.true, q, v, a) + ROTORS * a
        dry = (coulomb * (1.0 + 0.15 * np.exp(-np.square(v / 0.1))) + 0.04 * np.abs(need)) * (
            np.tanh(v / 0.01)
        )
        current = (need + dry + viscous * v) / self.gains
        current += rng.normal(scale=0.08, size=current.shape)
        measured = ENCODER * np.round(q / ENCODER)
        speed = v + rng.normal(scale=speed_noise, size=v.shape)
        return RecordedMotion(f"motion {seed}", t, measured, speed, current)


def _excitation(t: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return positions, velocities and accelerations (k, 6): five sines for each joint."""
    w = 2.0 * np.pi * np.exp(rng.uniform(np.log(0.05), np.log(0.4), (5, 1, 6)))
    phase = rng.uniform(0.0, 2.0 * np.pi, (5, 1, 6))
    speed = rng.uniform(0.3, 0.5, (5, 1, 6))
    reach = np.minimum(speed / w, 0.4)
    angle = w * t[:, None] + phase
    q = CENTRE + (reach * np.sin(angle)).sum(axis=0)
    v = (reach * w * np.cos(angle)).sum(axis=0)
    a = -(reach * w**2 * np.sin(angle)).sum(axis=0)
    return q, v, a
