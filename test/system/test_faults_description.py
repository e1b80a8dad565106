"""Robot descriptions that a running node refuses, with the reason, and those that it takes.

The numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from rbd_control.simulation import arm7_urdf

from .bringup import BringUp, Process
from .fault_setting import set_parameters
from .probe import Probe

NODE = "contact_detector"
ARM = arm7_urdf()


def changed(old: str, new: str) -> str:
    """Return the description that ships with one place changed."""
    assert old in ARM
    return ARM.replace(old, new, 1)


def without_prolog(prolog: str) -> str:
    """Return the description that ships after another XML prolog."""
    return prolog + ARM.partition("?>")[2]


NO_BODY = "no rigid body can have the inertia"
NO_GEOMETRY = "no collision geometry found"
XACRO = "http://www.ros.org/wiki/xacro"
LIMIT = '<limit lower="-2.9" upper="2.9" velocity="2" effort="180"/>'
MASS = '<mass value="4"/>'
INERTIA = '<inertia ixx="0.023031" ixy="0" ixz="0" iyy="0.0219529" iyz="0" izz="0.0117119"/>'
INERTIA_LINE = f"\n      {INERTIA}"
NO_INERTIA = re.sub(r'"[0-9.]+"', '"0"', INERTIA_LINE)
LOOP = (
    '<joint name="loop" type="fixed"><parent link="link_3"/><child link="link_1"/></joint></robot>'
)

REFUSED: dict[str, tuple[str, str]] = {
    # 28: no description at all
    "empty": (" ", "empty"),
    "not XML": ("<robot", "not XML"),
    "another document": ("<sdf/>", "<robot>"),
    "xacro": (f'<robot xmlns:xacro="{XACRO}"><xacro:arm/></robot>', "xacro"),
    # 29: attacks on the parser
    "entity bomb": (
        without_prolog(
            '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
        ),
        "refused",
    ),
    "external entity": (
        without_prolog('<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]>'),
        "refused",
    ),
    "size": (f"<robot><!--{'x' * 10_000_000}--></robot>", "10 MB"),
    "depth": (f"<robot>{'<a>' * 100}{'</a>' * 100}</robot>", "deeper"),
    # 30: links that are no tree
    "loop": (changed("</robot>", LOOP), "link_1"),
    "two roots": (changed("</robot>", '<link name="other"/></robot>'), "other"),
    "unknown parent": (changed('<parent link="link_1"/>', '<parent link="trunk"/>'), "trunk"),
    # 31, 32: bodies that cannot be
    "singular": (
        re.sub(r"<inertial>.*?</inertial>", "", ARM, flags=re.DOTALL),
        "link",
    ),
    "negative mass": (changed(MASS, '<mass value="-4"/>'), "link_1"),
    "mass is no number": (changed(MASS, '<mass value="nan"/>'), "link_1"),
    # 33
    "mimics in a circle": (
        ARM.replace(LIMIT, f'{LIMIT}<mimic joint="joint_2"/>').replace(
            '<joint name="joint_2" type="revolute">',
            '<joint name="joint_2" type="revolute"><mimic joint="joint_1"/>',
        ),
        "circle",
    ),
}


def without_meshes(link: str) -> str:
    """Return the description that ships with missing meshes as the only geometry of a link."""
    before, name, after = ARM.partition(f'<link name="{link}">')
    body, end, rest = after.partition("</link>")
    mesh = '<geometry><mesh filename="package://nowhere/link.stl"/></geometry>'
    missing = re.sub(r"<geometry>.*?</geometry>", mesh, body, flags=re.DOTALL)
    assert missing != body
    return before + name + missing + end + rest


TAKEN: dict[str, tuple[str, str]] = {
    "mimic": (changed(LIMIT, f'{LIMIT}<mimic joint="joint_2"/>'), ""),
    # 32, with one warning that names the links
    "inertia of no body": (
        changed('izz="0.0117119"', 'izz="0.5"').replace('izz="0.00612625"', 'izz="0.5"'),
        f"{NO_BODY} of links 'link_1', 'link_2', so ",
    ),
    "massless link": (changed(MASS + INERTIA_LINE, '<mass value="0"/>' + NO_INERTIA), ""),
    # 34
    "missing meshes": (without_meshes("link_1"), f"{NO_GEOMETRY} for link_1: "),
    "no velocity limit": (changed(LIMIT, LIMIT.replace('velocity="2"', 'velocity="0"')), ""),
}
"""Descriptions, and the log line of the detector about each; empty for none."""


@pytest.fixture(scope="module")
def process(bring_up: BringUp, probe: Probe) -> Process:
    process = bring_up.start(NODE, {"autostart": False})
    probe.later_report(NODE)
    return process


@pytest.fixture
def detector(process: Process, probe: Probe) -> Iterator[Process]:
    """Yield the unconfigured detector."""
    yield process
    if probe.report(NODE).values["state"] != "unconfigured":
        assert probe.change(NODE, "cleanup")


def configure(probe: Probe, description: str) -> bool:
    answer = set_parameters(probe, NODE, robot_description=description)
    assert answer.successful, answer.reason
    return probe.change(NODE, "configure")


@pytest.mark.parametrize("kind", [*REFUSED])
def test_a_bad_description_fails_the_configuration(
    kind: str, probe: Probe, process: Process
) -> None:
    """[28, 29, 30, 31, 32, 33] With one line that names it; the node lives on, unconfigured."""
    description, named = REFUSED[kind]
    before = len(process.output)
    assert not configure(probe, description)
    said = probe.wait(lambda: process.output[before:], "says nothing").strip()
    assert "cannot configure" in said
    assert named in said
    assert "Traceback" not in said
    assert len(said) < 500


@pytest.mark.parametrize("kind", [*TAKEN])
def test_a_peculiar_description_is_taken(kind: str, probe: Probe, detector: Process) -> None:
    """[31, 32, 33, 34, 35] With one log line where the page says so, and none otherwise."""
    description, says = TAKEN[kind]
    before = len(detector.output)
    assert configure(probe, description), detector.output
    detector.wait_until(lambda: "configured: joint" in detector.output[before:])
    said = detector.output[before:]
    assert says in said
    assert said.count("[WARN]") == said.count(NO_BODY) == says.count(NO_BODY), said
    assert said.count(NO_GEOMETRY) == says.count(NO_GEOMETRY), said
