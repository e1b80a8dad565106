"""Collision geometry of a description: corners of its solids, and points on its surface."""

import struct
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from rbd_control.dynamics import Model
from rbd_control.robot.shapes import (
    POINTS,
    MeshFiles,
    link_corners,
    missing_geometry,
    surface_of,
)

URDF = """
<robot name="r">
  <link name="base"><collision><geometry><sphere radius="1"/></geometry></collision></link>
  <link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
    iyz="0"/></inertial>{a}</link>
  <link name="b"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
    iyz="0"/></inertial></link>
  <link name="tool">{tool}</link>
  <joint name="1" type="continuous"><parent link="base"/><child link="a"/></joint>
  <joint name="2" type="continuous"><parent link="a"/><child link="b"/></joint>
  <joint name="3" type="fixed"><parent link="b"/><child link="tool"/><origin xyz="0 0 0.5"/></joint>
</robot>
"""
BOX = '<box size="0.2 0.4 0.6"/>'


def solid(shape: str, origin: str = "") -> str:
    return f"<collision>{origin}<geometry>{shape}</geometry></collision>"


def test_corners_of_each_shape() -> None:
    def spans(shape: str) -> list[float]:
        corners = link_corners(URDF.format(a=solid(shape), tool=""), MeshFiles(None))["a"]
        return list(np.round(np.ptp(corners, axis=0), 12))

    assert spans(BOX) == [0.2, 0.4, 0.6]
    assert spans('<cylinder radius="0.1" length="0.5"/>') == [0.2, 0.2, 0.5]
    assert spans('<sphere radius="0.1"/>') == [0.2, 0.2, 0.2]
    assert spans('<capsule radius="0.1" length="0.5"/>') == [0.2, 0.2, 0.7]


def write_stl(path: Path, corners: np.ndarray) -> None:
    """Write triangles (m, 3, 3) to a binary STL file."""
    triangles = b"".join(struct.pack("<12fH", 0, 0, 0, *c.ravel(), 0) for c in corners)
    path.write_bytes(bytes(80) + struct.pack("<I", len(corners)) + triangles)


def test_a_mesh_is_read_and_scaled(tmp_path: Path) -> None:
    write_stl(tmp_path / "mesh.stl", np.eye(3)[None])
    shape = '<mesh filename="mesh.stl" scale="2 2 2"/>'
    corners = link_corners(URDF.format(a=solid(shape), tool=""), MeshFiles(tmp_path))["a"]
    np.testing.assert_allclose(sorted(corners.tolist()), sorted((2.0 * np.eye(3)).tolist()))


def test_surface_lies_on_the_box_and_covers_it() -> None:
    urdf = URDF.format(a=solid(BOX), tool="")
    model = Model.from_urdf(urdf)
    surface = surface_of(model, urdf, MeshFiles(None))
    assert set(surface.body) == {model.link_body["a"]}
    assert 0.9 * POINTS <= surface.body.size <= POINTS
    assert surface.area.sum() == pytest.approx(2.0 * (0.08 + 0.12 + 0.24))
    np.testing.assert_allclose(np.linalg.norm(surface.normal, axis=1), 1.0)
    # Means of points on faces lie on the box, or inside where a part goes round an edge.
    relative = np.abs(surface.point) / [0.1, 0.2, 0.3]
    assert relative.max() <= 1.0 + 1e-9
    assert np.median(relative.max(axis=1)) > 0.95
    # Outward, and all six faces are there.
    assert (np.einsum("ki,ki->k", surface.normal, surface.point) > 0.0).all()
    for axis, sign in product(range(3), (1.0, -1.0)):
        assert (sign * surface.normal[:, axis]).max() > 0.9


def test_links_without_geometry_are_named() -> None:
    urdf = URDF.format(a=solid(BOX), tool="")
    model = Model.from_urdf(urdf)
    note = missing_geometry(model, surface_of(model, urdf, MeshFiles(None)))
    assert note.startswith("no collision geometry found for b:")


WRONG_NORMAL = """solid a
facet normal 0 x 0
outer loop
vertex 0 0 0
vertex 1 0 0
vertex 0 1 0
endloop
endfacet
endsolid a
"""


@pytest.mark.parametrize(
    ("name", "content", "is_read"),
    [
        ("normal.stl", WRONG_NORMAL, True),
        ("far.obj", "v 0 0 0\nv 1 0 0\nv 0 1e300 0\nf 1 2 3\n", False),
        ("cut.dae", "<?xml version='1.0'?><COLLADA><library_geometries>", False),
    ],
)
def test_a_damaged_mesh_puts_nothing_on_stderr(
    name: str, content: str, is_read: bool, tmp_path: Path
) -> None:
    """The readers log tracebacks, where a node or a command is to show only its own lines."""
    (tmp_path / name).write_text(content, encoding="utf-8")
    program = (
        "import sys; from pathlib import Path; from rbd_control.robot.shapes import MeshFiles\n"
        "files = MeshFiles(Path(sys.argv[1])); print(files.load(sys.argv[2]) is not None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), name],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == (f"{is_read}\n", "")
