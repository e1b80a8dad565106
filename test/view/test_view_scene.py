"""Drawn shapes of an arm: their sources and their placements."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("yourdfpy", reason="the extra `view` is not installed")

from rbd_control.dynamics import Model
from rbd_control.dynamics.urdf import Link
from rbd_control.robot.shapes import MeshFiles
from rbd_control.simulation import arm7_urdf
from rbd_control.view.scene import GREY, SEMI_AXES, ellipsoid_of_inertia, rod, scene_of

ARM = """
<robot name="two">
  <material name="blue"><color rgba="0 0 1 1"/></material>
  <link name="base"/>
  <joint name="turn" type="revolute">
    <parent link="base"/><child link="upper"/><origin xyz="0 0 0.5"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" velocity="1" effort="1"/>
  </joint>
  <link name="upper">
    <inertial><origin xyz="0 0 0.1"/><mass value="3"/>
      <inertia ixx="0.05" ixy="0" ixz="0" iyy="0.05" iyz="0" izz="0.05"/></inertial>
    <visual><geometry><mesh filename="{visual}"/></geometry><material name="blue"/></visual>
    <collision><origin xyz="0 0 0.2"/>
      <geometry><cylinder radius="0.1" length="0.4"/></geometry></collision>
  </link>
  <joint name="hold" type="fixed">
    <parent link="upper"/><child link="tool"/><origin xyz="0.3 0 0"/></joint>
  <link name="tool">
    <inertial><mass value="1"/>
      <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>
    <visual><origin xyz="0 0 0.1"/><geometry><box size="0.1 0.2 0.3"/></geometry></visual>
  </link>
