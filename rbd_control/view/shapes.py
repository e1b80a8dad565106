"""Solids with which the links of an arm are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics.urdf import Link

Array = NDArray[np.float64]
Colour = tuple[int, int, int]
Kind = Literal["box", "cylinder", "ellipsoid", "mesh"]

GREY: Colour = (176, 180, 188)
"""Colour of a shape whose description gives none, as red, green and blue from 0 to 255."""

SMALLEST, LARGEST = 0.008, 0.6
"""Bounds of the semi-axes of an ellipsoid of inertia [m], because descriptions may be wrong."""

ROD = 0.018
"""Radius of the rods from the origin of a link to its child joints [m].

They are drawn for links without drawable geometry, with the ellipsoid of inertia."""


@dataclass(frozen=True, eq=False)
class Shape:
    """One solid of a link.

    Attributes:
        link: name of the link.
        body: row of the moving body that the link is part of, -1 for the world.
        kind: kind of solid.
        placement: placement in the frame of that body, or of the world, (4, 4).
        size: edges of a box; radius, radius and length of a cylinder along z; semi-axes of an
            ellipsoid; scale of a mesh, (3,) [m, or a ratio for a mesh].
        colour: red, green and blue from 0 to 255.
        vertices: corners of a mesh before scaling, (k, 3) [m]; None for other kinds.
        faces: triangles of a mesh as indices of vertices, (m, 3); None for other kinds.
    """

    link: str
    body: int
    kind: Kind
    placement: Array
    size: Array
    colour: Colour = GREY
    vertices: NDArray[np.float32] | None = None
    faces: NDArray[np.uint32] | None = None


def ellipsoid_of_inertia(link: Link) -> tuple[Array, Array] | None:
    """Return the solid ellipsoid of uniform density with the mass and inertia of a link.

    With principal moments ``I_k`` about the centre of mass, the squared semi-axes are
    ``a_k² = 5 (I_i + I_j - I_k) / (2 m)``.

    Returns:
        Placement of the ellipsoid in the frame of the link, (4, 4), and its semi-axes, clipped to
        the range from :data:`SMALLEST` to :data:`LARGEST`, (3,) [m]; None for a link without mass.
    """
    if link.mass <= 0.0:
        return None
    moments, axes = np.linalg.eigh(link.inertia)
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] *= -1.0
    squared = 2.5 * (moments.sum() - 2.0 * moments) / link.mass
    placement = np.eye(4)
    placement[:3, :3], placement[:3, 3] = axes, link.com
    return placement, np.clip(np.sqrt(np.maximum(squared, 0.0)), SMALLEST, LARGEST)


def rod(end: Sequence[float] | Array) -> tuple[Array, Array] | None:
    """Return a cylinder of radius :data:`ROD` from the origin of a frame to a point.

    Args:
        end: the point, (3,) [m].

    Returns:
        Placement of the cylinder in this frame, (4, 4), and its size as in :class:`Shape`, (3,)
        [m]; None for a point that is closer to the origin than :data:`ROD`.
    """
    end = np.asarray(end, dtype=float)
    length = float(np.linalg.norm(end))
    if length < ROD:
        return None
    z = end / length
    helper = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = np.cross(helper, z)
    x /= np.linalg.norm(x)
    placement = np.eye(4)
    placement[:3, :3] = np.column_stack([x, np.cross(z, x), z])
    placement[:3, 3] = 0.5 * end
    return placement, np.array([ROD, ROD, length])
