"""A description with more than the arm: the stock Panda with its hand, as drivers publish it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from robots import urdf_path
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, String

from rbd_control.dynamics import Model, gravity_torque

from .bringup import BringUp, Process
from .probe import LATCHED, Probe, Source, efforts

ARM = tuple(f"panda_joint{i}" for i in range(1, 8))
FINGERS = ("panda_finger_joint1", "panda_finger_joint2")
POSE = np.array([0.0, -0.5, 0.1, -2.0, 0.2, 1.6, 0.7])
OPEN = 0.03
"""Position of the fingers [m]."""


@pytest.fixture(scope="module")
def description() -> Path:
    return urdf_path("panda")


@pytest.fixture(scope="module")
def arm(probe: Probe, description: Path) -> Source:
    """Return the arm's driver with effort, the gripper's without, and the description, latched."""
    model = Model.from_urdf(description, locked={FINGERS[0]: OPEN})
    weight = gravity_torque(model, POSE)
    publisher = probe.node.create_publisher(String, "robot_description", LATCHED)
    publisher.publish(String(data=description.read_text(encoding="utf-8")))
    # Never the same twice, as sensors are.
    source = Source(ARM, POSE, np.zeros(7), weight)
    random = np.random.default_rng(1)
    probe.stream(source)
    probe.stream(Source(FINGERS, (OPEN, OPEN)), rate=20.0)

    def disturb() -> None:
        source.effort = weight + 1e-3 * random.normal(size=7)
        source.velocity = 1e-4 * random.normal(size=7)

    probe.node.create_timer(0.002, disturb)
    return source


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
    residual = probe.listen(JointState, "contact_detector/external_joint_torques")
    flag = probe.listen(Bool, "contact_detector/contact")
    probe.wait(lambda: residual and flag, "no verdict")
    assert tuple(residual[-1].name) == ARM
    said = detector.output
    assert f"held joints: panda_finger_joint1 at {OPEN:g} as joint states report" in said
    # The hand and the fingers are part of the last link: its weight is what is measured.
    probe.wait(lambda: len(residual) > 200, "the residual ended")
    assert np.abs(efforts(residual)).max() < 0.1
    assert not flag[-1].data


def test_the_controller_holds_the_arm_it_is_told_of(
    bring_up: BringUp, probe: Probe, arm: Source, description: Path
) -> None:
    bring_up.start("passivity_controller", {"joints": list(ARM)})
    torque = probe.listen(Float64MultiArray, "effort_controller/commands")
    probe.wait(lambda: len(torque) > 50, "no torque")
    model = Model.from_urdf(description, locked={FINGERS[0]: OPEN})
    sent = np.array(torque[-1].data)
    assert sent.shape == (7,)
    # At rest where it holds, torque is the weight of arm, hand and fingers.
    assert np.abs(sent - gravity_torque(model, POSE)).max() < 0.5
