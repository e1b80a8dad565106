"""Descriptions that ROS accepts: white space before the XML declaration, mimics of fixed joints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from urdf_texts import BODY, LIMIT, arm, joint, link

from rbd_control.dynamics import Model
from rbd_control.robot import Robot, RobotParameters
from rbd_control.robot.shapes import surface_of_robot
from rbd_control.startup.arm_launch import root_link

BOX = '<collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision>'


@pytest.mark.parametrize("margin", ["\n", " \r\n\t\n", "\ufeff\n"], ids=["line", "several", "mark"])
def test_white_space_before_the_xml_declaration_is_accepted(margin: str, tmp_path: Path) -> None:
    text = margin + arm(BODY + BOX)
    path = tmp_path / "arm.urdf"
    path.write_bytes(text.encode())
    for source in (text, path, str(path)):
        assert Model.from_urdf(source).nv == 2
    assert root_link(text) == "base"
    for parameters in (RobotParameters(robot_description=text), RobotParameters(urdf=str(path))):
        robot = Robot.of(parameters)
        assert robot.urdf.strip("\ufeff") == text.strip("\ufeff")  # published as it is
        assert surface_of_robot(robot).body.size > 0


def test_a_default_namespace_is_accepted() -> None:
    """As descriptions of Drake have it, also with a schema of another namespace."""
    plain = arm(BODY + BOX)
    text = plain.replace(
        "<robot ",
        '<robot xmlns="http://drake.mit.edu" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        'xsi:schemaLocation="http://drake.mit.edu drakeURDF.xsd" ',
    )
    assert text != plain
    assert Model.from_urdf(text).joint_names == Model.from_urdf(plain).joint_names
    assert root_link(text) == "base"
    surfaces = [
        surface_of_robot(Robot.of(RobotParameters(robot_description=each))).body
        for each in (text, plain)
    ]
    np.testing.assert_array_equal(surfaces[0], surfaces[1])
    assert surfaces[0].size > 0


def gripper(mount: str, finger: str) -> Model:
    """Return an arm with a finger on a plate, whose fixed joint and finger joint mimic others."""
    return Model.from_urdf(
        arm(
            BODY,
            "",
            link("plate"),
            link("finger"),
            joint("mount", "forearm", "plate", "fixed", more=mount),
            joint("finger_joint", "plate", "finger", more=LIMIT + finger),
        )
    )


@pytest.mark.parametrize("mount", ["", '<mimic joint="elbow" multiplier="3"/>'])
def test_a_joint_that_mimics_a_fixed_joint_is_fixed_at_its_offset(mount: str) -> None:
    """A fixed joint is at zero, also where it has a <mimic> of its own."""
    model = gripper(mount, '<mimic joint="mount" multiplier="2" offset="0.4"/>')
    assert model.joint_names == ("shoulder", "elbow")
    assert model.mimic_joints == ()
    placement = model.link_placement["finger"]
    np.testing.assert_allclose(placement[:2, 0], [np.cos(0.4), np.sin(0.4)])
