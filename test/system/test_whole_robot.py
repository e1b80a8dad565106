"""Nodes on a description with more than the arm they work with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from robots import two_arms, urdf_path
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.simulation import arm7_urdf

from .bringup import BringUp, Process
from .controller_setting import ALONE, resume
from .probe import Probe, Source
from .whole_robot import ARM, OPEN, publish_robot, verdict_without_contact, weight

ERROR = 2
"""Level of a status in /diagnostics."""


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
    bring_up.start("passivity_controller", {"joints": list(arm.names), **ALONE})
    torque = probe.listen(Float64MultiArray, "effort_controller/commands")
    probe.wait(lambda: len(torque) > 50, "no torque")
    sent = np.array(torque[-1].data)
    assert sent.shape == (7,)
    # At rest where it holds, torque is the weight of arm, hand and fingers.
    assert np.abs(sent - weight(description)).max() < 0.5


@pytest.mark.parametrize("node", ["contact_detector", "passivity_controller"])
def test_two_drivers_with_effort_leave_the_choice_to_the_parameter(
    bring_up: BringUp, probe: Probe, node: str
) -> None:
    """[122] The node waits, and names both sets; the parameter ``joints`` ends the wait."""
    topic, joints = "two_arms/joint_states", [f"joint_{i}" for i in range(1, 8)]
    arms = [
        Source([f"{prefix}{name}" for name in joints], np.zeros(7), np.zeros(7), np.ones(7))
        for prefix in ("", "left_")
    ]
    for arm in arms:
        probe.stream(arm, topic)
    arguments = ["-r", "__ns:=/two_arms", "-r", f"__node:={node}_of_two"]
    given = {"robot_description": two_arms()}
    process = bring_up.start(node, given, arguments)
    name = f"two_arms/{node}_of_two"
    report = probe.wait_for_report(
        name, lambda r: "in the parameter joints" in r.message, "does not ask"
    )
    assert "efforts come from joint_1, " in report.message or "left_joint_1" in report.message
    assert "and from" in report.message
    assert report.values["state"] == "unconfigured"
    process.end()
    chosen = bring_up.start(node, {**given, "joints": joints}, arguments)
    probe.wait(lambda: "held joints: left_joint_1 at 0" in chosen.output, "is not configured")
    chosen.end()
    for arm in arms:
        probe.end_stream(arm)


def on_a_torso() -> str:
    """Return the description of the arm on a joint ``torso`` that tilts it."""
    text = arm7_urdf()
    root = re.findall(r'<link name="(\w+)"', text)[0]
    joint = f"""<link name="pelvis"/><joint name="torso" type="revolute"><parent link="pelvis"/>
      <child link="{root}"/><axis xyz="0 1 0"/>
      <limit lower="-1" upper="1" effort="500" velocity="1"/></joint></robot>"""
    return text.replace("</robot>", joint)


@pytest.mark.parametrize(
    "node", ["contact_detector", "passivity_controller", "contact_aware_controller"]
)
def test_a_held_joint_that_carries_the_arm_moves(
    bring_up: BringUp, probe: Probe, node: str
) -> None:
    """[123] The model is wrong then. The torso reports its position in messages of its own.

    A second publisher contradicts these messages; this changes nothing.
    """
    names = [f"joint_{i}" for i in range(1, 8)]
    q = np.array([0.0, 0.5, 0.0, -1.2, 0.0, 0.9, 0.0])
    arm = Source(names, q, np.zeros(7), gravity_torque(Model.from_urdf(arm7_urdf()), q))
    torso, stray = Source(("torso",), (0.0,)), Source(("torso",), (0.0,))
    for source in (arm, torso, stray):
        probe.stream(source, f"{node}_on_torso/joint_states")
    random = np.random.default_rng(1)

    def disturb() -> None:
        # Joint states that repeat exactly give no verdict after a while.
        arm.position = q + 1e-6 * random.normal(size=7)

    timer = probe.every(0.01, disturb)
    given: dict[str, Any] = {"robot_description": on_a_torso(), "joints": names}
    is_detector = node == "contact_detector"
    if not is_detector:
        given |= ALONE
    process = bring_up.start(node, given, ("-r", f"__ns:=/{node}_on_torso"))
    detector, controller = (
        f"{node}_on_torso/{name}" for name in ("contact_detector", "passivity_controller")
    )
    name, value = (detector, "contact") if is_detector else (controller, "mode")
    probe.wait_for_report(name, lambda r: value in r.values, "is not active")
    torque = probe.listen(Float64MultiArray, f"{node}_on_torso/effort_controller/commands")
    torso.position = (0.012,)
    report = probe.wait_for_report(
        name, lambda r: "held joint torso is at 0.012 instead of 0" in r.message, "no fault"
    )
    assert report.level == ERROR
    report = probe.later_report(name)
    assert "held joint torso is at 0.012 instead of 0" in report.message
    stray.on = False
    said = "no verdict: held joint" if is_detector else "safe torque: held joint"
    assert process.output.count(said) == 1, process.output
    if is_detector:
        assert report.values["valid"] == "False"
        torso.position = (0.0,)
        probe.wait_for_report(name, lambda r: r.values["valid"] == "True", "no verdict again")
    else:
        assert report.values["mode"] == "safe"
        sent = len(torque)
        probe.wait(lambda: len(torque) > sent + 10, "no torque")
        assert not np.any(torque[-1].data)  # at rest there is nothing to brake
        refused = probe.call(Trigger, f"{name}/resume")
        assert not refused.success
        assert "cannot resume: held joint torso is at 0.012" in refused.message
        if node == "contact_aware_controller":
            verdict = probe.report(detector)
            assert "no verdict: held joint torso is at 0.012" in verdict.message
        torso.position = (0.0,)
        resume(probe, name)
    process.end()
    probe.end_repetition(timer)
    for source in (arm, torso, stray):
        probe.end_stream(source)
