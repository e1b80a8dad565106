"""xacro files: arguments after the path, wherever a description is given; files they include."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from urdf_texts import assert_names

from rbd_control.cli.main import main
from rbd_control.dynamics import Model
from rbd_control.dynamics.urdf import read_urdf
from rbd_control.errors import ModelError
from rbd_control.files.xacro_files import file_of, joined
from rbd_control.fleet.sheet import read_sheet
from rbd_control.robot import Robot, RobotParameters
from rbd_control.robot.shapes import mesh_addresses, mesh_files
from rbd_control.startup.arm_launch import published_description

NAMESPACE = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'
XACRO = f"""<robot name="arm" {NAMESPACE}>
<xacro:arg name="height" default="0.5"/><xacro:arg name="mount" default="base"/>
<xacro:include filename="parts/body.xacro"/>
<link name="$(arg mount)"/><xacro:body name="upper_arm"/>
<joint name="shoulder" type="continuous"><parent link="$(arg mount)"/><child link="upper_arm"/>
  <origin xyz="0 0 ${{2 * $(arg height)}}"/><axis xyz="0 1 0"/></joint>
</robot>"""
BODY = f"""<robot {NAMESPACE}><xacro:macro name="body" params="name">
  <link name="${{name}}"><inertial><mass value="2"/>
    <inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.02"/></inertial>
    <collision><geometry><mesh filename="parts/arm.stl"/></geometry></collision></link>
</xacro:macro></robot>"""


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    """Return a xacro file that includes another one by a relative path."""
    pytest.importorskip("xacrodoc")
    folder = tmp_path / "an arm & more"
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "body.xacro").write_text(BODY)
    (folder / "parts" / "arm.stl").write_bytes(b"solid")
    path = folder / "arm.urdf.xacro"
    path.write_text(XACRO)
    return path


def height(model: Model) -> float:
    return float(model.arrays.translation[0, 2])


def test_a_file_is_expanded_with_its_defaults(arm: Path) -> None:
    model = Model.from_urdf(arm)
    assert (model.name, model.joint_names, height(model)) == ("arm", ("shoulder",), 1.0)
    assert read_urdf(arm).startswith("<?xml")
    robot = Robot.of(RobotParameters(urdf=str(arm)))
    (mesh,) = mesh_addresses(robot.urdf)
    assert mesh_files(robot.parameters).find(mesh) == arm.parent / "parts" / "arm.stl"


def test_arguments_follow_the_path_wherever_a_description_is_given(
    arm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Python, in an arm file and a sheet of a fleet, on the command line and to ``launch``."""
    given = "height:=2 'mount:=wall of //steel'"
    assert height(Model.from_urdf(f"{arm} {given}")) == 4.0
    name = arm.relative_to(tmp_path)
    (tmp_path / "arm.yaml").write_text(f'/**: {{ros__parameters: {{urdf: "{name} {given}"}}}}\n')
    robot = Robot.load(tmp_path / "arm.yaml")
    assert (height(robot.model), robot.model.link_names[0]) == (4.0, "wall of //steel")
    assert mesh_files(robot.parameters).find("parts/arm.stl"), "relative to the file"
    (tmp_path / "sheet.csv").write_text(f'recording,urdf\na,"{name} {given}"\n')
    (row,) = read_sheet(tmp_path / "sheet.csv")
    assert row.urdf == f"{arm} {given}"
    assert "wall of //steel" in published_description(f"{arm} {given}")

    monkeypatch.chdir(tmp_path)
    words = ["export", str(name), "height:=2", "mount:=wall of //steel", "--to", "arm.h"]
    assert main(words) == 0
    assert f"Made from: {arm.name} {given}" in Path("arm.h").read_text()
    with pytest.raises(SystemExit):  # arguments of a file that takes none
        main(["export", "arm.yaml", *words[2:]])


def test_packages_are_found_in_a_checkout_without_ros(arm: Path, tmp_path: Path) -> None:
    package = tmp_path / "cell_description"
    (package / "urdf").mkdir(parents=True)
    (package / "package.xml").write_text("<package><name>cell_description</name></package>")
    arm.parent.rename(package / "arm")
    path = package / "urdf" / "cell.xacro"
    included = "$(find cell_description)/arm/parts/body.xacro"
    path.write_text(XACRO.replace("parts/body.xacro", included))
    assert Model.from_urdf(path).joint_names == ("shoulder",)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("2 * $(arg", "width * $(arg", ("width",)),
        ("$(arg height)", "$(arg width)", ("argument width", "follow the file as NAME:=VALUE")),
        ("</robot>", "", ("xacro cannot expand it",)),
        ('type="continuous"', 'type="ball"', ("joint 'shoulder'", "ball")),
    ],
)
def test_a_bad_file_is_refused(arm: Path, old: str, new: str, words: tuple[str, ...]) -> None:
    arm.write_text(XACRO.replace(old, new))
    with pytest.raises(ModelError) as caught:
        Model.from_urdf(arm)
    assert_names(caught.value, (str(arm), *words))


def test_an_argument_that_the_file_does_not_declare_is_refused(arm: Path) -> None:
    """xacro ignores it in silence; the arm would have the default instead."""
    with pytest.raises(ModelError) as caught:
        Model.from_urdf(f"{arm} heigth:=2")
    assert_names(caught.value, (str(arm), "'heigth'", "arguments are height, mount"))
    plain = arm.with_name("plain.xacro")
    plain.write_text(BODY)
    with pytest.raises(ModelError, match=r"no xacro argument 'name'; its arguments are none"):
        Model.from_urdf(f"{plain} name:=x")


def test_without_xacrodoc_the_error_says_what_to_do(
    arm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xacrodoc", None)
    with pytest.raises(ModelError, match=r"pip install xacrodoc, or expand the file with: xacro"):
        Model.from_urdf(arm)


def test_words_of_a_command_line() -> None:
    words = ["check", "bag", "--urdf", "ur.xacro", "name:=ur", "origin:=0 0 1", "--json", "a"]
    assert joined(words) == [*words[:3], "ur.xacro name:=ur 'origin:=0 0 1'", "--json", "a"]
    apart = ["check", "name:=ur", "ur.urdf", "name:=ur"]
    assert joined(apart) == apart
    assert file_of("a.xacro b/ur.urdf.xacro file:=/x/y.xacro") == "a.xacro b/ur.urdf.xacro"
    assert file_of("a.xacro b/ur.urdf") == "a.xacro b/ur.urdf"
