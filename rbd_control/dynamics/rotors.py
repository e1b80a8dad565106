"""Motor rotors geared to their joints: bodies that turn faster than the joints they drive.

A rotor of inertia ``I_R`` that is carried by the parent of joint ``i`` and turns ``n`` times as
fast as the joint is a further body. Its motion subspace is ``Phi_R = n [e ; p x e]`` with its own
axis ``e`` at the position ``p`` (Echeandia, thesis, Notre Dame 2020, chapter 4). Sums over bodies
include it as a row of its own. M, M_dot, C, Cᵀ v, Christoffel symbols, g, momentum and inverse
dynamics need no other change; ``articulated_body.py`` describes the change of forward dynamics.

The usual approximation, ``n² I_R`` on the diagonal of M, assumes that the rotor turns in a frame at
rest: a row whose parent is the world. It neglects the gyroscopic torque of the spinning rotor and
the coupling of its speed with the motion of the link that carries it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rbd_control.dynamics.checks import checked_array
from rbd_control.dynamics.model_arrays import REVOLUTE, ModelArrays
from rbd_control.errors import InputError


@dataclass(frozen=True)
class Rotor:
    """The rotor of a motor, geared to a joint and carried by the link before it."""

    gear_ratio: float
    """Turns of the rotor per turn of the joint; for a prismatic joint its rotation per displacement
    [rad/m], which is turns per metre times 2 pi. Not zero; negative if the rotor turns against the
    joint."""
    inertia: ArrayLike
    """Rotational inertia about the rotor's centre of mass [kg·m²]: a number, about its axis, or
    (3, 3) in the axes of the joint frame. Not multiplied by the gear ratio."""
    axis: ArrayLike | None = None
    """Axis of its rotation, (3,) in the joint frame, of any length; by default the joint's axis."""
    mass: float = 0.0
    """Mass [kg]; zero if the description includes it in the link that carries the rotor. The
    reflected approximation does not use it."""
    com: ArrayLike = (0.0, 0.0, 0.0)
    """The rotor's centre of mass, a point on its axis, (3,) in the joint frame [m]."""


def with_rotor(
    arrays: ModelArrays, row: int, name: str, rotor: Rotor, *, reflected: bool
) -> ModelArrays:
    """Return a copy of ``arrays`` with the rotor of one joint as a further row.

    Args:
        arrays: the bodies, and the rotors added before.
        row: row of the body that the joint moves.
        name: name of the rotor in error messages.
        rotor: the rotor.
        reflected: whether to approximate the rotor by ``n² I_R`` on the diagonal of M; its parent
            is then the world and its mass zero.

    Raises:
        InputError: for a gear ratio or an axis of zero, a negative mass, an inertia that is not
            symmetric and positive semidefinite, or a wrong shape or a number that is not finite.
    """
    ratio = float(checked_array(f"{name}: gear_ratio", rotor.gear_ratio, ()))
    mass = float(checked_array(f"{name}: mass", rotor.mass, ()))
    if mass < 0.0 or ratio == 0.0:
        raise InputError(
            f"{name}: mass {mass} kg, gear ratio {ratio}; give a mass of at least 0 and a gear "
            "ratio other than 0"
        )
    com = checked_array(f"{name}: com", rotor.com, (3,))
    axis = arrays.axis[row]
    if rotor.axis is not None:
        axis = checked_array(f"{name}: axis", rotor.axis, (3,))
        length = np.linalg.norm(axis)
        if length == 0.0:
            raise InputError(f"{name}: axis is zero")
        axis = axis / length
    inertia = _inertia(name, rotor.inertia, axis)
    rotation = arrays.rotation[row]
    appended = {
        "parent": -1 if reflected else arrays.parent[row],
        "dof": arrays.dof[row],
        "ratio": ratio,
        "rotor": -1,
        "joint_type": REVOLUTE,
        "rotation": rotation,
        "translation": arrays.translation[row] + rotation @ com,
        "axis": axis,
        "mass": 0.0 if reflected else mass,
        "first_moment": np.zeros(3),
        "second_moment": 0.5 * np.trace(inertia) * np.eye(3) - inertia,
    }
    rotor_row = arrays.rotor.copy()
    rotor_row[row] = arrays.parent.size
    grown = {
        field: np.concatenate([getattr(arrays, field), np.array([value])]).astype(
            getattr(arrays, field).dtype
        )
        for field, value in appended.items()
        if field != "rotor"
    }
    return arrays._replace(rotor=np.append(rotor_row, -1), **grown)


def _inertia(name: str, value: ArrayLike, axis: np.ndarray) -> np.ndarray:
    """Return the rotational inertia about the centre of mass, (3, 3)."""
    if np.ndim(value) == 0:
        inertia = float(checked_array(f"{name}: inertia", value, ())) * np.outer(axis, axis)
    else:
        inertia = checked_array(f"{name}: inertia", value, (3, 3))
    if not np.allclose(inertia, inertia.T) or np.linalg.eigvalsh(inertia)[0] < -1e-12:
        raise InputError(f"{name}: inertia must be symmetric and not negative")
    return inertia
