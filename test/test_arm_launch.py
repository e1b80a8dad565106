"""The parameters that a launch file gives to the nodes of one arm among several."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rbd_control.errors import ParameterError
from rbd_control.startup.arm_launch import NAMES, node_parameters, parameter_file

CONFIG = Path(__file__).resolve().parent.parent / "config"

CONTENT = {
    "/**": {"joints": ["a", "b"], "payload_link": "", "locked_joints": [], "timeout": 1.0},
    "contact_detector": {"timeout": 2.0, "force_link": "tool"},
    "/left/contact_detector": {"timeout": 3.0},
    "/right/**": {"payload_mass": 0.5},
    "passivity_controller": {"timeout": 4.0},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "arm.yaml"
    sections = {name: {"ros__parameters": values} for name, values in CONTENT.items()}
    path.write_text(yaml.safe_dump(sections), encoding="utf-8")
    return path


def test_a_node_in_a_namespace_gets_the_sections_of_its_bare_name_too(file: Path) -> None:
    arm = {"joints": ["a", "b"], "payload_link": ""}
    detector = "contact_detector"
    assert node_parameters(file, "", detector) == {**arm, "timeout": 2.0, "force_link": "tool"}
    left, right = (node_parameters(file, space, detector) for space in ("left", "/right/"))
    assert left == {**arm, "timeout": 3.0, "force_link": "tool"}
    assert right == {**arm, "timeout": 2.0, "force_link": "tool", "payload_mass": 0.5}
    assert node_parameters(file, "left", "contact_guard") == {**arm, "timeout": 1.0}
    assert node_parameters("", "left", detector) == {}


def test_the_prefix_is_put_before_joints_and_links_that_lack_it(file: Path) -> None:
    found = node_parameters(file, "left", "contact_detector", "left_")
    assert found["joints"] == ["left_a", "left_b"]
    assert found["force_link"] == "left_tool"
    assert found["payload_link"] == ""
    found = node_parameters(file, "left", "contact_detector", "left_", ["c", "left_d"])
    assert found["joints"] == ["left_c", "left_d"]


def test_nodes_of_one_process_have_a_section_each(file: Path) -> None:
    both = {
        node: node_parameters(file, "left", node)
        for node in ("contact_detector", "passivity_controller")
    }
    for namespace, begins in (("left", "/left"), ("/left/", "/left"), ("", "")):
        written = Path(parameter_file(namespace, both))
        content = yaml.safe_load(written.read_text(encoding="utf-8"))
        assert content == {f"{begins}/{n}": {"ros__parameters": both[n]} for n in both}


def test_names_are_parameters_of_nodes() -> None:
    """A parameter that is renamed would lose its prefix without a word."""
    known = "".join(path.read_text(encoding="utf-8") for path in CONFIG.glob("*.yaml"))
    missing = {name for name in NAMES if f" {name}:" not in known}
    assert not missing


@pytest.mark.parametrize("text", ["- a\n- b\n", "/**: {}\n", "/**:\n  ros__parameters: 3\n"])
def test_a_file_without_parameters_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ParameterError, match="odd.yaml"):
        node_parameters(path, "", "contact_detector")
    with pytest.raises(ParameterError, match="none.yaml"):
        node_parameters(tmp_path / "none.yaml", "", "contact_detector")


@pytest.mark.parametrize("path", sorted(CONFIG.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_that_ships_can_be_launched(path: Path) -> None:
    for node in ("contact_detector", "passivity_controller", "contact_guard"):
        values = node_parameters(path, "left", node)
        assert all(value != [] for value in values.values())
