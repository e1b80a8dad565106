"""The scenario of the demo beside its nodes: it moves and pushes the arm, and yields to others."""

from __future__ import annotations

from diagnostic_msgs.msg import DiagnosticArray
from trajectory_msgs.msg import JointTrajectory

from rbd_control.nodes.demo_scenario import TRAJECTORY
from rbd_control.ros.contact_messages import event_from_status
from rbd_control.share import share_directory

from . import scenarios
from .bringup import BringUp
from .probe import Probe


def test_the_scenario_pushes_and_gives_way(bring_up: BringUp, probe: Probe) -> None:
    config = share_directory() / "config" / "demo.yaml"
    for node in scenarios.NODES:
        own = {"rate": 500.0} if node == scenarios.ARM else None  # at 1 kHz in test_demo
        bring_up.start(node, own, ["--params-file", str(config)])
    scenario = bring_up.start("demo_scenario", {"duration": 10.0, "loop": True})
    events = probe.listen(DiagnosticArray, f"{scenarios.DETECTOR}/events")
    probe.wait_for_report(
        scenarios.CONTROLLER, lambda r: r.values.get("mode") == "follow", "the arm does not move"
    )
    probe.wait(lambda: len(events) > 0, "the push is not detected")
    # The tool, which is pushed first, is a fixed part of link_7.
    assert "link_7" in event_from_status(events[0].status[0]).candidates
    assert "pushing tool with 25 N" in scenario.output
    # Whoever else wants to move the arm has it.
    probe.node.create_publisher(JointTrajectory, TRAJECTORY, 1)
    assert scenario.wait() == 0
    assert "another node publishes trajectories" in scenario.output
