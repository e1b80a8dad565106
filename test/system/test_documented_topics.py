"""Frames and keys are those that docs/topics.md lists; the table of topics is generated."""

from __future__ import annotations

import re
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Vector3, WrenchStamped
from published import KEYS, key_pattern
from sensor_msgs.msg import JointState

from rbd_control.share import share_directory

from . import scenarios
from .bringup import BringUp
from .probe import LATCHED, Probe

RECEIVERS = (scenarios.CONTROLLER, scenarios.DETECTOR)


def keys(message: DiagnosticArray) -> set[str]:
    return {item.key for item in message.status[0].values}


def undocumented(found: set[str], *sections: str) -> set[str]:
    known = [key_pattern(key) for section in sections for key in KEYS[section]]
    return {key for key in found if not any(re.fullmatch(pattern, key) for pattern in known)}


def always(*sections: str) -> set[str]:
    return {key for name in sections for key, when in KEYS[name].items() if when == "always"}


def test_documented_topics(bring_up: BringUp, probe: Probe) -> None:
    config = share_directory() / "config" / "demo.yaml"
    for node in scenarios.NODES:
        own: dict[str, Any] = {"frame_prefix": "left/"}
        if node == scenarios.ARM:
            own = {"rate": 500.0}  # names and keys do not depend on it
        if node == scenarios.DETECTOR:
            own["tool_frame"] = "tool"
        bring_up.start(node, own, ["--params-file", str(config)])
    verdicts = probe.listen(DiagnosticArray, f"{scenarios.DETECTOR}/contact_stamped", LATCHED)
    events = probe.listen(DiagnosticArray, f"{scenarios.DETECTOR}/events")
    wrenches = probe.listen(WrenchStamped, f"{scenarios.DETECTOR}/external_wrench")
    tools = probe.listen(WrenchStamped, f"{scenarios.DETECTOR}/tool_wrench")
    errors = probe.listen(JointState, f"{scenarios.CONTROLLER}/tracking_error")
    scenarios.come_up(probe)
    probe.wait(lambda: verdicts, "no stamped verdict")
    push = WrenchStamped()
    push.header.frame_id = "link_7"
    push.wrench.force = Vector3(x=0.0, y=25.0, z=0.0)
    probe.send(f"{scenarios.ARM}/external_wrench", push)
    probe.wait(lambda: len(events) >= 2, "no onset and release")
    probe.wait(lambda: wrenches and tools and errors, "no wrench")

    for message in verdicts:
        assert keys(message) == set(KEYS["verdict"])
    for message in events:
        assert keys(message) == set(KEYS["events"])
    highest = max(verdicts, key=lambda message: message.status[0].level)
    assert highest.status[0].level > verdicts[0].status[0].level, "the push is a change"
    assert highest.header.stamp.sec > 0
    for node in scenarios.NODES:
        shared = ("every node", "joint states") if node in RECEIVERS else ("every node",)
        report = probe.wait_for_report(node, lambda r: r.values.get("state") == "active", "state")
        assert not undocumented({*report.values}, node, *shared), node
        assert always(node, *shared) <= {*report.values}, node
    frames = [messages[-1].header.frame_id for messages in (verdicts, events, errors)]
    assert frames == ["left/link_0"] * 3
    assert {message.header.frame_id for message in wrenches} <= {f"left/link_{i}" for i in range(8)}
    assert tools[-1].header.frame_id == "left/tool"
