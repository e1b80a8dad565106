"""A moving body of the tree, and the placement that a joint gives it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics.inertia import cross_matrix

Array = NDArray[np.float64]

ROOT_JOINT = "root_joint"
"""Name of the joint of a floating base in messages."""


@dataclass
class Body:
    """A moving body: motion subspace, placement of its joint in the parent, and inertia.

    Attributes:
        joint: name of the joint that moves it.
        link: name of the link that the joint moves.
        parent: row of the parent body, -1 for the world.
        placement: (4, 4) frame of the joint at zero in the frame of the parent body.
        subspace: (6,) motion [omega; u] of the body per unit of joint velocity, body axes.
        limits: lower, upper, velocity, effort.
        dof: degree of freedom that moves it.
        ratio: motion of the joint per motion of that degree of freedom.
        leads: whether the joint is independent, that is, does not mimic another joint.
        pseudo: (4, 4) pseudo-inertia in the frame of the body.
    """

    joint: str
    link: str
    parent: int
    placement: Array
    subspace: Array
    limits: tuple[float, float, float, float]
    dof: int
    ratio: float = 1.0
    leads: bool = True
    pseudo: Array = field(default_factory=lambda: np.zeros((4, 4)))


def displacement(subspace: Array, position: float) -> Array:
    """Return the (4, 4) placement a joint gives its body at ``position`` [rad or m]."""
    result = np.eye(4)
    result[:3, 3] = subspace[3:] * position
    axis = cross_matrix(subspace[:3])
    result[:3, :3] += math.sin(position) * axis + (1.0 - math.cos(position)) * axis @ axis
    return result
