"""Shapes of links: collision geometry, meshes, and the nearest point of a surface."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError

import numpy as np
from defusedxml.ElementTree import fromstring
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.dynamics.urdf import (
    element_placement,
    three_numbers,
    without_margin,
    without_namespace,
)
from rbd_control.errors import ModelError
from rbd_control.files.xacro_files import file_of
from rbd_control.robot.robot import ARM7, Robot
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.wording import listed

MOST_BYTES = 50_000_000
"""Maximum size of a mesh file [bytes]; a larger file counts as not found."""

FORMATS = (".stl", ".obj", ".dae", ".ply", ".glb")
"""Suffixes of the files that are read; archives are excluded, as they may expand without bound."""

_STL_HEADER = 84
"""Length of the header of a binary STL file, the number of triangles included [bytes]."""

_STL_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
"""One triangle of a binary STL file."""

Mesh = tuple[NDArray[np.float32], NDArray[np.uint32]]
"""Vertices, (k, 3), in the unit and frame of the file; triangles, (m, 3), as rows of vertices."""


class MeshFiles:
    """Finds and reads the mesh files of a robot description.

    Nothing is loaded from the network: an address such as ``https://`` counts as not found.

    Args:
        folder: folder of the description, the base of relative paths; None for a description given
            as text.
        environment: variables ``AMENT_PREFIX_PATH`` and ``ROS_PACKAGE_PATH`` with the folders that
            are searched for packages; by default the variables of the process.

    Attributes:
        missing: addresses for which :meth:`load` has returned None, each once.
        without_reader: those of them that need the package trimesh, which is not installed.
    """

    def __init__(self, folder: Path | None, environment: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._environment = os.environ if environment is None else environment
        self._read: dict[Path, Mesh | None] = {}
        self.missing: list[str] = []
        self.without_reader: list[str] = []

    def load(self, address: str) -> Mesh | None:
        """Return the mesh of an address; None if it is not found or cannot be read.

        If the result is None, the address is added to ``missing``. A file is read only once.

        Args:
            address: the ``filename`` of a mesh element, as for :meth:`find`.
        """
        path = self.find(address)
        mesh = None
        if path is not None:
            try:
                if path not in self._read:
                    self._read[path] = _mesh(path)
                mesh = self._read[path]
            except ModuleNotFoundError:
                if address not in self.without_reader:
                    self.without_reader.append(address)
        if mesh is None and address not in self.missing:
            self.missing.append(address)
        return mesh

    def find(self, address: str) -> Path | None:
        """Return the path of the mesh file that an address in a URDF names; None if there is none.

        A file that is larger than :data:`MOST_BYTES`, or whose suffix is not in :data:`FORMATS`,
        counts as none.

        Args:
            address: ``package://NAME/PATH``, ``file://PATH``, or a path, absolute or relative to
                the folder of the description. Other schemes are never found.
        """
        if "\0" in address:
            return None
        if address.startswith("package://"):
            package, _, rest = address[len("package://") :].partition("/")
            places = [folder / rest for folder in self._package_folders(package)]
        elif address.startswith("file://"):
            places = [Path(address[len("file://") :])]
        elif "://" in address:
            return None
        elif self._folder is not None or Path(address).is_absolute():
            places = [(self._folder or Path()) / address]
        else:
            return None
        return next((place for place in places if _is_file(place)), None)

    def _package_folders(self, package: str) -> list[Path]:
        """Return the candidate folders of a package, the most likely first."""
        prefixes = self._environment.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
        roots = self._environment.get("ROS_PACKAGE_PATH", "").split(os.pathsep)
        folders = [Path(prefix, "share", package) for prefix in prefixes if prefix]
        for root in filter(None, roots):
            folders += [Path(root, package), *([Path(root)] if Path(root).name == package else [])]
        # A description that lies in its package, or beside other packages.
        above = [] if self._folder is None else [self._folder, *self._folder.resolve().parents]
        folders += [place if place.name == package else place / package for place in above]
        return folders


def _is_file(path: Path) -> bool:
    try:
        known = path.suffix.lower() in FORMATS
        return known and path.is_file() and path.stat().st_size <= MOST_BYTES
    except OSError:
        return False


def _mesh(path: Path) -> Mesh | None:
    """Return the content of a file as one mesh; None if it cannot be read or has no valid faces.

    Binary STL files are read without trimesh, which belongs to the extra ``view``.

    Raises:
        ModuleNotFoundError: for other files, if trimesh is not installed.
    """
    try:
        mesh = _binary_stl(path.read_bytes()) if path.suffix.lower() == ".stl" else None
        if mesh is None:
            with _readers_silenced():
                mesh = _by_trimesh(path)
    except ModuleNotFoundError as error:
        if error.name == "trimesh":
            raise
        return None  # a format for which trimesh needs another package
    except Exception:  # the readers of the formats raise errors of any kind for damaged files
        return None
    vertices, faces = mesh
    is_sound = faces.size and faces.max() < len(vertices) and np.isfinite(vertices).all()
    return mesh if is_sound else None


@contextmanager
def _readers_silenced() -> Iterator[None]:
    """Suppress the log lines, tracebacks and warnings that the readers print for damaged files."""
    log, handler = logging.getLogger("trimesh"), logging.NullHandler()
    before = log.propagate
    log.addHandler(handler)  # without any handler, logging would write warnings to stderr
    log.propagate = False
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.propagate = before
        log.removeHandler(handler)


def _binary_stl(data: bytes) -> Mesh | None:
    """Return the mesh of a binary STL file; None for a file of another kind."""
    count = int.from_bytes(data[80:84], "little")
    if len(data) != _STL_HEADER + count * _STL_TRIANGLE.itemsize:
        return None
    corners = np.frombuffer(data, _STL_TRIANGLE, count, offset=_STL_HEADER)["corners"]
    vertices, faces = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    return vertices.astype(np.float32), faces.reshape(-1, 3).astype(np.uint32)


def _by_trimesh(path: Path) -> Mesh:
    import trimesh

    mesh = trimesh.load(path, force="mesh")
    return np.asarray(mesh.vertices, dtype=np.float32), np.asarray(mesh.faces, dtype=np.uint32)


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
        f"no collision geometry found for {listed(links)}: in collisions, these links are "
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
    return MeshFiles(Path(file_of(path)).absolute().parent if path and path != ARM7 else None)


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


SLENDERNESS = 0.1
"""Radius of a link without shape, relative to its length."""

RADII = (0.015, 0.06)
"""Bounds of the radius of a link without shape [m]."""


def assumed_radius(length: float) -> float:
    """Return the radius of a capsule for a link of which only the length is known, both in m."""
    return float(np.clip(SLENDERNESS * length, *RADII))


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
