"""Points on the collision geometry of the links, where obstacles can touch them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.robot.collision_shapes import link_corners
from rbd_control.robot.mesh_files import MeshFiles
from rbd_control.robot.robot import ARM7, Robot
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.wording import listed

Array = NDArray[np.float64]

POINTS = 24
"""Maximum number of points on the surface of each moving body."""

_TRIES = 40
"""Number of random points that are averaged for each point of the surface."""

_NORMAL = 0.3
"""Weight of a difference of unit normals against a distance when points are grouped.

Distances are relative to the square root of the body's surface area.
"""


@dataclass(frozen=True, eq=False)
class Surface:
    """Points on the surface of the moving bodies, each representing a part of the surface.

    Attributes:
        body: row of the moving body, (k,).
        point: position in the frame of the body, (k, 3) [m].
        normal: outward unit normal in the frame of the body, (k, 3).
        area: area of the part of the surface that the point represents, (k,) [m²].
        note: note for the user about meshes that cannot be read without trimesh; empty without any.
    """

    body: NDArray[np.intp]
    point: Array
    normal: Array
    area: Array
    note: str = ""


NO_SURFACE = Surface(np.empty(0, np.intp), np.empty((0, 3)), np.empty((0, 3)), np.empty(0))
"""The surface of an arm without known geometry."""


def missing_geometry(model: Model, surface: Surface) -> str:
    """Return a note for the user that names the moving links without points in ``surface``.

    The note is empty if all have points. It names trimesh if meshes could not be read without it.
    """
    first = model.nv - len(model.joint_names)
    rows = set(surface.body)
    links = [link for i, link in enumerate(model.body_links, start=first) if i not in rows]
    if not links:
        return ""
    return (
        f"no collision geometry found for {', '.join(links)}: in collisions, these links are "
        f"identified less reliably; "
        f"{surface.note or 'check the collision elements and the paths of the meshes'}"
    )


def surface_of_robot(robot: Robot) -> Surface:
    """Return the points of :func:`surface_of` for an arm.

    Relative mesh paths in its URDF are relative to the folder of the URDF file, if it has one.
    """
    return surface_of(robot.model, robot.urdf, mesh_files(robot.parameters))


def mesh_files(parameters: RobotParameters) -> MeshFiles:
    """Return the mesh files of an arm; relative paths start at the folder of its URDF file."""
    path = parameters.urdf
    return MeshFiles(Path(path).absolute().parent if path and path != ARM7 else None)


def surface_of(model: Model, urdf: str, files: MeshFiles) -> Surface:
    """Return points on the convex hull of each moving body and all links fixed to it.

    Each body has at most :data:`POINTS` points, the same in each call. Bodies without geometry,
    such as those whose meshes are not found, or whose corners span no volume, have no points.

    Args:
        model: the arm.
        urdf: URDF text of the arm.
        files: finds and reads the meshes.
    """
    corners: dict[int, list[Array]] = {}
    for link, points in link_corners(urdf, files).items():
        body, placement = model.link_body.get(link, -1), model.link_placement.get(link)
        if body >= 0 and placement is not None:
            corners.setdefault(body, []).append(points @ placement[:3, :3].T + placement[:3, 3])
    found = [
        part for body, parts in sorted(corners.items()) if (part := _part(body, np.vstack(parts)))
    ]
    note = ""
    if files.without_reader:
        note = (
            f"meshes that are not binary STL need the package trimesh, which is not installed "
            f"(pip install trimesh): {listed(files.without_reader)}"
        )
    if not found:
        return replace(NO_SURFACE, note=note)
    columns = ("body", "point", "normal", "area")
    arrays = {name: np.concatenate([getattr(part, name) for part in found]) for name in columns}
    return Surface(**arrays, note=note)


def _part(body: int, corners: Array) -> Surface | None:
    """Return the surface of one body; None if its corners span no volume."""
    from scipy.spatial import ConvexHull, QhullError  # 0.2 s, which most nodes can do without

    try:
        hull = ConvexHull(corners)
    except (QhullError, ValueError):
        return None
    a, b, c = hull.points[hull.simplices].swapaxes(0, 1)
    area = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)
    rng = np.random.default_rng(0)  # the same points at each start
    face = rng.choice(area.size, POINTS * _TRIES, p=area / area.sum())
    x, y = rng.random((2, face.size))
    outside = x + y > 1.0
    x[outside], y[outside] = 1.0 - x[outside], 1.0 - y[outside]
    place = a[face] + x[:, None] * (b - a)[face] + y[:, None] * (c - a)[face]
    normal = hull.equations[face, :3]
    nearest = _clusters(np.hstack([place / np.sqrt(area.sum()), _NORMAL * normal]))
    count = np.bincount(nearest, minlength=POINTS)
    known = count > 0
    mean_place, mean_normal = (_means(values, nearest)[known] for values in (place, normal))
    mean_normal /= np.linalg.norm(mean_normal, axis=1)[:, None]
    share = area.sum() * count[known] / count.sum()
    return Surface(np.full(int(known.sum()), body, np.intp), mean_place, mean_normal, share)


def _clusters(feature: Array) -> NDArray[np.intp]:
    """Return for each row the number, below ``POINTS``, of the nearest cluster centre.

    The centres are rows that lie far from each other: each is the row farthest from those before.
    """
    chosen = feature[:1]
    squared = ((feature - chosen) ** 2).sum(axis=1)
    nearest = np.zeros(len(feature), np.intp)
    for k in range(1, POINTS):
        centre = feature[int(squared.argmax())]
        own = ((feature - centre) ** 2).sum(axis=1)
        nearest[own < squared] = k
        squared = np.minimum(squared, own)
    return nearest


def _means(values: Array, group: NDArray[np.intp]) -> Array:
    """Return the mean of the rows (m, 3) of each group, (POINTS, 3)."""
    count = np.maximum(np.bincount(group, minlength=POINTS), 1)
    sums = [np.bincount(group, column, minlength=POINTS) for column in values.T]
    return np.column_stack(sums) / count[:, None]
