"""The automatic start: until the node is active, or somebody else requests a transition."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from fake_node import FakeNode

from rbd_control.ros.managed_node import AutoStart, NotReadyError


class Node(FakeNode):
    """A node that can be configured, and activated as soon as nothing is missing.

    Attributes:
        transitions: the transitions so far.
        missing, before: the conditions of the activation that are not met.
    """

    def __init__(self) -> None:
        super().__init__(exit_code=None, failure=None)
        self.transitions: list[str] = []
        self.missing = self.before = ""

    def missing_to_configure(self) -> str:
        return ""

    def starts_after(self) -> str:
        return self.before

    def waiting_for(self) -> str:
        return self.missing

    def trigger_configure(self) -> None:
        self.is_configured = True
        self.transitions.append("configure")

    def trigger_activate(self) -> None:
        self.transitions.append("activate")


def test_a_node_waits_for_another_one_of_its_process() -> None:
    node: Any = Node()
    start = AutoStart(node)
    (tick,) = node.timers
    node.before, node.missing = "the configuration of a", "joint states"
    tick()
    assert start.obstacle == "waiting for the configuration of a"
    node.before = ""
    tick()
    assert start.obstacle == "waiting for joint states"
    assert node.transitions == ["configure"]


def test_why_an_activation_is_refused_replaces_a_condition_that_is_met() -> None:
    """``/diagnostics`` went on to name joint states that had arrived."""
    node: Any = Node()
    start = AutoStart(node)
    (tick,) = node.timers
    node.missing = "joint states"
    tick()
    node.missing, node.failure = "", NotReadyError("waiting for another controller to end")
    tick()
    assert start.obstacle == "waiting for another controller to end"
    assert start.is_pending
    node.failure = None
    tick()
    assert not start.obstacle
    assert not start.is_pending


def test_the_start_ends_when_somebody_else_requests_a_transition() -> None:
    """An operator who cleans up a waiting node finds it unconfigured ever after."""
    node: Any = Node()
    start = AutoStart(node)
    (tick,) = node.timers
    node.missing = "joint states"
    tick()
    start.give_up()
    start.give_up()
    node.is_configured, node.missing = False, ""
    tick()
    assert node.transitions == ["configure"]
    assert not start.is_pending
    assert not start.obstacle
    assert not node.timers
    (line,) = [line for line in node.lines if "autostart ends" in line]
    assert "by further requests only" in line
