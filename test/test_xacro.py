"""Descriptions as xacro files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from urdf_texts import assert_names

from rbd_control.dynamics.model import Model
from rbd_control.dynamics.urdf import read_urdf
from rbd_control.errors import ModelError

XACRO = """<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
<xacro:property name="height" value="0.5"/>
<xacro:macro name="body" params="name">
  <link name="${name}"><inertial><mass value="2"/>
    <inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.02"/></inertial></link>
</xacro:macro>
<link name="base"/><xacro:body name="upper_arm"/>
<joint name="shoulder" type="continuous"><parent link="base"/><child link="upper_arm"/>
  <origin xyz="0 0 ${2 * height}"/><axis xyz="0 1 0"/></joint>
</robot>"""


def test_a_xacro_file_is_expanded(tmp_path: Path) -> None:
    pytest.importorskip("xacro")
    path = tmp_path / "arm.urdf.xacro"
    path.write_text(XACRO, encoding="utf-8")
    model = Model.from_urdf(path)
    assert model.joint_names == ("shoulder",)
    assert model.arrays.translation[0, 2] == 1.0
    assert read_urdf(path).startswith("<?xml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (XACRO.replace("2 * height", "2 * width"), ("width",)),
        (XACRO.replace("</robot>", ""), ("xacro cannot expand it",)),
        (XACRO.replace('type="continuous"', 'type="ball"'), ("joint 'shoulder'", "ball")),
    ],
)
def test_a_bad_xacro_file_is_refused(text: str, words: tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("xacro")
    path = tmp_path / "arm.xacro"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ModelError) as caught:
        Model.from_urdf(path)
    assert_names(caught.value, (str(path), *words))


def test_a_xacro_file_where_xacro_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xacro", None)
    path = tmp_path / "arm.xacro"
    path.write_text(XACRO, encoding="utf-8")
    with pytest.raises(ModelError, match="xacro is not installed: install it"):
        Model.from_urdf(path)
