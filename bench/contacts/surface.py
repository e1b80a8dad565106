"""Surface on which a link can be touched: the convex hull of its geometry.

The geometry of a link consists of its collision elements, or without them, of its visual elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from bench.contacts.arms import Arm

_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangles around a moving body, in the frame of the body, with outward normals."""

    corners: np.ndarray
    """(m, 3, 3) [m]."""
    normals: np.ndarray
    """(m, 3)."""

    def sample(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return a random point of the surface, uniform by area, and the outward normal there.

        Both are (3,) in the frame of the body, the point in metres.
        """
        a, b, c = self.corners.swapaxes(0, 1)
        area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
        k = rng.choice(len(area), p=area / area.sum())
        x, y = rng.random(2)
        if x + y > 1.0:
            x, y = 1.0 - x, 1.0 - y
        return a[k] + x * (b[k] - a[k]) + y * (c[k] - a[k]), self.normals[k]


def surfaces(arm: Arm) -> dict[int, Surface]:
    """Return the surface of each moving body that has geometry, by its row in the model.

    Raises:
        ValueError: if a geometry is no mesh, cylinder or box.
    """
    vertices: dict[int, list[np.ndarray]] = {}
    for link in ElementTree.fromstring(arm.urdf).findall("link"):
        name = str(link.get("name"))
        body = arm.model.link_body[name]
        placement = arm.model.link_placement[name]
        for drawn in link.findall("collision") or link.findall("visual"):
            points = _vertices(drawn, arm.meshes)
            vertices.setdefault(body, []).append(points @ placement[:3, :3].T + placement[:3, 3])
    found = {}
    for body, parts in vertices.items():
        if body >= 0:
            hull = ConvexHull(np.concatenate(parts))
            found[body] = Surface(hull.points[hull.simplices], hull.equations[:, :3])
    return found


def _vertices(drawn: ElementTree.Element, meshes: Path) -> np.ndarray:
    shape = drawn.find("geometry")[0]  # type: ignore[index]
    if shape.tag == "mesh":
        path = meshes.parent / str(shape.get("filename")).removeprefix("package://")
        points = _stl(path) * np.fromstring(shape.get("scale", "1 1 1"), sep=" ")
    elif shape.tag == "cylinder":
        radius, length = float(shape.get("radius", 0)), float(shape.get("length", 0))
        turn = np.arange(24) * (2.0 * np.pi / 24)
        ring = np.column_stack([radius * np.cos(turn), radius * np.sin(turn)])
        points = np.concatenate(
            [np.column_stack([ring, np.full(24, z)]) for z in (-0.5 * length, 0.5 * length)]
        )
    elif shape.tag == "box":
        half = 0.5 * np.fromstring(shape.get("size", ""), sep=" ")
        points = half * np.array(list(product((-1.0, 1.0), repeat=3)))
    else:
        raise ValueError(f"no surface for the shape {shape.tag!r}")
    origin = drawn.find("origin")
    if origin is None:
        return points
    rotation = Rotation.from_euler("xyz", np.fromstring(origin.get("rpy", "0 0 0"), sep=" "))
    return rotation.apply(points) + np.fromstring(origin.get("xyz", "0 0 0"), sep=" ")


def _stl(path: Path) -> np.ndarray:
    """Return the corners of a binary STL file, (k, 3) [m]."""
    data = path.read_bytes()
    count = int.from_bytes(data[80:84], "little")
    triangles = np.frombuffer(data, _TRIANGLE, count, offset=84)
    return np.unique(triangles["corners"].reshape(-1, 3).astype(float), axis=0)
