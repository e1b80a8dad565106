"""Arm, controller and detector as three processes."""

from __future__ import annotations

from typing import Any

import pytest

from rbd_control.share import share_directory

from . import scenarios
from .bringup import BringUp, Process
from .probe import Probe

PARAMETERS: dict[str, dict[str, Any]] = {
    scenarios.ARM: {"rate": 500.0},
    scenarios.DETECTOR: {"tool_frame": "tool"},
}
"""Parameters of the nodes beside those of the demo, which runs at 1 kHz in test_demo."""


@pytest.fixture(scope="module")
def nodes(bring_up: BringUp) -> dict[str, Process]:
    config = share_directory() / "config" / "demo.yaml"
    return {
        node: bring_up.start(node, PARAMETERS.get(node), ["--params-file", str(config)])
        for node in scenarios.NODES
    }


@pytest.mark.usefixtures("nodes")
def test_together(probe: Probe) -> None:
    scenarios.come_up(probe)
    scenarios.truth_is_told(probe)
    scenarios.move(probe)
    scenarios.push(probe)
    scenarios.push_at_the_tool(probe)
    scenarios.reacts_in_time(probe)
    scenarios.hold_float_and_resume(probe)


def test_the_arm_brakes_when_its_controller_ends(probe: Probe, nodes: dict[str, Process]) -> None:
    scenarios.come_up(probe)
    controller = nodes[scenarios.CONTROLLER]

    def end() -> None:
        controller.end()

    scenarios.brakes_when_the_controller_ends(probe, end)
