"""The moving bodies of a robot as arrays: plain data that the model and its kernels share."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

REVOLUTE: Final = 0
PRISMATIC: Final = 1
FLOATING: Final = 2


class ModelArrays(NamedTuple):
    """The moving bodies of the model: one row per moving body, parents before children.

    A floating root is six rows (0 to 5) of type ``FLOATING`` that share one body: rows 0 to 2 have
    as axis the unit vectors of rotation, rows 3 to 5 the unit vectors of translation. Placements
    are the identity, row 5 carries the inertia and rows 0 to 4 are massless.

    A joint that mimics another has a body of its own that moves with the leader's degree of
    freedom. Without such joints row i of the bodies belongs to degree of freedom i.

    Rotors of geared motors follow after all bodies, as rows without children, see
    :mod:`~rbd_control.dynamics.rotors`.
    """

    parent: NDArray[np.int64]
    """(n,) row of the parent body, -1 for the world."""
    dof: NDArray[np.int64]
    """(n,) index in v of the degree of freedom that moves the body or rotor."""
    ratio: Array
    """(n,) motion of the body's joint per motion of its degree of freedom: 1, the multiplier of a
    mimic joint, or a rotor's gear ratio."""
    rotor: NDArray[np.int64]
    """(n,) row of the rotor geared to the body's joint; -1 for a joint without a rotor."""
    joint_type: NDArray[np.int64]
    """(n,) ``REVOLUTE``, ``PRISMATIC`` or ``FLOATING``."""
    rotation: Array
    """(n, 3, 3) orientation of the body's frame in the parent body's frame at q = 0."""
    translation: Array
    """(n, 3) origin of the body's frame in the parent body's frame at q = 0 [m]."""
    axis: Array
    """(n, 3) unit vector of the joint axis in the body's frame."""
    mass: Array
    """(n,) mass of the body [kg]."""
    first_moment: Array
    """(n, 3) mass times centre of mass, about the body origin, body axes [kg·m]."""
    second_moment: Array
    """(n, 3, 3) integral of x x^T dm about the body origin, body axes [kg·m²]."""
    gravity: Array
    """(3,) acceleration of gravity, world axes [m/s²]."""
