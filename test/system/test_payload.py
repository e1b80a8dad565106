"""One arm file for detector and controller, and changes of the payload at run time.

The numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

import signal
import subprocess

import numpy as np
import pytest
from geometry_msgs.msg import InertiaStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.robot.payload import PayloadParameters
from rbd_control.simulation import arm7_urdf

from .bringup import STANDSTILL, BringUp
from .controller_setting import COMMANDS, NODE, POSTURE, resting, resume, wait_for_torque
from .probe import LATCHED, Probe, Report, efforts

DETECTOR = "contact_detector"
GRAVITY = (2.0, 0.0, -9.6)
"""Gravity of an arm on a slope [m/s²]."""

ARM = {
    "urdf": "arm7",
    "gravity": list(GRAVITY),
    "payload_mass": 0.5,
    "payload_com": [0.0, 0.0, 0.05],
    "effort_kind": "current",
    "effort_gain": [-2.0],
}
MODEL = Model.from_urdf(arm7_urdf(), gravity=GRAVITY)


def weight(mass: float, com: tuple[float, float, float]) -> np.ndarray:
    payload = PayloadParameters(payload_mass=mass, payload_com=com)
    return np.asarray(gravity_torque(payload.loaded(MODEL), POSTURE))


def command(bring_up: BringUp, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``rbd-control payload`` as a user does."""
    return bring_up.run("payload", *arguments)


@pytest.fixture(scope="module")
def at_start() -> np.ndarray:
    return weight(0.5, (0.0, 0.0, 0.05))


def test_payload_without_subscriber(bring_up: BringUp) -> None:
    ended = command(bring_up, "--mass", "1")
    assert ended.returncode == 1
    assert "payload has no subscriber" in ended.stdout
    wrong = command(bring_up, "--mass", "1", "--com", "0,0")
    assert wrong.returncode == 2
    assert "payload_com has 2 values; give 3" in wrong.stderr


@pytest.mark.parametrize(
    ("mass", "link", "reason"),
    [(90.0, "", "too heavy"), (1.0, "tool0_of_another_arm", "tool0_of_another_arm")],
    ids=["too heavy", "unknown link"],
)
def test_a_payload_announced_before_the_start_is_checked(
    mass: float, link: str, reason: str, bring_up: BringUp, probe: Probe
) -> None:
    """[91] Without a description and a posture it is pending; both nodes start without it."""
    payload = InertiaStamped()
    payload.header.frame_id, payload.inertia.m = link, mass
    announced = probe.node.create_publisher(InertiaStamped, "payload", LATCHED)
    announced.publish(payload)
    description = probe.node.create_publisher(String, "robot_description", LATCHED)
    commands = probe.listen(Float64MultiArray, COMMANDS)
    parameters = {"gravity": list(GRAVITY), "timeout": STANDSTILL, "discovery_time": 1.0}
    processes = [
        bring_up.start(NODE, parameters),
        bring_up.start(DETECTOR, {"gravity": list(GRAVITY)}),
    ]
    for name in (NODE, DETECTOR):
        probe.wait_for_report(
            name, lambda r: "payload not in force yet" in r.message, "nothing is pending"
        )
    before = len(commands)
    description.publish(String(data=arm7_urdf()))
    source = probe.stream(resting())
    source.effort = np.asarray(gravity_torque(MODEL, POSTURE))
    for name in (NODE, DETECTOR):
        report = probe.wait_for_report(
            name,
            lambda r: r.values.get("state") == "active" and reason in r.message,
            "does not start, or does not report the refusal",
        )
        assert float(report.values["payload [kg]"]) == 0.0
    wait_for_torque(probe, commands, gravity_torque(MODEL, POSTURE))
    limit = 2.0 * np.abs(gravity_torque(MODEL, POSTURE)).max()
    assert max(np.abs(each.data).max() for each in commands[before:]) < limit
    for process in processes:
        process.signal(signal.SIGINT)
        assert process.wait() == 0, process.output
    source.on = False
    for publisher in (announced, description):
        probe.node.destroy_publisher(publisher)


