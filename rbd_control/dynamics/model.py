"""The frozen model: what compiled kernels and people need to know of a robot.

Conventions, said here once. Motion vectors are [omega; u] and force vectors [moment; force],
angular part first. The frame of a moving body is the frame of the link its joint moves, which at
zero is the joint frame. The world frame is the frame of the root link, unless the base floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.errors import InputError

Array = NDArray[np.float64]

REVOLUTE: Final = 0
PRISMATIC: Final = 1
FLOATING: Final = 2


class ModelArrays(NamedTuple):
    """The model as the kernels take it: one row per moving body, parents before children.

    A floating root is six rows (0 to 5) of type ``FLOATING`` that share one body: rows 0 to 2 have
    as axis the unit vectors of rotation, rows 3 to 5 those of translation, placements are the
    identity, row 5 carries the inertia and rows 0 to 4 are massless.
    """

    parent: NDArray[np.int64]
    """(n,) row of the parent body, -1 for the world."""
    joint_type: NDArray[np.int64]
    """(n,) ``REVOLUTE``, ``PRISMATIC`` or ``FLOATING``."""
    rotation: Array
    """(n, 3, 3) joint frame in the parent body's frame at q = 0."""
    translation: Array
    """(n, 3) origin of the joint frame in the parent body's frame at q = 0 [m]."""
    axis: Array
    """(n, 3) unit vector in the joint frame."""
    mass: Array
    """(n,) [kg]."""
    first_moment: Array
    """(n, 3) mass times centre of mass, about the body origin, body axes [kg·m]."""
    second_moment: Array
    """(n, 3, 3) integral of x x^T dm about the body origin, body axes [kg·m²]."""
    gravity: Array
    """(3,) acceleration of gravity, world axes [m/s²]."""


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A robot with ``nv`` degrees of freedom, made by :meth:`from_urdf` and never changed.

    With a fixed base q and v list the joints in the order of ``joint_names`` and nq = nv. With a
    floating base q = [x y z, qx qy qz qw, joints], v = [omega; u; joint velocities] with omega and
    u of the root body in its own axes, nv = 6 + len(joint_names) and nq = nv + 1. Either way joint
    i of ``joint_names`` is row nv - len(joint_names) + i of v and of ``arrays``.
    """

    name: str
    joint_names: tuple[str, ...]
    """The movable joints, depth first in the order of the description."""
    joint_links: tuple[str, ...]
    """The link that each joint of ``joint_names`` moves."""
    link_names: tuple[str, ...]
    """All links of the description, those fixed to others included."""
    nq: int
    nv: int
    lower_limit: Array
    """(nv,) lowest position [rad or m], -inf where there is none."""
    upper_limit: Array
    """(nv,) highest position [rad or m], inf where there is none."""
    velocity_limit: Array
    """(nv,) greatest speed [rad/s or m/s], inf where there is none."""
    effort_limit: Array
    """(nv,) greatest torque or force [N·m or N], inf where there is none."""
    gravity: Array
    """(3,) acceleration of gravity, world axes [m/s²]."""
    arrays: ModelArrays
    """What the compiled kernels take; to be treated as read-only."""
    link_body: dict[str, int]
    """Row of the moving body that each link is rigidly part of, -1 for the world."""
    link_placement: dict[str, Array]
    """(4, 4) placement of each link in the frame of that body, or of the world."""

    def joint_index(self, name: str) -> int:
        """Row of the joint ``name`` in v and in ``arrays``.

        Raises:
            InputError: when there is no such movable joint; the message lists them.
        """
        if name not in self.joint_names:
            raise InputError(f"no joint {name!r}; joints are {', '.join(self.joint_names)}")
        return self.nv - len(self.joint_names) + self.joint_names.index(name)

    def link_index(self, link: str) -> int:
        """Row of the moving body that ``link`` is rigidly part of, -1 when fixed to the world.

        Raises:
            InputError: when there is no such link; the message lists them.
        """
        if link not in self.link_body:
            raise InputError(f"no link {link!r}; links are {', '.join(self.link_names)}")
        return self.link_body[link]
