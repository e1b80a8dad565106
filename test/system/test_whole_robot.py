"""Nodes on a description with more than the arm they work with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from robots import urdf_path
from std_msgs.msg import Float64MultiArray

from .bringup import STANDSTILL, BringUp, Process
from .probe import Probe, Source
from .whole_robot import ARM, OPEN, publish_robot, verdict_without_contact, weight


@pytest.fixture(scope="module")
def description() -> Path:
    return urdf_path("panda")


@pytest.fixture(scope="module")
def arm(probe: Probe, description: Path) -> Source:
    return publish_robot(probe, description)


@pytest.fixture(scope="module")
def detector(bring_up: BringUp, probe: Probe, arm: Source) -> Process:
    """Return the detector without any parameter."""
    process = bring_up.start("contact_detector")
    assert len(arm.names) == len(ARM)
    probe.wait_for_report("contact_detector", lambda r: "state" in r.values, "no report")
    return process


def test_the_detector_takes_the_joints_whose_effort_is_reported(
    probe: Probe, detector: Process
) -> None:
    verdict_without_contact(probe)
    said = detector.output
    assert f"held joints: panda_finger_joint1 at {OPEN:g} as joint states report" in said


def test_the_controller_holds_the_arm_it_is_told_of(
    bring_up: BringUp, probe: Probe, arm: Source, description: Path
) -> None:
    bring_up.start("passivity_controller", {"joints": list(arm.names), "timeout": STANDSTILL})
    torque = probe.listen(Float64MultiArray, "effort_controller/commands")
    probe.wait(lambda: len(torque) > 50, "no torque")
    sent = np.array(torque[-1].data)
    assert sent.shape == (7,)
    # At rest where it holds, torque is the weight of arm, hand and fingers.
    assert np.abs(sent - weight(description)).max() < 0.5