def test_no_start_with_a_payload_that_is_too_heavy(bring_up: BringUp, probe: Probe) -> None:
    """[91] A payload of the parameter file that the motors cannot hold: no torque, exit code 1."""
    source = probe.stream(resting())
    commands = probe.listen(Float64MultiArray, COMMANDS)
    count = len(commands)
    process = bring_up.start(NODE, {"urdf": "arm7", "payload_mass": 90.0, "discovery_time": 1.0})
    assert process.wait() == 1, process.output
    assert "cannot activate: too heavy: joint_2 cannot hold" in process.output
    assert "Traceback" not in process.output
    assert not any(np.any(each.data) for each in commands[count:])
    source.on = False


def test_a_payload_reaches_both_nodes(
    bring_up: BringUp, probe: Probe, at_start: np.ndarray
) -> None:
    """[91] A payload that the motors cannot carry is refused, and the one before stays."""
    source = probe.stream(resting())
    source.effort = at_start / -2.0
    names = {"passivity_controller": NODE, "contact_detector": DETECTOR}
    processes = {
        name: bring_up.start(
            name, {**ARM, "timeout": STANDSTILL, "discovery_time": 1.0} if name == NODE else ARM
        )
        for name in names
    }

    def wait_for_refusal(name: str, reason: str) -> Report:
        """Wait for the reason in the log, and on /diagnostics unless a fault is reported there."""
        probe.wait(lambda: reason in processes[name].output, f"{name}: no {reason!r} in its log")
        report = probe.wait_for_report(
            names[name],
            lambda r: reason in r.message or r.values.get("mode") == "safe",
            "the refusal is not reported",
        )
        if report.values.get("mode") == "safe":
            # A busy machine has delayed the joint states of this test by more than a second.
            assert "no joint states" in report.message, report
            resume(probe)
        return report

    commands = probe.listen(Float64MultiArray, COMMANDS)
    residuals = probe.listen(JointState, f"{DETECTOR}/external_joint_torques")
    # The file of the arm is the same picture of it for both.
    wait_for_torque(probe, commands, at_start)
    probe.wait(lambda: residuals and np.allclose(efforts(residuals), 0.0, atol=1e-6), "residual")

    ended = command(bring_up, "--mass", "1.5", "--com", "0,0,0.1", "--link", "link_7")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "/passivity_controller: 1.5 kg" in ended.stdout
    assert "/contact_detector: 1.5 kg" in ended.stdout
    loaded = weight(1.5, (0.0, 0.0, 0.1))
    wait_for_torque(probe, commands, loaded)
    source.effort = loaded / -2.0
    probe.wait(lambda: np.allclose(efforts(residuals), 0.0, atol=1e-6), "payload is felt")

    ended = command(bring_up, "--mass", "500")
    assert ended.returncode == 1
    for name, node in names.items():
        assert f"/{node}: refused, or not checked" in ended.stdout
        report = wait_for_refusal(name, "too heavy")
        assert float(report.values["payload [kg]"]) == 1.5
    seen = len(commands)
    probe.wait(lambda: len(commands) > seen + 20, "no torque")
    wait_for_torque(probe, commands, loaded)

    message = InertiaStamped()
    message.inertia.m = float("nan")
    probe.node.create_publisher(InertiaStamped, "payload", LATCHED).publish(message)
    for name in names:
        wait_for_refusal(name, "finite")
    wait_for_torque(probe, commands, loaded)
    assert np.allclose(commands[-1].data, loaded, atol=1e-6)


def test_a_name_that_only_begins_like_one_of_the_arm_is_warned_of(bring_up: BringUp) -> None:
    """A slip of the pen must not leave an arm that carries itself to be carried twice."""
    process = bring_up.start(NODE, {"urdf": "arm7", "gravity_compensatd": True})
    process.wait_until(lambda: "no parameter 'gravity_compensatd'" in process.output)


def test_a_file_of_before_is_refused(bring_up: BringUp) -> None:
    """[92] In old files payload_mass is the largest mass to learn; now it means carried mass."""
    process = bring_up.start(NODE, {"urdf": "arm7", "payload_mass": 3.0, "payload_reach": 0.2})
    assert process.wait() != 0
    assert "it is now largest_payload_reach" in process.output
    assert "Traceback" not in process.output
