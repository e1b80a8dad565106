"""Drawn shapes of an arm: their sources and their placements."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("yourdfpy", reason="the extra `view` is not installed")

from rbd_control.dynamics import Model
from rbd_control.robot.shapes import MeshFiles
from rbd_control.view.scene import scene_of

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


def arm(visual: str = "package://nowhere/visual.obj") -> str:
    return ARM.format(visual=visual)


def drawn(urdf: str, files: MeshFiles | None = None):  # type: ignore[no-untyped-def]
    return scene_of(Model.from_urdf(urdf), urdf, files or MeshFiles(None, {}))


def kinds(scene, link: str) -> list[str]:  # type: ignore[no-untyped-def]
    return [shape.kind for shape in scene.shapes if shape.link == link]


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


def test_links_are_where_the_joints_put_them() -> None:
    scene = drawn(arm())
    placements = scene.placements(np.array([np.pi / 2.0]))
    # The tool, 0.3 m along x of a link that has turned by 90 degrees about z, 0.5 m up.
    assert np.allclose(scene.link_placement(placements, "tool")[:3, 3], [0.0, 0.3, 0.5])
    assert np.allclose(scene.link_placement(placements, "base"), np.eye(4))
    box = next(shape for shape in scene.shapes if shape.link == "tool")
    assert np.allclose((placements[box.body] @ box.placement)[:3, 3], [0.0, 0.3, 0.6])
    assert scene.reach == pytest.approx(0.5)
