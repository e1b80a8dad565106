"""Regrouping of inertial parameters, which reduces the operations of the exported code.

Two changes of the model do not affect torques, mass matrix or Christoffel symbols, but remove many
products from the exported code.

**Mass on the axis of a joint.** Mass on the axis of a revolute joint moves with the body before the
joint. Therefore mass, the first moment along the axis and the second moment along the axis are
moved to that body; for a prismatic joint the whole second moment is moved. Parameters that reach
the world are dropped. The remaining numbers do not describe a possible body, but the sums of the
recursions are the same. They are the base parameters of Gautier & Khalil, *Direct calculation of
minimum set of inertial parameters of serial robots*, IEEE Trans. Robotics and Automation 6(3),
1990.

**Pose of the root.** The sweeps work in one inertial frame at one instant. In the frame of the
first moving body instead of the world frame, the pose of that body matters only for the direction
of gravity, and its own rotation matrix is constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rbd_control.dynamics.constants import Constants
from rbd_control.dynamics.model_arrays import FLOATING, PRISMATIC, Array, ModelArrays
from rbd_control.dynamics.spatial import quaternion_rotation
from rbd_control.export.tracing_scalar import MATH

ROUNDOFF = 1e-15
"""Fraction of the largest entry below which a difference counts as roundoff."""


def regrouped(arrays: ModelArrays) -> ModelArrays:
    """Return the arrays of a model with all inertia moved as close to the root as possible.

    Torques, mass matrix and Christoffel symbols do not change, but the numbers of a row no longer
    describe a possible body.
    """
    mass, first = arrays.mass.copy(), arrays.first_moment.copy()
    second = 0.5 * (arrays.second_moment + arrays.second_moment.swapaxes(1, 2))
    for i in range(arrays.parent.size - 1, -1, -1):
        if arrays.joint_type[i] == FLOATING:
            continue
        axis, R, p = arrays.axis[i], arrays.rotation[i], arrays.translation[i]
        m, h, S = 0.0, np.zeros(3), second[i].copy()
        if arrays.joint_type[i] != PRISMATIC:
            m, h = float(mass[i]), axis * (axis @ first[i])
            S = np.outer(axis, axis) * (axis @ second[i] @ axis)
        mass[i] -= m
        first[i] = _difference(first[i], h)
        second[i] = _difference(second[i], S)
        parent = arrays.parent[i]
        if parent >= 0:
            # A point y of the moved mass is at x = p + R y in the frame of the parent.
            along = R @ h
            cross = np.outer(p, along)
            mass[parent] += m
            first[parent] += along + m * p
            second[parent] += R @ S @ R.T + cross + cross.T + m * np.outer(p, p)
    return arrays._replace(mass=mass, first_moment=first, second_moment=second)


def _difference(a: Array, b: Array) -> Array:
    """Return a - b, with entries that are only roundoff set to zero."""
    result = a - b
    result[np.abs(result) <= ROUNDOFF * np.abs(a).max()] = 0.0
    return result


def seen_from_root(
    constants: Constants, q: np.ndarray, run: Callable[[Any], Callable[..., Any]]
) -> tuple[Constants, np.ndarray]:
    """Return constants and positions with the root at zero and gravity rotated instead.

    They give the same torques and joint-space matrices as the arguments, with fewer operations.

    Args:
        constants: the regrouped model, as numbers.
        q: joint positions, (nq,) expressions.
        run: function that converts a kernel to a function on expressions.

    Returns:
        Constants and positions (nq,). With a prismatic root only its position changes. Both are
        unchanged if several bodies have the world as parent, because each of them would need a
        gravity vector of its own, and if another joint mimics the joint of the root.
    """
    gamma, zero = constants.gravity, 0.0
    if constants.parent.size and constants.joint_type[0] == FLOATING:
        R = np.array(run(quaternion_rotation)(*q[3:7]), dtype=object)
        at_zero = np.array([zero] * 6 + [1.0] + list(q[7:]), dtype=object)
        return constants._replace(gravity=R.T @ gamma), at_zero
    root = _only_root(constants)
    if root < 0:
        return constants, q
    at_zero = q.copy()
    at_zero[constants.dof[root]] = zero
    if constants.joint_type[root] == PRISMATIC:
        return constants, at_zero
    angle = constants.ratio[root] * q[constants.dof[root]]
    cosine, sine = MATH.cos(angle), MATH.sin(angle)
    e = constants.axis[root]
    along = e * (e @ gamma)
    # Gravity, rotated about the axis by minus the angle.
    turned = [
        a + cosine * (g - a) - sine * c
        for a, g, c in zip(along, gamma, np.cross(e, gamma), strict=True)
    ]
    return constants._replace(gravity=np.array(turned, dtype=object)), at_zero


def _only_root(constants: Constants) -> int:
    """Return the row of the only body (rotors left out) whose parent is the world.

    The result is -1 if there are several such bodies, if a rotor whose parent is the world has
    mass, or if a joint further out mimics the joint of the body.
    """
    weight = constants.mass.astype(bool) | constants.first_moment.astype(bool).any(axis=1)
    rotors = set(constants.rotor[constants.rotor >= 0].tolist())
    roots = [int(i) for i in np.flatnonzero(constants.parent < 0)]
    bodies = [i for i in roots if i not in rotors and constants.parent.size]
    if len(bodies) != 1 or any(weight[i] for i in roots if i != bodies[0]):
        return -1
    # Another joint that mimics the root's joint needs the position of the root's joint.
    follows = constants.dof == constants.dof[bodies[0]]
    return bodies[0] if bool((constants.parent[follows] < 0).all()) else -1
