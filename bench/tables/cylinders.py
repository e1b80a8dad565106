"""The mechanism of E20 chapter 4, cylinders on hinges, and its dynamics by Lagrange's equations.

The mechanism is ``autoTree`` of Featherstone's spatial_v2, the package that E20 uses. Every link is
a thin-walled cylinder of 1 kg, 1 m long and 5 cm in radius, along the x axis of its frame. It turns
about its z axis, and its children are hinged to its far end. The hinges are parallel, or each is
rotated by ``skew`` about the cylinder before it. There is no gravity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rbd_control.dynamics import Model, Rotor

LENGTH, MASS, RADIUS = 1.0, 1.0, 0.05
INERTIA = MASS * np.array([RADIUS**2, *2 * [(6.0 * RADIUS**2 + LENGTH**2) / 12.0]])
"""Principal moments about the centre of mass [kg·m²]."""

STEP = 1e-30
"""Step of complex-step differentiation.

f(x + i STEP) = f(x) + i STEP f'(x) holds to all digits, because nothing is subtracted."""


@dataclass(frozen=True)
class Cylinders:
    """A tree of ``n`` cylinders; each carries ``children`` cylinders until all are placed.

    ``skew`` is the angle by which each hinge is rotated about the cylinder before it [rad].
    """

    n: int
    children: int = 1
    skew: float = 0.0

    @property
    def parents(self) -> list[int]:
        """Index of the parent of each cylinder, breadth first; -1 is the ground."""
        return [(i - 1 + self.children) // self.children - 1 for i in range(self.n)]

    @cached_property
    def model(self) -> Model:
        """Model of the mechanism, made from a URDF, without gravity and rotors."""
        parts = ['<robot name="cylinders"><link name="link-1"/>']
        ixx, iyy, izz = INERTIA.tolist()
        for i, parent in enumerate(self.parents):
            place = f'xyz="{LENGTH} 0 0" rpy="{self.skew!r} 0 0"' if parent >= 0 else ""
            parts.append(
                f'<link name="link{i}"><inertial><origin xyz="{LENGTH / 2.0} 0 0"/>'
                f'<mass value="{MASS}"/><inertia ixx="{ixx!r}" iyy="{iyy!r}" izz="{izz!r}" '
                f'ixy="0" ixz="0" iyz="0"/></inertial></link>'
                f'<joint name="joint{i}" type="continuous"><parent link="link{parent}"/>'
                f'<child link="link{i}"/><origin {place}/><axis xyz="0 0 1"/></joint>'
            )
        return Model.from_urdf("".join([*parts, "</robot>"]), gravity=(0.0, 0.0, 0.0))

    @cached_property
    def order(self) -> np.ndarray:
        """Index of the cylinder that each entry of the model's v moves, (n,)."""
        return np.array([int(name.removeprefix("joint")) for name in self.model.joint_names])

    def mass_matrix(self, q: np.ndarray, rotor: Rotor | None = None) -> np.ndarray:
        """Return M of the kinetic energy ½ vᵀ M v, (..., n, n), for real or complex q, (..., n).

        M is the sum of ``m J_cᵀ J_c + J_wᵀ R I Rᵀ J_w`` over cylinders and rotors, with the
        Jacobians of their centres and of their angular velocities. Each rotor is balanced, lies on
        the axis of its joint, is carried by the parent cylinder and turns ``gear_ratio`` times as
        fast as the joint.
        """
        M = np.zeros((*q.shape, self.n), dtype=q.dtype)
        R: list[np.ndarray] = []
        origin: list[np.ndarray] = []
        axes: list[np.ndarray] = []
        ground = np.zeros((*q.shape[:-1], 3, self.n), dtype=q.dtype)
        for i, parent in enumerate(self.parents):
            if parent < 0:
                R_p, o_i, before = np.eye(3), ground[..., 0], ground
            else:
                R_p = R[parent] @ _turn(np.array(self.skew), 0)
                o_i, before = origin[parent] + LENGTH * R[parent][..., 0], axes[parent]
            R.append(R_p @ _turn(q[..., i], 2))
            origin.append(o_i)
            axes.append(before.copy())
            axes[i][..., i] = R[i][..., 2]
            centre = o_i + LENGTH / 2.0 * R[i][..., 0]
            M += MASS * _square(_linear(axes[i], origin, centre))
            M += _square(np.sqrt(INERTIA)[:, None] * R[i].swapaxes(-1, -2) @ axes[i])
            if rotor is not None:
                spinning = before.copy()
                spinning[..., i] = rotor.gear_ratio * R[i][..., 2]
                about_axis = R[i][..., None, :, 2] @ spinning
                M += float(rotor.mass) * _square(_linear(before, origin, o_i))
                M += float(np.asarray(rotor.inertia)) * _square(about_axis)
        return M

    def mass_matrix_rate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return dM/dt for positions q and velocities v, (..., n) each, as (..., n, n)."""
        return self.mass_matrix(q + 1j * STEP * v).imag / STEP

    def bias(self, q: np.ndarray, v: np.ndarray, rotor: Rotor | None = None) -> np.ndarray:
        """Return the terms of Lagrange's equations besides M a for one state, (n,) [N·m].

        They are ``M_dot v - dT/dq`` with the kinetic energy T.
        """
        steps = 1j * STEP * np.vstack([v, np.eye(self.n)])
        rates = self.mass_matrix(q + steps, rotor).imag / STEP
        return rates[0] @ v - 0.5 * rates[1:] @ v @ v

    def acceleration(
        self, q: np.ndarray, v: np.ndarray, tau: np.ndarray, rotor: Rotor | None = None
    ) -> np.ndarray:
        """Return the acceleration by Lagrange's equations for one state, (n,) [rad/s²]."""
        return np.linalg.solve(self.mass_matrix(q, rotor), tau - self.bias(q, v, rotor))


def _turn(angle: np.ndarray, axis: int) -> np.ndarray:
    """Return the rotation by ``angle`` (...) about coordinate ``axis``, (..., 3, 3)."""
    result = np.zeros((*angle.shape, 3, 3), dtype=angle.dtype)
    j, k = (axis + 1) % 3, (axis + 2) % 3
    result[..., axis, axis] = 1.0
    result[..., j, j] = result[..., k, k] = np.cos(angle)
    result[..., k, j] = np.sin(angle)
    result[..., j, k] = -result[..., k, j]
    return result


def _linear(axes: np.ndarray, origins: list[np.ndarray], point: np.ndarray) -> np.ndarray:
    """Return the Jacobian of a point: e_a x (point - o_a) for each axis a that moves it."""
    result = np.zeros_like(axes)
    for a, origin in enumerate(origins):
        result[..., a] = np.cross(axes[..., a], point - origin)
    return result


def _square(J: np.ndarray) -> np.ndarray:
    return J.swapaxes(-1, -2) @ J
