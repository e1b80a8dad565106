"""A moving body of the tree of links, and the placement that its joint gives it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics.inertia import cross_matrix

Array = NDArray[np.float64]

ROOT_JOINT = "root_joint"
"""Name of the joint that the six bodies of a floating base have, also in error messages."""


@dataclass
class Body:
    """A moving body: motion subspace, placement of its joint in the parent, and inertia.

    Attributes:
        joint: name of the joint that moves it.
        link: name of the link that the joint moves.
        parent: index of the parent body in the list of bodies, -1 for the world.
        placement: (4, 4) frame of the body in the frame of the parent body where its degree of
            freedom is at zero.
        subspace: (6,) motion [omega; u] of the body per unit of joint velocity, body axes.
        limits: lower and upper position [rad or m], velocity [rad/s or m/s], effort [N·m or N].
        dof: index in v of the degree of freedom that moves it.
        ratio: motion of the joint per motion of this degree of freedom.
        leads: whether the joint is independent, that is, does not mimic another joint.
        pseudo: (4, 4) pseudo-inertia of the body, all links fixed to it included, in its frame.
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
    """Return the placement of a body at a joint position, in its frame at position zero, (4, 4).

    Args:
        subspace: unit rotation or unit translation of the joint, [omega; u], (6,).
        position: joint position [rad or m].
    """
    result = np.eye(4)
    result[:3, 3] = subspace[3:] * position
    axis = cross_matrix(subspace[:3])
    result[:3, :3] += math.sin(position) * axis + (1.0 - math.cos(position)) * axis @ axis
    return result
