"""Drawn shapes of an arm: their sources and their placements."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("yourdfpy", reason="the extra `view` is not installed")

from rbd_control.dynamics import Model
from rbd_control.robot.shapes import RADII, MeshFiles
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
    assert scene.notes == (
        "no meshes of nowhere: install this package and source its workspace, or set "
        "ROS_PACKAGE_PATH to the folder that contains it",
    )


def test_without_usable_elements_capsules_lead_to_the_joints() -> None:
    urdf = arm().replace('<cylinder radius="0.1" length="0.4"/>', '<mesh filename="no.stl"/>')
    scene = drawn(urdf)
    assert kinds(scene, "upper") == ["ellipsoid", "ellipsoid", "cylinder"]  # to the tool
    first, last, middle = (shape for shape in scene.shapes if shape.link == "upper")
    assert np.allclose(first.placement, np.eye(4))
    assert np.allclose(last.placement[:3, 3], [0.3, 0.0, 0.0])
    assert np.allclose(middle.placement[:3, 3], [0.15, 0.0, 0.0])
    assert np.allclose(np.abs(middle.placement[:3, 2]), [1.0, 0.0, 0.0])
    assert np.allclose(middle.size, [0.03, 0.03, 0.3])
    assert np.allclose(first.size, 0.03)
    assert np.allclose(last.size, 0.03)
    assert kinds(scene, "base") == []  # a frame without mass
    assert scene.notes[1:] == (
        "meshes not found or not readable: no.stl",
        "1 link is drawn as capsules between the joints",
    )


def test_the_last_link_leads_to_its_centre_of_mass_and_radii_are_bounded() -> None:
    box = '<visual><origin xyz="0 0 0.1"/><geometry><box size="0.1 0.2 0.3"/></geometry></visual>'
    scene = drawn(arm().replace(box, ""))
    assert kinds(scene, "tool") == ["ellipsoid"]  # its centre of mass is at its origin
    (sphere,) = (shape for shape in scene.shapes if shape.link == "tool")
    assert np.allclose(sphere.size, RADII[0])
    far = '<inertial><origin xyz="0 9 0"/><mass value="1"/>'
    scene = drawn(arm().replace(box, "").replace('<inertial><mass value="1"/>', far))
    assert kinds(scene, "tool") == ["ellipsoid", "ellipsoid", "cylinder"]
    *_, middle = (shape for shape in scene.shapes if shape.link == "tool")
    assert np.allclose(middle.size, [RADII[1], RADII[1], 9.0])


def test_links_are_where_the_joints_put_them() -> None:
    scene = drawn(arm())
    placements = scene.placements(np.array([np.pi / 2.0]))
    # The tool, 0.3 m along x of a link that has turned by 90 degrees about z, 0.5 m up.
    assert np.allclose(scene.link_placement(placements, "tool")[:3, 3], [0.0, 0.3, 0.5])
    assert np.allclose(scene.link_placement(placements, "base"), np.eye(4))
    box = next(shape for shape in scene.shapes if shape.link == "tool")
    assert np.allclose((placements[box.body] @ box.placement)[:3, 3], [0.0, 0.3, 0.6])
    assert scene.reach == pytest.approx(0.5)
