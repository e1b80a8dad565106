"""Inertias as 4x4 pseudo-inertias P: a moved body has T P T^T, and merged bodies have the sum.

The pseudo-inertia of a body about the origin of a frame is [[Sigma, h], [h^T, m]] with the second
moment Sigma = integral of x x^T dm, the first moment h = m c and the mass m. (Wensing, Kim,
Slotine: Linear Matrix Inequalities for Physically Consistent Inertial Parameter Identification,
IEEE RA-L 2018.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

TOLERANCE = 1e-3
"""Accepted violation of the conditions on an inertia, a fraction of its largest principal moment.

URDFs contain rounded numbers: the inertia of a thin plate may violate the triangle inequality by
one unit in the last digit.
"""


def pseudo_inertia(mass: float, com: Array, inertia: Array) -> Array:
    """Return the (4, 4) pseudo-inertia of a body about the origin of a frame.

    Args:
        mass: mass [kg].
        com: centre of mass in the frame, (3,) [m].
        inertia: rotational inertia about the centre of mass in the axes of the frame, (3, 3)
            [kg·m²].
    """
    result = np.empty((4, 4))
    second = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    result[:3, :3] = second + mass * np.outer(com, com)
    result[:3, 3] = result[3, :3] = mass * com
    result[3, 3] = mass
    return result


def central_inertia(pseudo: Array) -> Array:
    """Return the rotational inertia (3, 3) about the centre of mass [kg·m²], same axes.

    ``pseudo`` is the pseudo-inertia (4, 4) of the body. If the mass is zero, the inertia is about
    the origin.
    """
    second, first, mass = pseudo[:3, :3], pseudo[:3, 3], pseudo[3, 3]
    if mass > 0.0:
        second = second - np.outer(first, first) / mass
    return np.asarray(np.trace(second) * np.eye(3) - second)


def spatial_inertia(pseudo: Array) -> Array:
    """Return the (6, 6) map from the twist [omega; u] to [angular; linear momentum] of a body.

    Twist, momentum and ``pseudo`` (4, 4) are about the same origin and in the same axes.
    """
    second, first, mass = pseudo[:3, :3], pseudo[:3, 3], pseudo[3, 3]
    result = np.zeros((6, 6))
    result[:3, :3] = np.trace(second) * np.eye(3) - second
    result[:3, 3:] = cross_matrix(first)
    result[3:, :3] = -result[:3, 3:]
    result[3:, 3:] = mass * np.eye(3)
    return result


def cross_matrix(x: Array) -> Array:
    """Return the (3, 3) matrix S(x) with ``S(x) y = x cross y``, for ``x`` (3,)."""
    return np.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]])


def violation(inertia: Array, *, definite: bool) -> str:
    """Return why a rotational inertia about the centre of mass is impossible; "" if it is valid.

    The inertia of a mass distribution is positive semidefinite, and its principal moments satisfy
    the triangle inequality, which is equivalent to a positive semidefinite Sigma. Both conditions
    are tested with the tolerance :data:`TOLERANCE`. The limiting cases, a rod and a point, are
    valid unless ``definite`` is set.

    Args:
        inertia: symmetric, (3, 3) [kg·m²].
        definite: whether the smallest principal moment must exceed 1e-9 of the largest.
    """
    moments = np.linalg.eigvalsh(inertia)
    slack = TOLERANCE * abs(moments[2])
    if moments[0] < -slack or (definite and moments[0] <= 1e-9 * abs(moments[2])):
        return f"inertia is not positive definite: {_in_words(moments)}"
    if moments[0] + moments[1] < moments[2] - slack:
        return f"inertia violates the triangle inequality: {_in_words(moments)}"
    return ""


def _in_words(moments: NDArray[np.floating]) -> str:
    return f"principal moments {' '.join(f'{moment:.6g}' for moment in moments)} kg·m²"
