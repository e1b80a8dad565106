"""Collision geometry of a description: the corners of the solids of each link."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from xml.etree.ElementTree import Element, ParseError

import numpy as np
from defusedxml.ElementTree import fromstring
from numpy.typing import NDArray

from rbd_control.dynamics.urdf import (
    element_placement,
    three_numbers,
    without_margin,
    without_namespace,
)
from rbd_control.errors import ModelError
from rbd_control.robot.mesh_files import MeshFiles

Array = NDArray[np.float64]

SIDES = 16
"""Number of sides of the prism that approximates a cylinder, and of points per ring of a sphere."""

LARGEST = 1e3
"""Largest accepted coordinate of a solid in its own frame [m]; larger solids are left out."""


def link_corners(urdf: str, files: MeshFiles) -> dict[str, Array]:
    """Return the corners of all solids of each link, in the frame of the link.

    The convex hull of the corners approximates the link. Solids are the collision elements, or the
    visual elements of a link that has no collision element. Cylinders, capsules and spheres are
    approximated by polyhedra, see :data:`SIDES`. A solid that cannot be read (a mesh that is not
    found, a shape with a wrong number) or exceeds :data:`LARGEST` is left out.

    Args:
        urdf: URDF text that a model has been made from, so that it is known to be valid.
        files: finds and reads the meshes.

    Returns:
        Corners (k, 3) [m] by link name, for each link that has a solid.
    """
    found: dict[str, Array] = {}
    for link in without_namespace(fromstring(without_margin(urdf))).findall("link"):
        parts = [part for solid in _solids(link) for part in _corners(solid, files)]
        if parts:
            found[str(link.get("name"))] = np.concatenate(parts)
    return found


def mesh_addresses(urdf: str) -> list[str]:
    """Return the addresses of all meshes that :func:`link_corners` reads, each once.

    Args:
        urdf: URDF text; a text that is not XML has no meshes.
    """
    try:
        links = without_namespace(fromstring(without_margin(urdf))).findall("link")
    except (ParseError, ValueError):
        return []
    solids = (solid for link in links for solid in _solids(link))
    meshes = (mesh for solid in solids for mesh in solid.findall("geometry/mesh"))
    return list(dict.fromkeys(mesh.get("filename", "") for mesh in meshes))


def _solids(link: Element) -> list[Element]:
    """Return the collision elements of a link, or its visual elements if it has none."""
    return link.findall("collision") or link.findall("visual")


def _corners(solid: Element, files: MeshFiles) -> Iterator[Array]:
    """Yield the corners of a solid in the frame of its link; nothing if it cannot be read."""
    geometry = solid.find("geometry")
    if geometry is None or len(geometry) == 0:
        return
    try:
        points = _shape_corners(geometry[0], files)
        placement = element_placement(solid, "collision geometry: origin")
    except (ModelError, ValueError):
        return
    if points is not None and points.size and (np.abs(points) <= LARGEST).all():
        yield points @ placement[:3, :3].T + placement[:3, 3]


def _shape_corners(shape: Element, files: MeshFiles) -> Array | None:
    """Return the corners of a shape in its own frame, (k, 3) [m].

    The result is None for an unknown shape or a mesh that is not found or cannot be read.

    Raises:
        ModelError: for a ``size`` or ``scale`` that does not consist of three numbers.
        ValueError: for a ``radius`` or ``length`` that is not a number.
    """
    if shape.tag == "box":
        half = 0.5 * three_numbers(shape, "size", "box: size")
        return half * np.array(list(product((-1.0, 1.0), repeat=3)))
    if shape.tag == "sphere":
        return _sphere(float(shape.get("radius", "nan")))
    if shape.tag in ("cylinder", "capsule"):
        radius, length = float(shape.get("radius", "nan")), float(shape.get("length", "nan"))
        round_ends = shape.tag == "capsule"
        end = _sphere(radius) if round_ends else np.column_stack([_ring(radius), np.zeros(SIDES)])
        middle = np.array([0.0, 0.0, 0.5 * length])
        return np.concatenate([end - middle, end + middle])
    if shape.tag == "mesh":
        mesh = files.load(shape.get("filename", ""))
        if mesh is None:
            return None
        scale = three_numbers(shape, "scale", "mesh: scale", default="1 1 1")
        return np.asarray(mesh[0], dtype=float) * scale
    return None


def _ring(radius: float) -> Array:
    """Return points on a circle about the origin, (SIDES, 2) [m]."""
    turn = np.arange(SIDES) * (2.0 * np.pi / SIDES)
    return radius * np.column_stack([np.cos(turn), np.sin(turn)])


def _sphere(radius: float) -> Array:
    """Return points on a sphere about the origin, in rings from pole to pole, (k, 3) [m]."""
    heights = np.linspace(-0.5 * np.pi, 0.5 * np.pi, SIDES // 2 + 1)
    rings = [
        np.column_stack([_ring(radius * np.cos(h)), np.full(SIDES, radius * np.sin(h))])
        for h in heights
    ]
    return np.concatenate(rings)
