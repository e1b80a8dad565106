"""Descriptions of the arms of the study: published URDFs, and two arms from published figures.

No package of moderate size has a URDF of the KUKA LBR iiwa 14 or of the Kinova Gen3. Their URDFs
are made here from published masses, centres of mass, moments of inertia and lengths.
"""

from __future__ import annotations

from math import radians
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.contacts.arms import ARMS, Arm
from bench.contacts.arms import arm as published_arm

Triple = tuple[float, float, float]


class Body(NamedTuple):
    """A link, and the revolute joint that moves it about the z axis of the link."""

    origin: Triple
    """Origin of the joint in the frame of the previous link [m]."""
    rpy: Triple
    """Roll, pitch and yaw of the joint in the frame of the previous link [degrees]."""
    mass: float
    """Mass of the link [kg]."""
    centre: Triple
    """Centre of mass in the frame of the link [m]."""
    moments: Triple
    """Moments of inertia about the centre of mass [kg·m²]; the products are small, left out."""
    reach: float
    """Position limit in both directions [degrees]."""
    speed: float
    """Velocity limit [degrees/s]."""
    effort: float
    """Effort limit [N·m]."""


IIWA = (
    Body((0, 0, 0.1575), (0, 0, 0), 4.0, (0, -0.03, 0.12), (0.1, 0.09, 0.02), 170, 85, 320),
    Body((0, 0, 0.2025), (90, 0, 180), 4.0, (0, 0.059, 0.042), (0.05, 0.018, 0.044), 120, 85, 320),
    Body((0, 0.2045, 0), (90, 0, 180), 3.0, (0, 0.03, 0.13), (0.08, 0.075, 0.01), 170, 100, 176),
    Body((0, 0, 0.2155), (90, 0, 0), 2.7, (0, 0.067, 0.034), (0.03, 0.01, 0.029), 120, 75, 176),
    Body(
        (0, 0.1845, 0), (-90, 180, 0), 1.7, (0, 0.021, 0.076), (0.02, 0.018, 0.005), 170, 130, 110
    ),
    Body((0, 0, 0.2155), (90, 0, 0), 1.8, (0, 0.001, 0), (0.005, 0.0036, 0.0047), 120, 135, 40),
    Body((0, 0.081, 0), (-90, 180, 0), 0.3, (0, 0, 0.02), (0.001, 0.001, 0.001), 175, 135, 40),
)
"""KUKA LBR iiwa 14 R820.

Lengths, masses, centres and moments: github.com/IFL-CAMP/iiwa_stack, iiwa14.xacro. Limits: data
sheet of the manufacturer.
"""

GEN3 = (
    Body(
        (0, 0, 0.1564),
        (180, 0, 0),
        1.377,
        (0, -0.0104, -0.0734),
        (0.0046, 0.0048, 0.0014),
        360,
        80,
        39,
    ),
    Body(
        (0, 0.0054, -0.1284),
        (90, 0, 0),
        1.163,
        (0, -0.0996, -0.0133),
        (0.0111, 0.0011, 0.0113),
        128,
        80,
        39,
    ),
    Body(
        (0, -0.2104, -0.0064),
        (-90, 0, 0),
        1.163,
        (0, -0.0066, -0.1179),
        (0.0109, 0.0111, 0.001),
        360,
        80,
        39,
    ),
    Body(
        (0, 0.0064, -0.2104),
        (90, 0, 0),
        0.93,
        (0, -0.0755, -0.015),
        (0.0081, 0.0006, 0.0083),
        147,
        80,
        39,
    ),
    Body(
        (0, -0.2084, -0.0064),
        (-90, 0, 0),
        0.678,
        (0, -0.0094, -0.0639),
        (0.0016, 0.0016, 0.0004),
        360,
        70,
        9,
    ),
    Body(
        (0, 0.0002, -0.1059),
        (90, 0, 0),
        0.678,
        (0, -0.0455, -0.0097),
        (0.0016, 0.0004, 0.0016),
        120,
        70,
        9,
    ),
    Body(
        (0, -0.1059, -0.0002),
        (-90, 0, 0),
        0.364,
        (0, 0, -0.0229),
        (0.0003, 0.0003, 0.0002),
        360,
        70,
        9,
    ),
)
"""Kinova Gen3 with 7 joints, without the vision module.

All figures: github.com/Kinovarobotics/ros_kortex, GEN3-7DOF-NOVISION_FOR_URDF_ARM_V12.urdf. The
joints that turn without limit have limits of one turn here, because MuJoCo needs none for them.
"""

_MADE = {
    "iiwa": (IIWA, (0.0, 0.5, 0.0, -1.2, 0.0, 1.0, 0.0), 20),
    "gen3": (GEN3, (0.0, 0.4, 0.0, 1.6, 0.0, 0.9, 0.0), 17),
}
"""Bodies, centre of the motions [rad], and encoder bits per turn (assumed) of the made arms."""


def describe(name: str) -> Arm:
    """Return an arm by name: one of :mod:`bench.contacts.arms`, ``iiwa`` or ``gen3``.

    Raises:
        KeyError: if there is no arm of this name.
    """
    if name in ARMS:
        return published_arm(name)
    bodies, centre, bits = _MADE[name]
    return Arm(name, _urdf(name, bodies), np.array(centre), bits, Path())


def _urdf(name: str, bodies: tuple[Body, ...]) -> str:
    """Return the URDF of a serial chain of bodies as text."""
    parts = [f'<robot name="{name}"><link name="{name}_link0"/>']
    for k, body in enumerate(bodies, start=1):
        xx, yy, zz = body.moments
        rpy = _joined(tuple(radians(angle) for angle in body.rpy))
        reach, speed = radians(body.reach), radians(body.speed)
        parts.append(
            f'<link name="{name}_link{k}"><inertial><origin xyz="{_joined(body.centre)}"/>'
            f'<mass value="{body.mass}"/><inertia ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="0" '
            f'ixz="0" iyz="0"/></inertial></link>'
            f'<joint name="{name}_joint{k}" type="revolute"><parent link="{name}_link{k - 1}"/>'
            f'<child link="{name}_link{k}"/><origin xyz="{_joined(body.origin)}" rpy="{rpy}"/>'
            f'<axis xyz="0 0 1"/><limit lower="{-reach:.6f}" upper="{reach:.6f}" '
            f'velocity="{speed:.6f}" effort="{body.effort}"/></joint>'
        )
    return "".join([*parts, "</robot>"])


def _joined(numbers: tuple[float, ...]) -> str:
    return " ".join(f"{number:.9g}" for number in numbers)
