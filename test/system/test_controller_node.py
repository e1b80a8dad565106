"""Each parameter that only the node of the controller has, and its life cycle by hand."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import WrenchStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger
from urdf_texts import with_root_last

from rbd_control.control import ControllerParameters, Estimates
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError
from rbd_control.nodes.order_services import LARGEST_FILE, read_estimates, write_estimates
from rbd_control.nodes.passivity_controller import PassivityControllerParameters
from rbd_control.robot import RobotParameters
from rbd_control.ros.messages import to_stamp
from rbd_control.simulation import arm7_urdf

from .bringup import BringUp, Process
from .controller_scenarios import (
    COMMANDS,
    MODEL,
    NODE,
    PARAMETERS,
    POSTURE,
    WEIGHT,
    resting,
    wait_for_torque,
)
from .probe import Heard, Probe, Source

Start = Callable[..., tuple[Process, Heard]]

LIGHT = re.sub(
    r'<mass value="(.+?)"', lambda found: f'<mass value="{0.5 * float(found[1])}"', arm7_urdf()
)
"""The arm with half its masses."""


@pytest.fixture(scope="module")
def source(probe: Probe) -> Source:
    return probe.stream(resting())


@pytest.fixture
def start(bring_up: BringUp, probe: Probe) -> Iterator[Start]:
    """Yield a controller and the torque it sends; no two at a time."""
    processes = []

    def start(**parameters: Any) -> tuple[Process, Heard]:
        name = f"controller_{len(bring_up.output())}"
        commands = probe.listen(Float64MultiArray, f"{name}/commands")
        process = bring_up.start(
            NODE,
            {**PARAMETERS, **parameters},
            ["-r", f"{COMMANDS}:={name}/commands", "-r", f"__node:={NODE}"],
        )
        processes.append(process)
        return process, commands

    yield start
    for process in processes:
        process.signal(signal.SIGTERM)
        process.wait()


def autostart(probe: Probe, source: Source, start: Start, folder: Path) -> None:
    """Without autostart the node waits for lifecycle transitions.

    A failed activation leaves no publisher that would count as another controller.
    """
    _, commands = start(autostart=False)
    probe.wait_for_report(NODE, lambda r: r.values["state"] == "unconfigured", "starts by itself")
    # Before it listens, so that there is no earlier joint state to start from.
    source.velocity = np.full(MODEL.nv, 99.0)
    assert probe.change(NODE, "configure")
    probe.wait(lambda: not probe.change(NODE, "activate"), "starts at any speed")
    source.velocity = np.zeros(MODEL.nv)
    assert not commands
    probe.wait(lambda: probe.change(NODE, "activate"), "cannot be activated")
    wait_for_torque(probe, commands, WEIGHT)
    time.sleep(0.3)  # three times as long as it takes to look for others
    assert probe.report(NODE).values["mode"] == "hold"


def thread_priority(probe: Probe, source: Source, start: Start, folder: Path) -> None:
    """[93] All receiving and computing threads have the priority, or the log says why not."""
    process, commands = start(thread_priority=7)
    wait_for_torque(probe, commands, WEIGHT)
    threads = [int(path.name) for path in Path(f"/proc/{process.pid}/task").iterdir()]
    if "no thread_priority: not permitted" in process.output:
        return
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


def frame_prefix(probe: Probe, source: Source, start: Start, folder: Path) -> None:
    """It stands before the names of links that are published, and is taken off received ones."""
    text = with_root_last(arm7_urdf())
    _, commands = start(
        frame_prefix="left/", contact_reaction="none", robot_description=text, urdf=""
    )
    errors = probe.listen(JointState, f"{NODE}/tracking_error")
    wait_for_torque(probe, commands, WEIGHT)
    probe.wait(lambda: errors, "no tracking error")
    assert errors[-1].header.frame_id == "left/link_0"
    wrench = WrenchStamped()
    wrench.header.frame_id = "left/link_6"
    wrench.wrench.force.y = 12.0

    def retracts() -> bool:
        # A force that is too old is none.
        probe.send("contact_detector/external_wrench", wrench)
        probe.call(Trigger, f"{NODE}/retract")
        return "the force on link_6" in probe.report(NODE).message

    probe.wait(retracts, "does not retract from link_6")


def robot_description(probe: Probe, source: Source, start: Start, folder: Path) -> None:
    _, commands = start(robot_description=LIGHT, urdf="")
    wait_for_torque(probe, commands, gravity_torque(Model.from_urdf(LIGHT), POSTURE))


def urdf(probe: Probe, source: Source, start: Start, folder: Path) -> None:
    file = folder / "light.urdf"
    file.write_text(LIGHT, encoding="utf-8")
    _, commands = start(urdf=str(file))
    wait_for_torque(probe, commands, gravity_torque(Model.from_urdf(LIGHT), POSTURE))


def joints(probe: Probe, source: Source, start: Start, folder: Path) -> None:
    """Commands are in the order of ``joints``; other joints are held at reported positions."""
    process, commands = start(joints=["joint_4", "joint_2"])
    wait_for_torque(probe, commands, WEIGHT[[3, 1]])
    assert f"joint_1 at {POSTURE[0]:.4g}" in process.output
    assert "as joint states report" in process.output


def best_effort(probe: Probe, source: Source, start: Start, folder: Path) -> None:
    """Without ``best_effort`` joint states that are sent best-effort are not received."""
    _, commands = start(best_effort=False)
    wait_for_torque(probe, commands, WEIGHT)
    qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    publisher = probe.node.create_publisher(JointState, "joint_states", qos)
    probe.wait_for_report(NODE, lambda r: "cannot be received" in r.message, "receives all")
    probe.node.destroy_publisher(publisher)


def queue_depth(probe: Probe, source: Source, start: Start, folder: Path) -> None:
    """[48] After a pause the queue holds this number of messages; the others are lost."""
    skipped, lost = "skipped for a newer one", "overwritten in the queue (estimated)"
    for depth, key in ((5, lost), (1000, skipped)):
        process, commands = start(queue_depth=depth, timeout=1.0)
        wait_for_torque(probe, commands, WEIGHT)
        for _ in range(20):
            process.signal(signal.SIGSTOP)
            time.sleep(0.5)  # in which the source sends a hundred, or fewer on a busy machine
            process.signal(signal.SIGCONT)
            report = probe.report(NODE)
            if int(report.values[key]) > 50:
                break
        assert int(report.values[key]) > 50, f"does not count what is {key}"
        if depth == 1000:
            assert int(report.values[lost]) <= 40
        process.end()


def discovery_time(probe: Probe, source: Source, start: Start, folder: Path) -> None:
    """Least time from the participant to the activation; by hand, too."""
    for seconds in (0.0, 4.0):
        began = time.monotonic()
        process, commands = start(discovery_time=seconds)
        wait_for_torque(probe, commands, WEIGHT)
        assert commands.last - began > seconds
        process.end()
    _, commands = start(discovery_time=1.0, autostart=False)
    probe.wait_for_report(NODE, lambda r: r.values["state"] == "unconfigured", "starts by itself")
    assert probe.change(NODE, "configure")
    probe.wait(lambda: probe.change(NODE, "activate"), "cannot be activated")
    wait_for_torque(probe, commands, WEIGHT)


def estimates(probe: Probe, source: Source, start: Start, folder: Path) -> None:
    """Estimates are written to the named file only, and not at all without a name."""
    file, link, directory = folder / "learned.yaml", folder / "link.yaml", folder / "directory"
    target = folder / "target.yaml"
    target.write_text("links: {}\njoints: {}\n", encoding="utf-8")
    link.symlink_to(target)
    directory.mkdir()
    for name, said in (
        ("", "parameter estimates names no file"),
        (str(file), "written to"),
        (str(folder / "missing" / "learned.yaml"), "cannot write"),
    ):
        process, commands = start(adaptive=True, estimates=name)
        wait_for_torque(probe, commands, WEIGHT)
        answer = probe.call(Trigger, f"{NODE}/save_estimates")
        assert said in answer.message
        assert answer.success == (name == str(file))
        assert "safe torque" not in process.output
        process.end()
    assert file.exists()
    # Symbolic link: refused when it is written, and what it points to stays.
    before = target.read_bytes()
    estimates = Estimates.load(file)
    for path, word in ((link, "symbolic link"), (directory, "directory")):
        with pytest.raises(InputError, match=word) as refused:
            write_estimates(str(path), estimates)
        assert str(path) in str(refused.value)
        assert "\n" not in str(refused.value)
    assert target.read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        path.name for path in (file, link, directory, target)
    )  # nothing unfinished is left behind
    file.write_bytes(b"#" * (LARGEST_FILE + 1))
    with pytest.raises(InputError, match="at most"):
        read_estimates(str(file))


CASES = (
    autostart,
    thread_priority,
    frame_prefix,
    robot_description,
    urdf,
    joints,
    best_effort,
    queue_depth,
    discovery_time,
    estimates,
)


def test_every_parameter_has_a_case() -> None:
    """Here, or beside the law's in test_controller_parameters.py or the arm's in test_robot.py.

    That the node computes with the arm of these parameters is shown in test_payload.py.
    """
    laws = {item.name for item in fields(ControllerParameters)} | {*RobotParameters.names()}
    cases = {case.__name__ for case in CASES}
    assert {item.name for item in fields(PassivityControllerParameters)} == laws | cases


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_parameter(
    case: Callable[[Probe, Source, Start, Path], None],
    probe: Probe,
    source: Source,
    start: Start,
    tmp_path: Path,
) -> None:
    case(probe, source, start, tmp_path)


def test_a_controller_in_simulated_time_is_activated_again_at_once(
    bring_up: BringUp, probe: Probe
) -> None:
    """The wait for other controllers blocks the executor, which also reads ``/clock``."""
    parameters = {"use_sim_time": True, "discovery_time": 1.0, "timeout": 0.3}
    bring_up.start(NODE, {**PARAMETERS, **parameters})
    states = probe.node.create_publisher(JointState, "joint_states", 50)
    clock = probe.node.create_publisher(Clock, "/clock", 50)
    time = 100.0

    def tick() -> None:
        nonlocal time
        time += 0.005
        clock.publish(Clock(clock=to_stamp(time)))
        states.publish(resting().message(to_stamp(time)))

    probe.every(0.005, tick)
    probe.wait_for_report(NODE, lambda r: r.values["state"] == "active", "does not start")
    assert probe.change(NODE, "deactivate")
    assert probe.change(NODE, "activate")
