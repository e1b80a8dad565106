"""The parameters that a launch file gives to the nodes of one arm among several."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from rbd_control.control import ControllerParameters
from rbd_control.control.adaptive import adapted_links
from rbd_control.control.controller_parameters import AdaptationParameters
from rbd_control.dynamics import Model
from rbd_control.errors import ParameterError
from rbd_control.parameters import described_names
from rbd_control.simulation import arm7_urdf
from rbd_control.startup.arm_launch import (
    NAMES,
    node_parameters,
    parameter_file,
    require_sections,
)

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


def test_a_urdf_that_is_given_replaces_the_description_of_the_file(tmp_path: Path) -> None:
    """A node prefers the text to the path, and ``calibrate`` may have written the text."""
    path = tmp_path / "arm.yaml"
    old = {"urdf": "old.urdf", "robot_description": arm7_urdf()}
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": old}}), encoding="utf-8")
    assert node_parameters(path, "", "contact_detector") == old
    given = node_parameters(path, "", "contact_detector", urdf="new.urdf")
    assert given == {"urdf": "new.urdf"}


def test_an_empty_list_that_would_become_a_default_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "arm.yaml"
    for name, text in (("actions", r"actions: ROS 2 .* no actions are \[''\]"), ("axis", "axis: ")):
        path.write_text(yaml.safe_dump({"/**": {"ros__parameters": {name: []}}}), encoding="utf-8")
        with pytest.raises(ParameterError, match=rf"arm\.yaml: {text}"):
            node_parameters(path, "", "contact_guard")


def test_no_actions_are_one_empty_name() -> None:
    pytest.importorskip("rclpy")
    from rbd_control.nodes.contact_guard import ContactGuardParameters

    given = ContactGuardParameters(actions=("",), services=("foo/stop",))
    assert (given.order_names["actions"], given.order_names["services"]) == ((), ("foo/stop",))
    with pytest.raises(ParameterError, match="nothing to stop"):
        ContactGuardParameters(actions=("",), moveit_stop=False)


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


def test_the_prefix_is_not_put_before_keywords(tmp_path: Path) -> None:
    path = tmp_path / "adaptive.yaml"
    values = {"adaptive": True, "adapted_links": ["all"], "payload_link": "all"}
    content = {"passivity_controller": {"ros__parameters": values}}
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    found = node_parameters(path, "left", "passivity_controller", "left_")
    assert found == {**values, "payload_link": "left_all"}
    ControllerParameters.from_mapping({"adapted_links": found["adapted_links"]})
    model = Model.from_urdf(arm7_urdf())
    adaptation = AdaptationParameters(adapted_links=tuple(found["adapted_links"]))
    assert adapted_links(model, adaptation) == model.joint_links


OTHER_TEXTS = {
    "robot_description",
    "urdf",
    "frame_prefix",
    "estimates",
    "actions",
    "services",
    "pause_services",
    "velocity_topics",
    "twist_topics",
    "moveit_topic",
    "retreat_topic",
    "command",
}
"""Parameters with texts that are neither choices nor names of joints or links."""


def test_every_parameter_with_a_text_holds_names_or_is_known_to_hold_none() -> None:
    """A new parameter with names that is not declared as one would get no prefix."""
    pytest.importorskip("rclpy")
    from rbd_control.nodes.contact_detector import ContactDetectorParameters
    from rbd_control.nodes.contact_guard import ContactGuardParameters
    from rbd_control.nodes.hand_guide import HandGuideNodeParameters
    from rbd_control.nodes.passivity_controller import PassivityControllerParameters
    from rbd_control.nodes.simulated_arm import SimulatedArmParameters

    kinds = (
        ContactDetectorParameters,
        ContactGuardParameters,
        HandGuideNodeParameters,
        PassivityControllerParameters,
        SimulatedArmParameters,
    )
    texts = {
        item.name
        for kind in kinds
        for item in fields(kind)
        if (isinstance(item.default, str) and not item.metadata["choices"])
        or (
            isinstance(item.default, tuple)
            and not (item.metadata["unit"] or item.metadata["per_joint"])
        )
    }
    assert texts == OTHER_TEXTS | set(NAMES)
    assert described_names(kinds) == NAMES


@pytest.mark.parametrize("path", sorted(CONFIG.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_that_ships_can_be_launched(path: Path) -> None:
    for node in ("contact_detector", "passivity_controller", "contact_guard", "hand_guide"):
        values = node_parameters(path, "left", node)
        assert all(value != [] for value in values.values())


@pytest.mark.parametrize(
    ("sections", "namespace", "is_refused"),
    [
        (["passivity_controller"], "", True),
        (["contact_detector"], "left", False),
        (["/**"], "left", False),
        (["/left/contact_detector"], "/left/", False),
        (["/right/contact_detector"], "left", True),
        (["/left/**"], "", True),
    ],
)
def test_a_file_without_a_section_for_the_node_is_refused(
    sections: list[str], namespace: str, is_refused: bool, tmp_path: Path
) -> None:
    with pytest.raises(ParameterError, match=r"nope\.yaml: cannot be read"):
        require_sections(tmp_path / "nope.yaml", namespace, ["contact_detector"])
    path = tmp_path / "odd.yaml"
    content = {name: {"ros__parameters": {"timeout": 1.0}} for name in sections}
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    if not is_refused:
        require_sections(path, namespace, ["contact_detector"])
        return
    with pytest.raises(ParameterError, match="no section for contact_detector") as refusal:
        require_sections(path, namespace, ["contact_detector"])
    assert sections[0] in str(refusal.value)
    assert "odd.yaml" in str(refusal.value)
