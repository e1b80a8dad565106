"""States to test at, motion along a velocity, numerical derivatives, and how errors are measured.

**Errors.** Joints are measured in rad or m, torques in N·m or N, and one robot has links of
grammes behind links of kilogrammes, so the largest entry of M says nothing about a finger. With
``unit_i = sqrt(M_ii)`` the quantities ``M_ij / (unit_i unit_j)``, ``tau_i / unit_i`` and
``a_i unit_i`` have the same unit at every joint. Of these :func:`relative` takes the largest
difference over the largest reference value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from robots import random_tree_urdf

from rbd_control.dynamics import Model, Rotor, with_rotors

Array = np.ndarray


def units(M: Array) -> tuple[Array, Array]:
    """Return ``unit`` (nv,) for torques and accelerations, and its outer product for matrices."""
    unit = np.sqrt(np.diag(M))
    return unit, np.outer(unit, unit)


def relative(value: Any, reference: Any, size: Any = None) -> float:
    """Largest difference over the largest of ``size``, the reference by default.

    It is the difference itself where that is zero, as for a link that does not move.
    """
    value, reference = np.asarray(value), np.asarray(reference)
    assert value.shape == reference.shape
    largest = np.abs(reference if size is None else size).max()
    return float(np.abs(value - reference).max() / (largest or 1.0))


def tree(seed: int, *, floating: bool = False, rotors: str = "", joints: int = 7) -> Model:
    """Return a random tree with revolute and prismatic joints and gravity in any direction.

    Args:
        seed: seed of the tree.
        floating: whether its base floats.
        rotors: ``"geared"`` or ``"reflected"`` for rotors on every other joint, about any axis.
        joints: number of joints.
    """
    rng = np.random.default_rng(seed)
    urdf = random_tree_urdf(seed, joints, prismatic=0.3, branching=0.4, continuous=0.2)
    model = Model.from_urdf(urdf, floating_base=floating, gravity=rng.uniform(-10, 10, 3))
    if not rotors:
        return model
    inertia = np.diag([2e-4, 3e-4, 4e-4])
    geared = {
        name: Rotor(rng.uniform(-60, 60), inertia, rng.normal(size=3), 0.2, rng.normal(size=3))
        for name in model.joint_names[::2]
    }
    return with_rotors(model, geared, reflected=rotors == "reflected")


def random_q(model: Model, rng: np.random.Generator) -> Array:
    """Joint positions in [-2, 2] rad or m; a floating base turned anyhow."""
    q = rng.uniform(-2.0, 2.0, model.nq)
    if model.floating_base:
        q[3:7] = rng.normal(size=4)
        q[3:7] /= np.linalg.norm(q[3:7])
    return q


def advance(model: Model, q: Array, v: Array, t: float) -> Array:
    """Return a curve through ``q`` with velocity ``v`` (..., nv) at t = 0, of constant joint rates.

    Only the tangent matters for a first derivative, so the base's position goes straight.
    """
    if not model.floating_base:
        return q + v * t
    w, u = v[..., :3], v[..., 3:6]
    angle = np.linalg.norm(w, axis=-1, keepdims=True) * t
    # sin(angle / 2) / (angle / 2), without the division by zero.
    half = 0.5 * t * np.sinc(0.5 * angle / np.pi) * w
    turn = np.concatenate([half, np.cos(0.5 * angle)], axis=-1)
    return np.concatenate(
        [
            q[:3] + t * u @ rotation(q[3:7]).T,
            hamilton(np.broadcast_to(q[3:7], turn.shape), turn),
            q[7:] + t * v[..., 6:],
        ],
        axis=-1,
    )


def rotation(quaternion: Array) -> Array:
    """Return the rotation of a unit quaternion [x y z w]: w² + S² + 2 w S + x xᵀ form."""
    x, w = quaternion[:3], quaternion[3]
    return (w * w - x @ x) * np.eye(3) + 2.0 * np.outer(x, x) + 2.0 * w * cross_matrix(x)


def hamilton(a: Array, b: Array) -> Array:
    """Return the product of quaternions [x y z w]."""
    x, y = a[..., :3], b[..., :3]
    vector = a[..., 3:] * y + b[..., 3:] * x + np.cross(x, y)
    scalar = a[..., 3:] * b[..., 3:] - np.sum(x * y, axis=-1, keepdims=True)
    return np.concatenate([vector, scalar], axis=-1)


def cross_matrix(x: Array) -> Array:
    """S(x) with S(x) y = x cross y."""
    return np.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]])


STEP = 1e-3
"""Step of :func:`derivative` along unit rates."""

DIFFERENCE = 1e-10
"""Tolerance of a numerical derivative.

Along rates with ``sum |v_i| = 1`` the entries of M, J, T and V are trigonometric polynomials of
frequency two at most, so the formula's error is ``STEP**4 * 2**5 / 30`` = 1e-12 of their size, and
roundoff leaves some ``10 eps / STEP`` = 2e-12. A thousand random trees stay below 2e-11.
"""


def derivative(function: Callable[[float], Any]) -> Array:
    """d function / dt at t = 0 by the central difference of fourth order."""
    near = function(STEP) - function(-STEP)
    far = function(2.0 * STEP) - function(-2.0 * STEP)
    return np.asarray((8.0 * near - far) / (12.0 * STEP))
