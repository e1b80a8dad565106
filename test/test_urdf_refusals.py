"""Robot descriptions and arguments that are refused: the error names the element."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from urdf_texts import BODY, LIMIT, arm, assert_names, elbow, inertial, joint, link, robot

from rbd_control.dynamics.model import Model
from rbd_control.dynamics.urdf import MAX_BYTES, MAX_DEPTH, MAX_JOINTS
from rbd_control.errors import InputError, ModelError

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
        # 28
        ("", ("empty",)),
        (" \n", ("empty",)),
        ("no/such/arm.urdf", ("no/such/arm.urdf: there is no such file", "URDF, or its text")),
        ("a: b\n" * 1000, ("neither URDF text",)),
        (Path("no/such/arm.urdf"), ("no/such/arm.urdf: there is no such file",)),
        (Path("/"), ("/: cannot be read", "directory")),
        (b"<robot/>", ("not as bytes",)),
        ("<robot><link>", ("not XML", "line 1")),
        ("<mujoco/>", ("<mujoco>", "<robot>")),
        ('<mujoco xmlns="http://drake.mit.edu"/>', ("<mujoco>", "<robot>")),
        (
            '<robot xmlns="http://drake.mit.edu" xmlns:xacro="http://www.ros.org/wiki/xacro">'
            "<xacro:arm/></robot>",
            ("<xacro:arm>", "xacro first"),
        ),
        ('<robot name="arm"/>', ("'arm'", "no links")),
        (robot("<xacro:include/>"), ("xacro first",)),
        (
            '<robot xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:arm a="1"/></robot>',
            ("<xacro:arm>", "xacro first"),
        ),
        (robot(link("${prefix}base")), ("${prefix}base", "xacro first")),
        ('<?xml version="1.0" encoding="nonsense"?><robot/>', ("has no links",)),
        # 29
        (BOMB, ("entities", "refused")),
        (EXTERNAL, ("entities", "refused")),
        ("<robot>" + " " * MAX_BYTES + "</robot>", ("10 MB",)),
        ("<robot>" + "<a>" * MAX_DEPTH + "</a>" * MAX_DEPTH + "</robot>", (str(MAX_DEPTH),)),
        (robot(joint("j", "a", "b") * (MAX_JOINTS + 1)), ("1001 joints", "1000")),
        # 30
        (robot(link("a"), link("b"), joint("j", "a", "b"), joint("k", "b", "a")), ("a <- b",)),
        (robot(link("r"), link("a"), joint("j", "a", "a")), ("loop", "a <- a")),
        (
            robot(link("r"), link("a"), link("b"), joint("j", "a", "b"), joint("k", "b", "a")),
            ("loop", "a <- b"),
        ),
        (arm(BODY, "", joint("j", "base", "forearm")), ("'forearm'", "'elbow' and 'j'")),
        (arm(BODY, "", link("lamp")), ("2 links", "'base', 'lamp'")),
        (arm(BODY, "", joint("j", "bse", "forearm")), ("joint 'j'", "'bse'", "parent", "base")),
        (arm(BODY, "", joint("j", "base", "hand")), ("joint 'j'", "'hand'", "child", "forearm")),
        (arm(BODY, "", link("base")), ("link 'base'", "2 times")),
        (arm(BODY, "", link("c"), joint("elbow", "base", "c")), ("joint 'elbow'", "2 times")),
        (arm(BODY, "", "<link/>"), ("a <link>: attribute 'name' is missing or empty",)),
        (arm(BODY, "", '<joint name="j"/>'), ("joint 'j': attribute 'type' is missing or empty",)),
        (arm(BODY, "", '<joint name="j" type="fixed"/>'), ("joint 'j'", "lacks <parent>")),
        (robot(link("base")), ("'arm'", "no movable joint")),
        # 31
        (elbow(axis='<axis xyz="0 0 0"/>'), ("joint 'elbow'", "axis is 0 0 0")),
        (elbow(axis='<axis xyz="0 0 1 0"/>'), ("joint 'elbow'", "axis", "three numbers")),
        (elbow(xyz="0 nan 0"), ("joint 'elbow'", "origin", "0 nan 0")),
        # 32
        (arm(inertial(mass="-1")), ("link 'forearm'", "mass is -1")),
        (arm(inertial(mass="nan")), ("link 'forearm'", "mass is 'nan'")),
        (arm(inertial(mass="heavy")), ("link 'forearm'", "mass is 'heavy'")),
        (arm(inertial(iyy="inf")), ("link 'forearm'", "iyy is 'inf'")),
        (arm(inertial(mass="1e300")), ("link 'forearm'", "mass is '1e300'", "1e+09")),
        (arm('<inertial><mass value="1"/></inertial>'), ("link 'forearm'", "lacks <inertia>")),
        (arm(BODY.replace("iyz", "zyi")), ("link 'forearm'", "inertia iyz")),
        # 33
        (elbow(kind="floating"), ("joint 'elbow' is floating", "floating_base=True")),
        (elbow(kind="planar"), ("joint 'elbow' is planar",)),
        (elbow(kind="ball"), ("joint 'elbow'", "'ball'", "revolute")),
        # 35
        (elbow(more=""), ("joint 'elbow'", "needs <limit>")),
        (
            elbow(more='<limit lower="1" effort="1" velocity="1"/>'),
            ("joint 'elbow'", "lower limit 1.0 is above upper limit 0.0"),
        ),
        (elbow(more='<limit effort="nan" velocity="1"/>'), ("joint 'elbow'", "effort", "nan")),
        (elbow(more='<limit effort="1" velocity="-1"/>'), ("joint 'elbow'", "velocity", "-1")),
        (elbow(more=LIMIT.replace("-1", "nan")), ("joint 'elbow'", "lower", "nan")),
        (elbow(more='<limit effort="-1"/>', kind="continuous"), ("joint 'elbow'", "effort is -1")),
    ],
)
def test_refused(text: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(ModelError) as caught:
        Model.from_urdf(text)
    assert_names(caught.value, words)


def test_large_and_empty_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_bytes(b"")
    with pytest.raises(ModelError, match=re.escape(str(path)) + ".*empty"):
        Model.from_urdf(path)
    path.write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(ModelError, match="10 MB"):
        Model.from_urdf(path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"locked": {"elbw": 0.0}}, ("no movable joint 'elbw'", "shoulder, elbow")),
        ({"locked": {"elbow": math.nan}}, ("'elbow'", "nan")),
        ({"locked": {"elbow": "up"}}, ("'elbow'", "'up'")),
        ({"gravity": (0, -9.81)}, ("gravity has shape (2,)", "(3,)")),
        ({"gravity": (0, 0, math.inf)}, ("gravity", "inf")),
    ],
)
def test_arguments_refused(arguments: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as caught:
        Model.from_urdf(arm(), **arguments)
    assert_names(caught.value, words)
