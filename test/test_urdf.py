"""URDF: bodies, joints and limits; what is refused, warned of, or accepted as in ROS."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from robots import PinocchioTwin, random_tree_urdf
from urdf_texts import BODY, LIMIT, arm, assert_names, elbow, inertial, joint, link, robot

from rbd_control.dynamics import Model, dynamics_terms, mass_matrix
from rbd_control.dynamics.model_arrays import PRISMATIC, REVOLUTE
from rbd_control.dynamics.urdf import MAX_BYTES, MAX_DEPTH, MAX_JOINTS
from rbd_control.errors import InputError, ModelError, ModelWarning
from rbd_control.robot import Robot, RobotParameters
from rbd_control.robot.shapes import surface_of_robot
from rbd_control.startup.arm_launch import root_link

MERGING = 1e-12
"""Merging is a few products of 4x4 matrices whose entries are of order one."""


def test_payload_is_one_more_fixed_link() -> None:
    text = random_tree_urdf(3, 5, fixed=1.0)
    inertia = [[0.05, 0.001, 0.0], [0.001, 0.04, 0.002], [0.0, 0.002, 0.03]]
    base = Model.from_urdf(text)
    placements = base.link_placement
    *_, name = [
        link
        for link, body in base.link_body.items()
        if body >= 0 and not np.allclose(placements[link], np.eye(4))
    ]
    model = base.with_payload(name, 1.5, [0.1, -0.2, 0.3], inertia)
    extra = (
        '<link name="load"><inertial><origin xyz="0.1 -0.2 0.3"/><mass value="1.5"/>'
        '<inertia ixx="0.05" ixy="0.001" ixz="0" iyy="0.04" iyz="0.002" izz="0.03"/>'
        f'</inertial></link><joint name="grip" type="fixed"><parent link="{name}"/>'
        '<child link="load"/></joint></robot>'
    )
    fixed = Model.from_urdf(text.replace("</robot>", extra))
    q, v = np.random.default_rng(0).uniform(-2.0, 2.0, (2, model.nv))
    for one, other in zip(dynamics_terms(model, q, v), dynamics_terms(fixed, q, v), strict=True):
        np.testing.assert_allclose(one, other, rtol=0.0, atol=MERGING * np.abs(other).max())
    assert model.mass == pytest.approx(base.mass + 1.5)


@pytest.mark.parametrize("seed", range(3))
def test_locked_joints_as_in_pinocchio(seed: int) -> None:
    pin: Any = pytest.importorskip("pinocchio")
    text = random_tree_urdf(seed, 10, continuous=0.2, fixed=0.5)
    rng = np.random.default_rng(seed)
    names = rng.choice([f"joint{i}" for i in range(10)], size=4, replace=False)
    locked = {str(name): float(rng.uniform(-2, 2)) for name in names}
    model = Model.from_urdf(text, locked=locked)
    assert not set(locked) & set(model.joint_names)
    twin = PinocchioTwin(text, model.joint_names, locked=locked)
    q = rng.uniform(-2.0, 2.0, model.nq)
    upper = np.triu(pin.crba(twin.model, twin.data, twin.q(q)))
    M = (upper + np.triu(upper, 1).T)[np.ix_(twin.rows, twin.rows)]
    np.testing.assert_allclose(mass_matrix(model, q), M, rtol=0.0, atol=MERGING * M.max())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"link": "lod"}, ("no link 'lod'", "link4")),
        ({"link": "link0"}, ("'link0' is fixed to the world",)),
        ({"mass": -1.0}, ("mass is -1.0",)),
        ({"inertia": np.diag([0.1, 0.1, 0.5])}, ("triangle inequality", "0.1 0.1 0.5")),
    ],
)
def test_payload_refused(change: dict[str, Any], words: tuple[str, ...]) -> None:
    good = {"link": "link4", "mass": 1.0, "com": [0, 0, 0], "inertia": np.eye(3)}
    with pytest.raises(InputError) as caught:
        Model.from_urdf(random_tree_urdf(3, 5)).with_payload(**{**good, **change})
    assert_names(caught.value, words)


def test_order_types_limits_and_summary(tmp_path: Path) -> None:
    text = robot(
        link("base"),
        *(link(name) for name in "abcd"),
        joint("z", "base", "a", "continuous", more=""),
        joint("y", "base", "b", "prismatic", axis='<axis xyz="0 2 0"/>'),
        joint("x", "a", "c", axis=""),
        joint("w", "c", "d", "fixed", more=""),
    )
    model = Model.from_urdf(text)
    assert model.joint_names == ("z", "x", "y")  # depth first, in the order of the joints
    assert model.joint_links == ("a", "c", "b")
    assert model.arrays.parent.tolist() == [-1, 0, -1]
    assert model.arrays.joint_type.tolist() == [REVOLUTE, REVOLUTE, PRISMATIC]
    np.testing.assert_array_equal(model.arrays.axis, [[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    assert model.lower_limit.tolist() == [-math.inf, -1, -1]
    assert model.effort_limit.tolist() == [math.inf, 40, 40]
    assert model.link_body == {"base": -1, "a": 0, "b": 2, "c": 1, "d": 1}
    assert repr(model) == "<Model 'arm': 3 joints (z, x, y), nv = 3, moving mass 8 kg>"
    assert all(part.flags.c_contiguous and part.flags.writeable for part in model.arrays)
    with pytest.raises(ValueError, match="read-only"):
        model.effort_limit[0] = 0.0
    with pytest.raises(InputError, match="no joint 'v'; joints are z, x, y"):
        model.joint_index("v")

    path = tmp_path / "arm.urdf"
    path.write_text(text, encoding="utf-8")
    for source in (path, str(path), f"\ufeff\n {text}"):
        assert repr(Model.from_urdf(source)) == repr(model)


@pytest.mark.parametrize("limit", ["", 'velocity="0" effort="0.0"'])
def test_a_limit_of_zero_or_without_value_was_not_filled_in(limit: str) -> None:
    model = Model.from_urdf(elbow(more=f'<limit lower="-1" upper="1" {limit}/>'))
    row = model.joint_index("elbow")
    assert model.velocity_limit[row] == math.inf
    assert model.effort_limit[row] == math.inf


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE robot [<!ENTITY a "aaaaaaaaaa">'
    '<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><robot name="&b;"><link name="base"/></robot>'
)


EXTERNAL = (
    '<!DOCTYPE robot [<!ENTITY x SYSTEM "file:///etc/hostname">]>'
    '<robot name="&x;"><link name="base"/></robot>'
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" \n", ("empty",)),
        ("no/such/arm.urdf", ("no/such/arm.urdf: there is no such file", "URDF, or its text")),
        (Path("/"), ("/: cannot be read", "directory")),
        (b"<robot/>", ("not as bytes",)),
        ("<robot><link>", ("not XML", "line 1")),
        ("<mujoco/>", ("<mujoco>", "<robot>")),
        ('<robot name="arm"/>', ("'arm'", "no links")),
        (robot("<xacro:include/>"), ("xacro first",)),
        (robot(link("${prefix}base")), ("${prefix}base", "xacro first")),
        (BOMB, ("entities", "refused")),
        (EXTERNAL, ("entities", "refused")),
        ("<robot>" + " " * MAX_BYTES + "</robot>", ("10 MB",)),
        ("<robot>" + "<a>" * MAX_DEPTH + "</a>" * MAX_DEPTH + "</robot>", (str(MAX_DEPTH),)),
        (robot(joint("j", "a", "b") * (MAX_JOINTS + 1)), ("1001 joints", "1000")),
        (
            robot(link("r"), link("a"), link("b"), joint("j", "a", "b"), joint("k", "b", "a")),
            ("loop", "a <- b"),
        ),
        (arm(BODY, "", joint("j", "base", "forearm")), ("'forearm'", "'elbow' and 'j'")),
        (arm(BODY, "", link("lamp")), ("2 links", "'base', 'lamp'")),
        (arm(BODY, "", joint("j", "bse", "forearm")), ("joint 'j'", "'bse'", "parent", "base")),
        (arm(BODY, "", link("base")), ("link 'base'", "2 times")),
        (arm(BODY, "", '<joint name="j" type="fixed"/>'), ("joint 'j'", "lacks <parent>")),
        (robot(link("base")), ("'arm'", "no movable joint")),
        (elbow(axis='<axis xyz="0 0 0"/>'), ("joint 'elbow'", "axis is 0 0 0")),
        (elbow(xyz="0 nan 0"), ("joint 'elbow'", "origin", "0 nan 0")),
        (arm(inertial(mass="-1")), ("link 'forearm'", "mass is -1")),
        (arm(inertial(mass="heavy")), ("link 'forearm'", "mass is 'heavy'")),
        (arm('<inertial><mass value="1"/></inertial>'), ("link 'forearm'", "lacks <inertia>")),
        (elbow(kind="floating"), ("joint 'elbow' is floating", "floating_base=True")),
        (elbow(kind="ball"), ("joint 'elbow'", "'ball'", "revolute")),
        (elbow(more=""), ("joint 'elbow'", "needs <limit>")),
        (
            elbow(more='<limit lower="1" effort="1" velocity="1"/>'),
            ("joint 'elbow'", "lower limit 1.0 is above upper limit 0.0"),
        ),
        (elbow(more='<limit effort="nan" velocity="1"/>'), ("joint 'elbow'", "effort", "nan")),
    ],
)
def test_refused(text: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(ModelError) as caught:
        Model.from_urdf(text)
    assert_names(caught.value, words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (arm(""), ("joint 'elbow'", "link 'forearm'", "singular")),
        (arm(inertial(ixx="-0.01")), ("link 'forearm'", "not positive definite", "-0.01")),
        (
            arm(inertial(ixx="0.1", iyy="0.1", izz="0.5")),
            ("link 'forearm'", "inertia violates the triangle inequality", "0.1 0.1 0.5 kg·m²"),
        ),
    ],
)
def test_warned_of_once_and_refused_where_strict(text: str, words: tuple[str, ...]) -> None:
    with pytest.warns(ModelWarning) as said:
        model = Model.from_urdf(text)
    assert len(said) == 1
    for word in words:
        assert word in str(said[0].message)
    assert model.nv == 2
    assert model.remarks
    with pytest.raises(ModelError) as caught:
        Model.from_urdf(text, strict=True)
    assert_names(caught.value, words)


def wrist(first: str, second: str, third: str, kind: str = "revolute", flange: str = BODY) -> str:
    """Three joints through one point, with massless links between them."""
    return robot(
        link("base"),
        link("a", ""),
        link("b", ""),
        link("c", flange),
        joint("j1", "base", "a", axis=f'<axis xyz="{first}"/>'),
        joint("j2", "a", "b", axis=f'<axis xyz="{second}"/>', xyz="0 0 0"),
        joint("j3", "b", "c", kind, axis=f'<axis xyz="{third}"/>', xyz="0 0 0"),
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (wrist("1 0 0", "0 0 1", "0 0 1"), "j2"),
        (wrist("0 0 1", "0 1 0", "0 0 1", flange=""), "j3"),
        (wrist("0 0 1", "0 1 0", "0 0 1", "prismatic", flange=""), "j3"),
    ],
)
def test_massless_links_that_make_the_mass_matrix_singular_are_refused(
    text: str, name: str
) -> None:
    with pytest.raises(ModelError, match=f"joint '{name}'.*singular"):
        Model.from_urdf(text)


def test_massless_links_between_are_allowed() -> None:
    assert Model.from_urdf(wrist("1 0 0", "0 1 0", "0 0 1")).nv == 3


def test_a_massless_floating_root_needs_bodies_that_resist_its_every_motion() -> None:
    # Behind a single joint the root may always turn with that joint and move nothing.
    with pytest.raises(ModelError, match=r"'root_joint'.*'base'.*singular"):
        Model.from_urdf(arm(), floating_base=True)
    other = link("leg") + joint("hip", "base", "leg", axis='<axis xyz="1 0 0"/>')
    assert Model.from_urdf(arm(BODY, "", other), floating_base=True).nv == 9


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
    """As descriptions of Drake have it."""
    plain = arm(BODY + BOX)
    text = plain.replace("<robot ", '<robot xmlns="http://drake.mit.edu" ')
    assert Model.from_urdf(text).joint_names == Model.from_urdf(plain).joint_names
    assert root_link(text) == "base"
    assert surface_of_robot(Robot.of(RobotParameters(robot_description=text))).body.size > 0


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
