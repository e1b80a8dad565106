"""The controller's input from a detector: which publishers it hears, and frames of the force."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from fake_node import FakeNode
from rclpy.qos import (
    DurabilityPolicy,
    QoSCompatibility,
    QoSProfile,
    ReliabilityPolicy,
    qos_check_compatible,
)

from rbd_control.nodes.detector_input import DetectorInput, link_of_frame
from rbd_control.ros.diagnostics import Status

LINKS = ("base", "link_1", "link_11", "hand", "left_hand")


def detector_input(node: Any, warning: str = "") -> DetectorInput:
    return DetectorInput(node, lambda _flag: None, lambda _frame, _force: None, lambda: warning)


def report(source: Any) -> Status:
    status = Status()
    source.report(status)
    return status


@pytest.mark.parametrize(
    "durability", [DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL]
)
def test_a_flag_of_either_durability_is_received(durability: DurabilityPolicy) -> None:
    flags = detector_input(FakeNode())._qos
    offered = QoSProfile(depth=1, durability=durability)
    assert qos_check_compatible(offered, flags)[0] != QoSCompatibility.ERROR
    assert flags.durability == DurabilityPolicy.VOLATILE, "a flag of before is out of date"


def test_a_best_effort_flag_is_named() -> None:
    """The controller does not receive the flag, and reports why."""
    weak = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    found = [SimpleNamespace(node_name="weak", qos_profile=weak)]
    node = FakeNode(get_publishers_info_by_topic=lambda _topic: found)
    messages = report(detector_input(node, "no contact detector has published yet")).messages
    assert "/contact_detector/contact of weak cannot be received: " in messages[1]


@pytest.mark.parametrize(
    ("frame", "prefix", "link"),
    [
        ("left/link_1", "left/", "link_1"),
        ("link_1", "left/", "link_1"),
        ("right/link_1", "left/", "link_1"),
        ("panda_hand", "", "hand"),
        ("shand", "", ""),
        ("link_2", "", ""),
    ],
)
def test_the_link_of_a_frame(frame: str, prefix: str, link: str) -> None:
    assert link_of_frame(frame, LINKS, prefix) == link
