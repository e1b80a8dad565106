"""Detector and controller in one process: the reaction is in the sample that raises the flag."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, String

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.simulation import arm7_urdf

from .bringup import STANDSTILL, BringUp, Process
from .probe import LATCHED, Heard, Probe, Source

DETECTOR, CONTROLLER = "contact_detector", "passivity_controller"
MODEL = Model.from_urdf(arm7_urdf())
POSE = np.array([0.1, 0.3, 0.0, -1.5, 0.2, 0.9, 0.3])
WEIGHT = gravity_torque(MODEL, POSE)
PUSH = np.array([0.0, 25.0, 0.0, 12.0, 0.0, 0.0, 0.0])
"""Joint torque of the push [N·m], by which the effort of the motors decreases."""

AWAY = 0.01
"""How far the arm stands from where it is held [rad]: what holds it then is more than its weight.
"""


@pytest.fixture(scope="module")
def source(probe: Probe) -> Source:
    """Return an arm at rest whose readings are never the same twice."""
    source = Source(MODEL.joint_names, POSE, np.zeros(7), WEIGHT)
    random = np.random.default_rng(2)
    source.push = np.zeros(7)  # type: ignore[attr-defined]
    source.away = 0.0  # type: ignore[attr-defined]

    def disturb() -> None:
        source.position = POSE + source.away + 1e-6 * random.normal(size=7)  # type: ignore[attr-defined]
        source.velocity = 1e-4 * random.normal(size=7)
        source.effort = WEIGHT - source.push + 1e-3 * random.normal(size=7)  # type: ignore[attr-defined]

    probe.every(0.002, disturb)
    return probe.stream(source)


@pytest.fixture(scope="module")
def process(bring_up: BringUp, probe: Probe, source: Source) -> Process:
    return bring_up.start(
        "contact_aware_controller",
        {
            "urdf": "arm7",
            "contact_reaction": "float",
            "require_detector": True,
            "timeout": STANDSTILL,
            "discovery_time": 0.0,
            "velocity_mismatch": 0.0,  # the arm is placed elsewhere from one sample to the next
            "torque_rate": 1e5,
            "tool_frame": "tool",
        },
    )


def stamp(message: JointState | DiagnosticArray) -> tuple[int, int]:
    return message.header.stamp.sec, message.header.stamp.nanosec


def torques(heard: Heard) -> dict[tuple[int, int], np.ndarray]:
    """Return the commanded torque by the stamp of the joint state that it answers."""
    return {stamp(message): np.array(message.effort) for message in list(heard)}


def test_the_first_torque_after_the_flag_is_the_reaction(
    probe: Probe, process: Process, source: Source
) -> None:
    flag = probe.listen(Bool, f"{DETECTOR}/contact")
    events = probe.listen(DiagnosticArray, f"{DETECTOR}/events")
    errors = probe.listen(JointState, f"{CONTROLLER}/tracking_error")
    probe.wait_for_report(CONTROLLER, lambda r: r.values.get("mode") == "hold", "does not hold")
    probe.wait(lambda: flag and not flag[-1].data, "no verdict")
    source.away = AWAY  # type: ignore[attr-defined]
    probe.wait(lambda: errors and np.ptp(errors[-1].effort - WEIGHT) > 1.0, "holds with nothing")
    source.push = PUSH  # type: ignore[attr-defined]
    probe.wait(lambda: flag[-1].data and events, "does not find the push")
    onset = stamp(events[-1])
    # Of samples that waited together on a busy machine only the newest is answered.
    probe.wait(lambda: max(torques(errors)) >= onset, "no torque after the flag")
    found = torques(errors)
    order = sorted(found)
    here = next(k for k, each in enumerate(order) if each >= onset)
    weight = gravity_torque(MODEL, POSE + AWAY)
    # Friction that the detector does not know is none here: floating is the weight to 0.1 N·m.
    assert np.abs(found[order[here]] - weight).max() < 0.1, process.output
    assert np.abs(found[order[here - 1]] - weight).max() > 1.0
    # One subscription for both, and none to what stays in the process but the probe's own.
    assert probe.node.count_subscribers("joint_states") == 1
    assert probe.node.count_subscribers(f"{DETECTOR}/contact") <= 1


def test_the_controller_waits_for_the_configuration_of_the_detector(
    bring_up: BringUp, probe: Probe, tmp_path: Path
) -> None:
    """The detector cannot be configured while the controller is active."""
    space = "late_detector"
    torque = probe.listen(Float64MultiArray, f"{space}/effort_controller/commands")
    probe.stream(Source(MODEL.joint_names, POSE, np.zeros(7), WEIGHT), f"{space}/joint_states")
    # Only the controller has the description; the detector waits for the topic.
    file = tmp_path / "controller.yaml"
    file.write_text(f"/{space}/{CONTROLLER}:\n  ros__parameters:\n    urdf: arm7\n")
    arguments = ("-r", f"__ns:=/{space}", "--params-file", str(file))
    given = {"discovery_time": 0.0, "timeout": STANDSTILL}
    process = bring_up.start("contact_aware_controller", given, arguments)
    waits = f"inactive, waiting for the configuration of {DETECTOR}"
    probe.wait_for_report(f"{space}/{CONTROLLER}", lambda r: r.message == waits, "does not wait")
    assert not torque
    publisher = probe.node.create_publisher(String, f"{space}/robot_description", LATCHED)
    publisher.publish(String(data=arm7_urdf()))
    for name, value in ((CONTROLLER, "mode"), (DETECTOR, "contact")):
        probe.wait_for_report(f"{space}/{name}", lambda r, v=value: v in r.values, "is not active")  # type: ignore[misc]
    probe.wait(lambda: torque, "no torque")
    assert process.output.index("contact_detector]: configured") < process.output.index(
        "passivity_controller]: mode hold"
    )
    probe.node.destroy_publisher(publisher)


def test_silence_ends_the_verdict_and_the_torque(
    probe: Probe, process: Process, source: Source
) -> None:
    """And a signal the process."""
    torque = probe.listen(Float64MultiArray, "effort_controller/commands")
    source.on = False
    probe.wait_for_report(CONTROLLER, lambda r: r.values.get("mode") == "safe", "is not safe")
    report = probe.wait_for_report(
        DETECTOR, lambda r: r.values["valid"] == "0", "a verdict remains"
    )
    assert report.level > 0
    assert "no verdict: no joint states were judged" in report.message
    probe.wait(lambda: torque and not np.any(torque[-1].data), "the torque is not zero")
    process.signal(signal.SIGINT)
    assert process.wait() == 0, process.output
    assert "Traceback" not in process.output
