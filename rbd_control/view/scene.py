"""Geometry of an arm: solids of each link, and their placements for given joint positions."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, frame_placement
from rbd_control.dynamics.urdf import Link, parse_urdf, without_margin
from rbd_control.dynamics.urdf import Robot as Description
from rbd_control.files.input_files import reason
from rbd_control.robot.shapes import Mesh, MeshFiles
from rbd_control.wording import listed, shortened

Array = NDArray[np.float64]
Colour = tuple[int, int, int]
Kind = Literal["box", "cylinder", "ellipsoid", "mesh"]

GREY: Colour = (176, 180, 188)
"""Colour of a shape whose description gives none, as red, green and blue from 0 to 255."""

SEMI_AXES = (0.008, 0.6)
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
        the range :data:`SEMI_AXES`, (3,) [m]; None for a link without mass.
    """
    if link.mass <= 0.0:
        return None
    moments, axes = np.linalg.eigh(link.inertia)
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] *= -1.0
    squared = 2.5 * (moments.sum() - 2.0 * moments) / link.mass
    placement = np.eye(4)
    placement[:3, :3], placement[:3, 3] = axes, link.com
    return placement, np.clip(np.sqrt(np.maximum(squared, 0.0)), *SEMI_AXES)


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


LARGEST = 1e3
"""Largest size or coordinate of a shape that is drawn [m]."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Geometry of an arm for drawing; :func:`scene_of` makes it from a robot description.

    Attributes:
        model: the arm.
        shapes: the solids of all links.
        notes: messages for the user about links whose elements or meshes could not be read, and
            about links that are drawn as ellipsoids of inertia; empty without such links.
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
    elements if all of them can be drawn, else with the ellipsoid of its inertia and rods to its
    child joints; a link without elements and mass is not drawn. A mesh can be drawn if it is found
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
    by_inertia = 0
    for link in description.links:
        drawn = _described(model, link.name, elements.get(link.name, ([], [])), files)
        if not drawn:
            drawn = _by_inertia(model, description, link.name)
            by_inertia += bool(drawn)
        shapes += drawn
    if files.missing:
        notes.append(f"meshes not found or not readable: {listed(files.missing, 120)}")
    if by_inertia:
        links = "1 link is drawn as the ellipsoid of its inertia"
        if by_inertia > 1:
            links = f"{by_inertia} links are drawn as ellipsoids of their inertia"
        notes.append(links)
    return Scene(model, tuple(shapes), tuple(notes))


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


def _by_inertia(model: Model, description: Description, name: str) -> list[Shape]:
    """Return the ellipsoid of a link's inertia and rods to the joints that it carries.

    Nothing is drawn for a link without mass, which is only a frame.
    """
    link = next(each for each in description.links if each.name == name)
    ellipsoid = ellipsoid_of_inertia(link)
    if ellipsoid is None:
        return []
    carried = [joint.placement[:3, 3] for joint in description.joints if joint.parent == name]
    rods = [found for end in carried if (found := rod(end))]
    shapes = [_placed(model, name, "cylinder", each, GREY) for each in rods]
    return [*shapes, _placed(model, name, "ellipsoid", ellipsoid, GREY)]


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