</robot>"""

TETRAHEDRON = """v 0 0 0
v 1 0 0
v 0 1 0
v 0 0 1
f 1 3 2
f 1 2 4
f 1 4 3
f 2 3 4
"""


def arm(visual: str = "package://nowhere/visual.obj") -> str:
    return ARM.format(visual=visual)


def drawn(urdf: str, files: MeshFiles | None = None):  # type: ignore[no-untyped-def]
    return scene_of(Model.from_urdf(urdf), urdf, files or MeshFiles(None, {}))


def kinds(scene, link: str) -> list[str]:  # type: ignore[no-untyped-def]
    return [shape.kind for shape in scene.shapes if shape.link == link]


def test_the_shipped_arm_is_drawn_with_its_visual_elements() -> None:
    scene = drawn(arm7_urdf())
    assert scene.notes == ()
    assert kinds(scene, "link_1") == ["cylinder", "cylinder"]
    first = next(shape for shape in scene.shapes if shape.link == "link_1")
    assert first.colour == (round(0.9 * 255), round(0.9 * 255), round(0.88 * 255))
    assert list(first.size) == [0.07, 0.07, 0.16]
    assert {shape.body for shape in scene.shapes} == {-1, *range(7)}


def test_a_link_whose_mesh_is_missing_is_drawn_with_its_collision_elements() -> None:
    scene = drawn(arm())
    assert kinds(scene, "upper") == ["cylinder"]
    assert kinds(scene, "tool") == ["box"]
    assert scene.notes == ("meshes not found or not readable: package://nowhere/visual.obj",)


def test_without_usable_elements_inertias_and_rods_are_drawn() -> None:
    urdf = arm().replace('<cylinder radius="0.1" length="0.4"/>', '<mesh filename="no.stl"/>')
    scene = drawn(urdf)
    assert kinds(scene, "upper") == ["cylinder", "ellipsoid"]  # the rod leads to the tool
    assert kinds(scene, "base") == []  # a frame without mass
    assert scene.notes[-1] == "1 link is drawn as the ellipsoid of its inertia"


@pytest.mark.parametrize("where", ["ament", "ros", "beside", "file", "relative"])
def test_meshes_are_found_where_ros_keeps_them(tmp_path: Path, where: str) -> None:
    share = tmp_path / "share" / "robots"
    mesh = share / "meshes" / "visual.obj"
    mesh.parent.mkdir(parents=True)
    mesh.write_text(TETRAHEDRON)
    address, folder, environment = {
        "ament": ("package://robots/meshes/visual.obj", None, {"AMENT_PREFIX_PATH": str(tmp_path)}),
        "ros": ("package://robots/meshes/visual.obj", None, {"ROS_PACKAGE_PATH": str(share)}),
        "beside": ("package://robots/meshes/visual.obj", share / "urdf", {}),
        "file": (f"file://{mesh}", None, {}),
        "relative": ("../meshes/visual.obj", share / "urdf", {}),
    }[where]
    (share / "urdf").mkdir()
    scene = drawn(arm(address), MeshFiles(folder, environment))
    (shape,) = [shape for shape in scene.shapes if shape.link == "upper"]
    assert shape.kind == "mesh"
    assert shape.colour == (0, 0, 255)
    assert shape.faces is not None
    assert shape.faces.shape == (4, 3)
    assert scene.notes == ()


@pytest.mark.parametrize(
    "address", ["https://example.org/a.stl", "damaged.obj", "nul\0.stl", "package://", "."]
)
def test_unusable_meshes_are_not_loaded(tmp_path: Path, address: str) -> None:
    (tmp_path / "damaged.obj").write_text("v 1 2\nf 9 9 9\n")
    files = MeshFiles(tmp_path, {})
    assert files.load(address) is None
    assert files.missing == [address]


@pytest.mark.parametrize("size", ["nan 1 1", "1e9 1 1", "words", "1"])
def test_absurd_elements_are_not_drawn(size: str) -> None:
    scene = drawn(arm().replace("0.1 0.2 0.3", size))
    assert "ellipsoid" in kinds(scene, "tool")


def test_the_ellipsoid_has_the_inertia_of_its_link() -> None:
    a, m = np.array([0.1, 0.2, 0.3]), 2.0
    inertia = 0.2 * m * np.diag((a**2).sum() - a**2)
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    found = ellipsoid_of_inertia(Link("x", m, np.array([1.0, 2.0, 3.0]), turn @ inertia @ turn.T))
    assert found is not None
    placement, size = found
    assert np.allclose(placement[:3, 3], [1.0, 2.0, 3.0])
    # Rounding of eigenvalues alone.
    shape = placement[:3, :3] @ np.diag(size**2) @ placement[:3, :3].T
    assert np.allclose(shape, turn @ np.diag(a**2) @ turn.T, atol=1e-12)
    assert np.linalg.det(placement[:3, :3]) == pytest.approx(1.0)
    assert ellipsoid_of_inertia(Link("x", 0.0, np.zeros(3), np.zeros((3, 3)))) is None
    flat = ellipsoid_of_inertia(Link("x", 1.0, np.zeros(3), np.zeros((3, 3))))
    assert flat is not None
    assert (flat[1] == SEMI_AXES[0]).all()


def test_a_rod_leads_from_the_origin_to_its_end() -> None:
    found = rod([0.0, 0.3, 0.4])
    assert found is not None
    placement, size = found
    ends = [placement @ [0.0, 0.0, z, 1.0] for z in (-0.5 * size[2], 0.5 * size[2])]
    assert np.allclose(ends[0][:3], 0.0, atol=1e-12)
    assert np.allclose(ends[1][:3], [0.0, 0.3, 0.4])
    assert rod([0.0, 0.0, 0.001]) is None


def test_links_are_where_the_joints_put_them() -> None:
    scene = drawn(arm())
    placements = scene.placements(np.array([np.pi / 2.0]))
    # The tool, 0.3 m along x of a link that has turned by 90 degrees about z, 0.5 m up.
    assert np.allclose(scene.link_placement(placements, "tool")[:3, 3], [0.0, 0.3, 0.5])
    assert np.allclose(scene.link_placement(placements, "base"), np.eye(4))
    box = next(shape for shape in scene.shapes if shape.link == "tool")
    assert np.allclose((placements[box.body] @ box.placement)[:3, 3], [0.0, 0.3, 0.6])
    assert scene.reach == pytest.approx(0.5)


def test_shapes_without_a_colour_are_grey() -> None:
    (shape,) = [shape for shape in drawn(arm()).shapes if shape.link == "tool"]
    assert shape.colour == GREY
    assert replace(shape, colour=(1, 2, 3)).colour == (1, 2, 3)
