"""Geometry of an arm: solids of each link, and their placements for given joint positions."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, frame_placement
from rbd_control.dynamics.urdf import Link, Robot, parse_urdf, without_margin
from rbd_control.files.input_files import reason
from rbd_control.robot.shapes import RADII, Mesh, MeshFiles, assumed_radius
from rbd_control.wording import listed, shortened

Array = NDArray[np.float64]
Colour = tuple[int, int, int]
Kind = Literal["box", "cylinder", "ellipsoid", "mesh"]

GREY: Colour = (176, 180, 188)
"""Colour of a shape whose description gives none, as red, green and blue from 0 to 255."""


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


def capsule(end: Sequence[float] | Array) -> list[tuple[Kind, Array, Array]]:
    """Return a capsule from the origin of a frame to a point, as solids.

    Its radius is that of :func:`~rbd_control.robot.shapes.assumed_radius`.

    Args:
        end: the point, (3,) [m].

    Returns:
        Kind, placement in this frame, (4, 4), and size as in :class:`Shape`, (3,) [m], of the
        sphere at the origin, the sphere at the point and the cylinder between them; only the first
        sphere for a point within it.
    """
    end = np.asarray(end, dtype=float)
    length = float(np.linalg.norm(end))
    radius = assumed_radius(length)
    sphere: tuple[Kind, Array, Array] = ("ellipsoid", np.eye(4), np.full(3, radius))
    if length <= radius:
        return [sphere]
    z = end / length
    helper = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = np.cross(helper, z)
    x /= np.linalg.norm(x)
    middle, tip = np.eye(4), np.eye(4)
    middle[:3, :3] = np.column_stack([x, np.cross(z, x), z])
    middle[:3, 3], tip[:3, 3] = 0.5 * end, end
    return [
        sphere,
        ("ellipsoid", tip, np.full(3, radius)),
        ("cylinder", middle, np.array([radius, radius, length])),
    ]


PACKAGE = "package://"
"""Beginning of the address of a mesh in a ROS package."""

LARGEST = 1e3
"""Largest size or coordinate of a shape that is drawn [m]."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Geometry of an arm for drawing; :func:`scene_of` makes it from a robot description.

    Attributes:
        model: the arm.
        shapes: the solids of all links.
        notes: messages for the user about links whose elements or meshes could not be read, with
            the remedy, and about links that are drawn as capsules; empty without such links.
    """

    model: Model
    shapes: tuple[Shape, ...]
    notes: tuple[str, ...]

    def placements(self, q: Array) -> Array:
        """Return the placement of each moving body in the world frame, (bodies, 4, 4).

        Args:
            q: joint positions in the order of the model, (nq,) [rad or m].

        Returns:
            Homogeneous transformations, translations in metres.
        """
        return np.array([frame_placement(self.model, q, link) for link in self.model.body_links])

    def link_placement(self, placements: Array, link: str) -> Array:
        """Return the placement of a link in the world frame, (4, 4).

        Args:
            placements: placements of the moving bodies, from :meth:`placements`.
            link: name of the link.

        Raises:
            InputError: when the model has no link of this name.
        """
        body = self.model.link_index(link)
        fixed = self.model.link_placement[link]
        return np.asarray(fixed if body < 0 else placements[body] @ fixed)

    @property
    def reach(self) -> float:
        """Length of the longest chain of joints, from the root to its last joint [m].

        It is the sum of the distances between successive joints, without the travel of prismatic
        joints, and does not include the link that the last joint moves.
        """
        arrays = self.model.arrays
        steps = np.linalg.norm(arrays.translation, axis=1)
        ends = np.zeros(self.model.bodies)
        for body, parent in enumerate(arrays.parent[: self.model.bodies]):
            ends[body] = steps[body] + (ends[parent] if parent >= 0 else 0.0)
        return float(ends.max())


def scene_of(model: Model, urdf: str, files: MeshFiles) -> Scene:
    """Return the geometry of an arm from its description.

    A link is drawn with its visual elements if all of them can be drawn, else with its collision
    elements if all of them can be drawn, else as capsules from its origin to its child joints; a
    link without elements and mass is not drawn. A mesh can be drawn if it is found
    and readable; a box, cylinder, sphere or mesh can be drawn if its sizes and coordinates are at
    most :data:`LARGEST`.

    Args:
        model: the arm, made from ``urdf``.
        urdf: URDF of the arm as text.
        files: finds and reads the meshes.

    Raises:
        ModelError: when the description is not a URDF.
        ModuleNotFoundError: when yourdfpy is not installed (extra ``view``).
    """
    description = parse_urdf(urdf)  # refuses entities and external references, too
    elements, notes = _elements(urdf)
    shapes: list[Shape] = []
    by_capsules = 0
    for link in description.links:
        choices = elements.get(link.name, ([], []))
        drawn = _described(model, link.name, choices, files)
        if not drawn and (link.mass > 0.0 or any(choices)):
            drawn = _by_capsules(model, description, link)
            by_capsules += 1
        shapes += drawn
    notes += _missing_meshes(files)
    if by_capsules:
        links = "1 link is" if by_capsules == 1 else f"{by_capsules} links are"
        why = "" if notes else ": give the URDF that the driver loads, with its shapes"
        notes.append(f"{links} drawn as capsules between the joints{why}")
    return Scene(model, tuple(shapes), tuple(notes))


def _missing_meshes(files: MeshFiles) -> list[str]:
    """Return notes about the meshes that could not be loaded, with the remedy."""
    absent = [address for address in files.missing if files.find(address) is None]
    packages = {a.removeprefix(PACKAGE).split("/")[0] for a in absent if a.startswith(PACKAGE)}
    others = [a for a in files.missing if not (a in absent and a.startswith(PACKAGE))]
    notes = []
    if packages:
        notes.append(
            f"no meshes of {listed(sorted(packages), 120)}: install this package and source its "
            "workspace, or set ROS_PACKAGE_PATH to the folder that contains it"
        )
    if others:
        notes.append(f"meshes not found or not readable: {listed(others, 120)}")
    return notes


@dataclass(frozen=True, eq=False)
class _Element:
    """A visual or collision element: its geometry as yourdfpy reads it, placement and colour."""

    geometry: Any
    placement: Array
    colour: Colour


_Choices = tuple[list[_Element], list[_Element]]
"""Visual and collision elements of a link."""


def _elements(urdf: str) -> tuple[dict[str, _Choices], list[str]]:
    """Return the elements of each link, and a note where they cannot be read."""
    import yourdfpy

    try:
        robot = yourdfpy.URDF.load(
            io.BytesIO(without_margin(urdf).encode()), build_scene_graph=False, load_meshes=False
        ).robot
        colours = {m.name: m.color for m in robot.materials if m.color is not None}
        return {
            link.name: (
                [_element(each, colours) for each in link.visuals],
                [_element(each, colours) for each in link.collisions],
            )
            for link in robot.links
        }, []
    except Exception as error:  # numbers and elements that the dynamics do not need are unchecked
        return {}, [
            f"visual and collision elements cannot be read: {shortened(reason(error), 120)}"
        ]


def _element(element: Any, colours: Mapping[str, Any]) -> _Element:
    placement = np.eye(4) if element.origin is None else np.array(element.origin, dtype=float)
    material = getattr(element, "material", None)
    colour = None
    if material is not None:
        colour = material.color if material.color is not None else colours.get(material.name)
    rgb = GREY if colour is None else _rgb(np.asarray(colour.rgba, dtype=float))
    return _Element(element.geometry, placement, rgb)


def _rgb(rgba: Array) -> Colour:
    if rgba.size < 3 or not np.isfinite(rgba).all():
        return GREY
    red, green, blue = (round(255 * float(np.clip(x, 0.0, 1.0))) for x in rgba[:3])
    return red, green, blue


def _described(model: Model, link: str, choices: _Choices, files: MeshFiles) -> list[Shape]:
    """Return the shapes of the first kind whose elements can all be drawn, or an empty list."""
    for elements in choices:
        shapes = [shape for each in elements if (shape := _shape(model, link, each, files))]
        if shapes and len(shapes) == len(elements):
            return shapes
    return []


def _shape(model: Model, link: str, element: _Element, files: MeshFiles) -> Shape | None:
    """Return the shape of an element; None where it cannot be drawn."""
    geometry, mesh = element.geometry, None
    kind: Kind
    if geometry.box is not None:
        kind, size = "box", geometry.box.size
    elif geometry.cylinder is not None:
        radius, length = geometry.cylinder.radius, geometry.cylinder.length
        kind, size = "cylinder", [radius, radius, length]
    elif geometry.sphere is not None:
        kind, size = "ellipsoid", [geometry.sphere.radius] * 3
    elif geometry.mesh is not None:
        scale = geometry.mesh.scale
        kind, size = "mesh", np.broadcast_to(1.0 if scale is None else scale, 3)
        mesh = files.load(str(geometry.mesh.filename))
        if mesh is None:
            return None
    else:
        return None
    size = np.array(size, dtype=float)
    if size.shape != (3,) or not (_is_sound(size) and _is_sound(element.placement)):
        return None
    return _placed(model, link, kind, (element.placement, size), element.colour, mesh)


def _is_sound(values: Array) -> bool:
    return bool((np.abs(values) <= LARGEST).all())  # False for NaN


def _by_capsules(model: Model, description: Robot, link: Link) -> list[Shape]:
    """Return capsules from the origin of a link to its child joints.

    Without distant child joints, the capsule leads to the centre of mass.
    """
    ends = [each.placement[:3, 3] for each in description.joints if each.parent == link.name]
    ends = [end for end in ends if np.linalg.norm(end) > RADII[0]] or [link.com]
    solids = [solid for end in ends for solid in capsule(end)]
    return [_placed(model, link.name, kind, (where, size), GREY) for kind, where, size in solids]


def _placed(
    model: Model,
    link: str,
    kind: Kind,
    solid: tuple[Array, Array],
    colour: Colour,
    mesh: Mesh | None = None,
) -> Shape:
    """Return a shape on its moving body; ``solid``: its placement in the link, and its size."""
    placement, size = solid
    vertices, faces = (None, None) if mesh is None else mesh
    return Shape(
        link=link,
        body=model.link_body[link],
        kind=kind,
        placement=model.link_placement[link] @ placement,
        size=size,
        colour=colour,
        vertices=vertices,
        faces=faces,
    )
