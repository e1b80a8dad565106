"""Mesh files: resolution of ``package://`` addresses, and reading of the files."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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
