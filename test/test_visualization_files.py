"""The files for RViz, PlotJuggler, Foxglove and diagnostic_aggregator name what nodes publish.

``test/system/test_together.py`` compares types and documented keys with the running nodes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from diagnostic_msgs.msg import DiagnosticArray
from published import KEYS, TYPES, key_pattern

from rbd_control.startup import executables

CONFIG = Path(__file__).resolve().parent.parent / "config"
PLOTJUGGLER = CONFIG / "plotjuggler" / "rbd_control.xml"
FOXGLOVE = json.loads((CONFIG / "foxglove" / "rbd_control.json").read_text(encoding="utf-8"))
RVIZ = yaml.safe_load((CONFIG / "rviz" / "contacts.rviz").read_text(encoding="utf-8"))
AGGREGATOR = yaml.safe_load(
    (CONFIG / "diagnostics" / "aggregator.yaml").read_text(encoding="utf-8")
)["analyzers"]["ros__parameters"]
JOINTS = {f"joint_{i}" for i in range(1, 8)}
NUMBERS = ("boolean", "double", "float", "byte", "octet", "int8", "uint8", "int32", "uint32")
MESSAGES = {
    "rviz_default_plugins/MarkerArray": "MarkerArray",
    "rviz_default_plugins/Wrench": "WrenchStamped",
}


def field_type(kind: type, path: str) -> str:
    """Return the type of a field such as ``wrench.force.x`` or ``status[0].level``."""
    for part in path.split("."):
        name, _, index = part.partition("[")
        fields = kind.get_fields_and_field_types()  # type: ignore[attr-defined]
        assert name in fields, f"{kind.__name__} has no field {name}"
        text = fields[name]
        if index:
            assert text.startswith("sequence<"), f"{name} is {text}"
            text = text.removeprefix("sequence<").removesuffix(">")
        if "/" not in text:
            return text
        package, _, message = text.partition("/")
        kind = getattr(__import__(f"{package}.msg", fromlist=[message]), message)
    return kind.__name__


def split_topic(series: str) -> tuple[str, str]:
    """Return the topic that a series begins with, and the rest."""
    topic = max((t for t in TYPES if series.startswith(f"{t}/")), key=len, default="")
    assert topic, f"nothing publishes {series}"
    return topic, series[len(topic) + 1 :]


def curves() -> list[str]:
    return [str(curve.get("name")) for curve in ElementTree.parse(PLOTJUGGLER).iter("curve")]


def assert_is_published(series: str) -> None:
    """Check a series, named by joint in JointState, by hardware and name in diagnostics."""
    topic, rest = split_topic(series)
    kind = TYPES[topic]
    if kind.__name__ == "JointState":
        joint, field = rest.split("/")
        assert joint in JOINTS
        assert field in ("position", "velocity", "effort")
    elif kind is DiagnosticArray:
        hardware, name, key = re.fullmatch(r"(\w+)/([\w: ]+)/(.+)", rest).groups()  # type: ignore[union-attr]
        of_node = (name, "joint states", "every node")
        sections = ("verdict",) if name == f"{hardware}: verdict" else of_node
        known = [pattern for section in sections for pattern in KEYS[section]]
        assert any(re.fullmatch(key_pattern(pattern), key) for pattern in known), key
    else:
        assert field_type(kind, rest.replace("/", ".")) in NUMBERS


def test_plotjuggler_draws_what_is_published_and_subscribes_to_it() -> None:
    for series in curves():
        assert_is_published(series)
    selected = ElementTree.parse(PLOTJUGGLER).find(".//selected_topics")
    assert selected is not None
    topics = set(str(selected.get("value")).split(";"))
    assert topics <= TYPES.keys()
    assert {split_topic(series)[0] for series in curves()} <= topics


def foxglove_paths() -> Iterator[str]:
    for panel in FOXGLOVE["configById"].values():
        yield from (path["value"] for path in panel.get("paths", ()))


def test_foxglove_shows_what_is_published() -> None:
    for path in foxglove_paths():
        topic, _, field = path.partition(".")
        assert field_type(TYPES[topic], field) in NUMBERS
    panels = FOXGLOVE["configById"]
    arm = panels["3D!arm"]
    named = {*arm["topics"], arm["layers"]["urdf"]["topic"]}
    named.add(panels["RawMessages!event"]["topicPath"].partition(".")[0])
    named.add(panels["DiagnosticSummary!nodes"]["topicToRender"])
    assert named <= TYPES.keys()


def displays() -> Iterator[tuple[str, str]]:
    for display in RVIZ["Visualization Manager"]["Displays"]:
        for name in ("Topic", "Description Topic"):
            if name in display:
                yield display["Class"], display[name]["Value"]


def test_rviz_displays_are_published() -> None:
    for kind, topic in displays():
        assert not topic.startswith("/"), "a namespace would not apply"
        assert TYPES[f"/{topic}"].__name__ == MESSAGES.get(kind, "String")


def test_the_aggregator_takes_each_node_once() -> None:
    """Its generic analyzer requires that an expression matches the whole name."""
    analyzers = {name: value for name, value in AGGREGATOR.items() if isinstance(value, dict)}
    assert all(a["type"] == "diagnostic_aggregator/GenericAnalyzer" for a in analyzers.values())
    nodes = {path.stem for path in CONFIG.glob("*.yaml") if hasattr(executables, path.stem)}
    assert len(nodes) == 6
    for node in nodes:
        for name in (node, f"cell/left/{node}"):
            found = [
                key
                for key, analyzer in analyzers.items()
                if any(re.fullmatch(expression, name) for expression in analyzer["regex"])
            ]
            assert len(found) == 1, (name, found)
    assert not any(
        re.fullmatch(e, "other_contact_detector") for a in analyzers.values() for e in a["regex"]
    )
    assert len(analyzers) == len(nodes)
    detection = next(a for a in analyzers.values() if a["path"] == "Contact detection")
    assert any(re.fullmatch(e, "left/contact_detector: check") for e in detection["regex"])
