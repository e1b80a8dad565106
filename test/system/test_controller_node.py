"""Parameters that only the node of the controller has."""

from __future__ import annotations

import os
import re
from dataclasses import fields
from pathlib import Path

import pytest
from geometry_msgs.msg import WrenchStamped
from lifecycle_msgs.srv import GetState
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

from rbd_control.control import ControllerParameters, Estimates
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.nodes.passivity_controller import PassivityControllerParameters
from rbd_control.robot import RobotParameters
from rbd_control.simulation import arm7_urdf

from .bringup import BringUp, Process
from .controller_setting import (
    NODE,
    PARAMETERS,
    POSTURE,
    in_space,
    resting,
    torques,
    wait_for_mode,
    wait_for_more,
    wait_for_torque,
)
from .probe import Probe

LIGHT = re.sub(
    r'<mass value="(.+?)"', lambda found: f'<mass value="{0.5 * float(found[1])}"', arm7_urdf()
)
"""The arm with half its masses."""

SPACE = "set"
"""Name of the controller whose parameters are set."""

IN_THIS_FILE = {"urdf", "joints", "best_effort", "frame_prefix", "thread_priority", "estimates"}
ELSEWHERE = {"robot_description", "autostart", "discovery_time", "queue_depth"}
"""Shown by ``test_two_arms``, ``test_start_and_end``, ``test_discovery`` and ``test_queue``."""


def test_every_parameter_has_a_case() -> None:
    """Here, or beside the law's in test_controller_parameters.py or the arm's in test_robot.py."""
    laws = {item.name for item in fields(ControllerParameters)} | {*RobotParameters.names()}
    names = {item.name for item in fields(PassivityControllerParameters)}
    assert names == laws | IN_THIS_FILE | ELSEWHERE


@pytest.fixture(scope="module")
def estimates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of the controller's estimates."""
    return tmp_path_factory.mktemp("learned") / "arm.yaml"


@pytest.fixture(scope="module")
def process(bring_up: BringUp, probe: Probe, estimates: Path) -> Process:
    """Return a controller in whose order joint_4 comes first and which lacks some joints."""
    file = estimates.parent / "light.urdf"
    file.write_text(LIGHT, encoding="utf-8")
    given = {
        "urdf": str(file),
        "joints": [f"joint_{i}" for i in (4, 1, 2, 3, 5, 6)],
        "best_effort": False,
        "frame_prefix": "left/",
        "thread_priority": 7,
        "adaptive": True,
        "estimates": str(estimates),
        "contact_reaction": "none",
    }
    process = bring_up.start(NODE, {**PARAMETERS, **given}, in_space(SPACE))
    probe.stream(resting(), f"{SPACE}/joint_states")
    return process


def test_description_and_joints(probe: Probe, process: Process) -> None:
    """Commands are in the order of ``joints``; other joints are held at reported positions."""
    weight = gravity_torque(Model.from_urdf(LIGHT), POSTURE)[[3, 0, 1, 2, 4, 5]]
    wait_for_torque(probe, torques(probe, SPACE), weight)
    assert f"joint_7 at {POSTURE[6]:.4g} as joint states report" in process.output


def test_joint_states_must_be_reliable(bring_up: BringUp, probe: Probe, process: Process) -> None:
    """Without ``best_effort`` such joint states are not received, nor is another type."""
    qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    publisher = probe.node.create_publisher(JointState, f"{SPACE}/joint_states", qos)
    probe.wait_for_report(SPACE, lambda r: "cannot be received" in r.message, "receives all")
    probe.node.destroy_publisher(publisher)
    other = Probe(bring_up.domain)
    other.node.create_publisher(String, f"{SPACE}/joint_states", 5)
    try:
        probe.wait_for_report(
            SPACE, lambda r: "std_msgs/msg/String" in r.message, "a wrong type is not told of"
        )
    finally:
        other.close()


def test_threads_have_the_priority(probe: Probe, process: Process) -> None:
    """All receiving and computing threads have the priority, or the log says why not."""
    wait_for_more(probe, torques(probe, SPACE))
    if "no thread_priority: not permitted" in process.output:
        return
    threads = [int(path.name) for path in Path(f"/proc/{process.pid}/task").iterdir()]
    names = {k: Path(f"/proc/{process.pid}/task/{k}/comm").read_text() for k in threads}
    policies = {k: os.sched_getscheduler(k) & ~os.SCHED_RESET_ON_FORK for k in threads}
    assert policies[process.pid] == os.SCHED_RR
    assert os.sched_getparam(process.pid).sched_priority == 7
    # What receives and watches does not wait for others; what sends again and what plans does.
    for k, name in names.items():
        if name.startswith(("dds.shm", "dds.udp", "dds.ev")):
            assert policies[k] == os.SCHED_RR, name
        if name.startswith("dds.asyn"):
            assert policies[k] == os.SCHED_OTHER, name
    assert sum(policy == os.SCHED_OTHER for policy in policies.values()) > 0


def test_frames_have_the_prefix(probe: Probe, process: Process) -> None:
    """It stands before the names of links that are published, and is taken off received ones."""
    errors = probe.listen(JointState, f"{SPACE}/tracking_error")
    probe.wait(lambda: errors, "no tracking error")
    assert errors[-1].header.frame_id == "left/link_0"
    wrench = WrenchStamped()
    wrench.header.frame_id = "left/link_6"
    wrench.wrench.force.y = 12.0

    def retracts() -> bool:
        """Return whether the force was known at the order, which may be delivered first."""
        probe.call(Trigger, f"{SPACE}/retract")
        return "the force on link_6" in probe.report(SPACE).message

    with probe.repeated("contact_detector/external_wrench", wrench):
        probe.wait(retracts, "does not retract from link_6")


def test_estimates_are_written(probe: Probe, process: Process, estimates: Path) -> None:
    answer = probe.call(Trigger, f"{SPACE}/save_estimates")
    assert (answer.success, answer.message) == (True, f"written to {estimates}")
    assert [estimate.link for estimate in Estimates.load(estimates).links] == ["link_6"]


# Controllers of their own -------------------------------------------------------------------------


def test_a_required_detector_is_waited_for(bring_up: BringUp, probe: Probe) -> None:
    """The controller sends no torque before a verdict; activation by service waits, too."""
    never = "no contact detector has published yet"
    flag = "waiting/contact"
    process = bring_up.start(
        NODE,
        {**PARAMETERS, "require_detector": True, "autostart": False, "discovery_time": 1.0},
        [*in_space("waiting"), "-r", f"contact_detector/contact:={flag}"],
    )
    commands = torques(probe, "waiting")
    probe.stream(resting(), "waiting/joint_states")
    assert probe.change("waiting", "configure")
    probe.wait_for_report(
        "waiting", lambda r: r.values["publishers"] == "1", "hears no joint states"
    )
    assert not probe.change("waiting", "activate")
    assert f"waiting for a verdict on /{flag}: {never}" in process.output
    assert probe.call(GetState, "waiting/get_state").current_state.label == "inactive"
    assert not commands
    with probe.repeated(flag, Bool(data=False)) as publisher:
        probe.wait(publisher.get_subscription_count, "no subscription")
        told = probe.listen(Bool, flag)
        probe.wait(lambda: len(told) > 20, "no verdicts")
        assert probe.change("waiting", "activate"), process.output
        wait_for_mode(probe, "hold", "waiting")
    probe.wait_for_report(
        "waiting", lambda r: "no verdict about contact for" in r.message, "does not miss it"
    )
