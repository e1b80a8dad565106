"""The passivity controller as a process, adaptive and with an energy tank.

The tests run in this order on one controller. Its joint states stand still for every torque, and
the numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from math import nan
from typing import Any

import numpy as np
import pytest
from lifecycle_msgs.srv import GetState
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from rbd_control.ros.transports import without_shared_memory

from .bringup import BringUp, Process
from .controller_setting import (
    COMMANDS,
    MODEL,
    NODE,
    PARAMETERS,
    WEIGHT,
    ZERO,
    count,
    hold_again,
    holding,
    holds,
    in_space,
    resting,
    resume,
    torques,
    trajectory,
    wait_for_mode,
    wait_for_more,
    wait_for_torque,
)
from .probe import Heard, Probe, Source, context_in

TANK = 5.0
"""Capacity of the energy tank [J]."""

CROWD = 20
"""Number of other nodes in the domain."""

UNUSABLE: dict[str, Callable[[JointState], object]] = {
    "not finite": lambda message: message.position.__setitem__(0, nan),
    "lengths": lambda message: message.velocity.pop(),
    "duplicate name": lambda message: message.name.__setitem__(1, message.name[0]),
    "missing joint": lambda message: message.name.__setitem__(1, "elbow"),
    "empty": lambda message: message.name.clear(),
    "negative stamp": lambda message: setattr(message.header.stamp, "sec", -5),
    "old stamp": lambda message: setattr(message.header.stamp, "sec", 1000),
}
"""Changes that make a joint state unusable, by the reason under which it is counted."""


@pytest.fixture(scope="module")
def process(bring_up: BringUp) -> Process:
    return bring_up.start(NODE, {**PARAMETERS, "adaptive": True, "tank_capacity": TANK})


@pytest.fixture(scope="module")
def source(probe: Probe, process: Process) -> Source:
    return probe.stream(resting())


@pytest.fixture
def errors(probe: Probe) -> Heard:
    return probe.listen(JointState, f"{NODE}/tracking_error")


def wait_for_desired(probe: Probe, errors: Heard, offset: float) -> None:
    """Wait until the desired position is this far from the posture, in all joints."""
    probe.wait(
        lambda: errors and np.allclose(-np.array(errors[-1].position), offset, atol=2e-3),
        f"the desired position does not get to {offset}",
    )


def test_no_start_without_velocity(probe: Probe, process: Process, source: Source) -> None:
    """Without velocity the controller stays inactive; with it, it starts and holds."""
    commands = torques(probe)
    for velocity in ((), np.full(MODEL.nv, nan)):
        source.velocity = velocity
        probe.reports.clear()
        probe.wait_for_report(
            NODE,
            lambda r: "waiting for joint states with velocities" in r.message,
            "does not ask for velocity",
        )
        assert probe.call(GetState, f"{NODE}/get_state").current_state.label == "inactive"
    assert not commands
    source.velocity = np.zeros(MODEL.nv)
    holds(probe)
    energy = probe.listen(Float64MultiArray, f"{NODE}/energy")
    probe.wait(lambda: energy, "no energies")
    assert np.allclose(energy[-1].data, [0.0] * 5 + [TANK], atol=1e-6)
    report = probe.report(NODE)
    assert (report.level, float(report.values["payload learned [kg]"])) == (1, 0.0)
    assert "no contact detector has published yet" in report.message


def test_single_unusable_messages_are_dropped_and_counted(probe: Probe, source: Source) -> None:
    """Between good messages they change neither torque nor mode."""
    commands = torques(probe)
    before = probe.report(NODE)

    def all_counted() -> bool:
        first = len(commands)
        # Joint states are received best-effort: a message may be lost.
        for change in UNUSABLE.values():
            message = resting().message(probe.node.get_clock().now().to_msg())
            change(message)
            probe.send("joint_states", message)
        report = holding(probe)
        if report is None:
            return False
        assert np.allclose([message.data for message in commands[first:]], WEIGHT, atol=1e-6)
        return all(count(report, reason) > count(before, reason) for reason in UNUSABLE)

    probe.wait(all_counted, "not all are counted")


def test_bad_trajectories_leave_the_old_one(probe: Probe, source: Source, errors: Heard) -> None:
    """Bad trajectories are rejected with a reason; the running trajectory continues."""
    before = count(probe.report(NODE), "trajectories refused")
    probe.send(f"{NODE}/joint_trajectory", trajectory(-0.01, 0.015, seconds=2.0))
    wait_for_desired(probe, errors, -0.005)
    bad = [trajectory(0.1) for _ in range(3)]
    bad[0].joint_names[2] = "elbow"
    bad[1].points[0].positions[3] = nan
    bad[2].points.clear()
    for message in bad:
        probe.send(f"{NODE}/joint_trajectory", message)
    wait_for_desired(probe, errors, 0.015)
    report = probe.wait_for_report(
        NODE,
        lambda r: count(r, "trajectories refused") == before + len(bad),
        "bad trajectories are not refused",
    )
    assert report.values["goal"] in ("moving", "reached")


def test_every_order_has_its_service(probe: Probe, source: Source) -> None:
    """Stops, a reaction without a force, and the way back from each of them."""

    def order(name: str, mode: str, words: str) -> None:
        answer = probe.call(Trigger, f"{NODE}/{name}")
        assert answer.success, answer.message
        report = wait_for_mode(probe, mode)
        assert words in report.message, report

    probe.send(f"{NODE}/joint_trajectory", trajectory(0.02, seconds=60.0))
    wait_for_mode(probe, "follow")
    order("slow", "follow", "slow")
    assert probe.call(Trigger, f"{NODE}/resume").message == "at full speed"
    order("hold", "hold", "held by request")
    assert probe.call(Trigger, f"{NODE}/resume").success
    order("cancel", "hold", "")
    assert probe.report(NODE).values["goal"] == "cancelled"
    order("retract", "hold", "no contact force is known")
    assert probe.call(Trigger, f"{NODE}/resume").success
    order("float", "float", "")
    hold_again(probe)


def test_a_clock_that_jumps(probe: Probe, source: Source, errors: Heard) -> None:
    """Back: the trajectory is given up. Forward, or frozen: safe until resumed."""
    probe.send(f"{NODE}/joint_trajectory", trajectory(0.02, seconds=60.0))
    probe.wait_for_report(NODE, lambda r: r.values["goal"] == "moving", "does not move")
    source.shift = -60.0
    report = probe.wait_for_report(NODE, lambda r: r.values["goal"] == "cancelled", "goes on")
    assert (report.values["mode"], count(report, "clock jumps")) == ("hold", 1)
    source.shift = 0.0
    probe.wait_for_report(NODE, lambda r: "stamps jumped by 60" in r.message, "is not safe")
    resume(probe)
    source.stamp = probe.node.get_clock().now().to_msg()
    wait_for_torque(probe, torques(probe), ZERO)
    source.stamp = None
    hold_again(probe)


@pytest.fixture
def crowd(bring_up: BringUp) -> Iterator[None]:
    """Other nodes in the domain, with topics of their own and an interest in joint states."""
    with without_shared_memory():
        context = context_in(bring_up.domain)
        nodes = [Node(f"other_{k}", context=context) for k in range(CROWD)]
    for node in nodes:
        node.create_subscription(JointState, "joint_states", lambda message: None, 1)
        node.create_publisher(Float64MultiArray, f"{node.get_name()}/commands", 1)
    yield
    for node in nodes:
        node.destroy_node()
    context.shutdown()


@pytest.mark.usefixtures("crowd")
def test_another_publisher_of_torque(probe: Probe, source: Source) -> None:
    """The safe torque, an error, and no resuming before the other is gone.

    Nodes that publish no torque to the arm are no rivals.
    """
    commands = torques(probe)
    probe.wait(
        lambda: sum("other_" in name for name in probe.node.get_node_names()) == CROWD,
        "the others are not found",
    )
    probe.wait(lambda: holding(probe), "does not hold")
    other = probe.node.create_publisher(Float64MultiArray, COMMANDS, 1)
    report = wait_for_mode(probe, "safe")
    assert report.level == 2
    assert "another publisher of torque" in report.message
    answer = probe.call(Trigger, f"{NODE}/resume")
    assert not answer.success
    assert "another publisher of torque" in answer.message
    wait_for_torque(probe, commands, WEIGHT)
    probe.node.destroy_publisher(other)
    hold_again(probe)


def test_a_pause_beyond_the_timeout(probe: Probe, source: Source, process: Process) -> None:
    """It reports the gap and holds still; the torque before it is not continued."""
    commands = torques(probe)
    first = len(commands)
    probe.send(f"{NODE}/joint_trajectory", trajectory(0.2, seconds=4.0))
    probe.wait(lambda: np.abs(np.array(commands[-1].data) - WEIGHT).max() > 0.5, "does not move")
    process.pause()
    time.sleep(1.5 * PARAMETERS["timeout"])
    process.signal(signal.SIGCONT)
    probe.wait_for_report(
        NODE,
        lambda r: r.values["mode"] == "safe" and r.values["goal"] == "cancelled",
        "is not safe after a pause",
    )
    wait_for_torque(probe, commands, WEIGHT)
    sent = np.array([message.data for message in commands[first:]])
    assert (np.abs(sent) <= MODEL.effort_limit + 1e-9).all()
    resume(probe)


def test_joint_states_end_and_return(probe: Probe, source: Source) -> None:
    """A publisher that restarts leaves the controller in mode safe until ``~/resume``."""
    commands = torques(probe)
    wait_for_torque(probe, commands, WEIGHT)
    probe.end_stream(source)
    wait_for_torque(probe, commands, ZERO)
    report = wait_for_mode(probe, "safe")
    assert report.level == 2
    assert not probe.call(Trigger, f"{NODE}/resume").success
    source.publishers.append(probe.node.create_publisher(JointState, "joint_states", 50))
    source.on = True
    # With joint states again the safe torque carries the arm; it stays in mode safe all the same.
    wait_for_torque(probe, commands, WEIGHT)
    probe.send(f"{NODE}/joint_trajectory", trajectory(0.02))
    assert probe.report(NODE).values["mode"] == "safe"
    hold_again(probe)


UNREAD = """
import os
from contextlib import suppress
reading, writing = os.pipe()
os.set_blocking(writing, False)
for size in (4096, 1):
    with suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(size))
os.set_blocking(writing, True)
os.dup2(writing, 1)
os.dup2(writing, 2)
"""
"""Preamble of a node whose output goes to a full pipe that no process reads."""

ENDS: dict[str, tuple[str, int]] = {
    "read": ("", signal.SIGINT),
    "unread": (UNREAD, signal.SIGTERM),
}


@pytest.mark.parametrize("space", ENDS)
def test_zero_torque_at_the_end(space: str, bring_up: BringUp, probe: Probe) -> None:
    """The last command is zero and acknowledged; the process ends well.

    Neither output that is not read nor Ctrl-Z stops the torque before that.
    """
    preamble, number = ENDS[space]
    given: dict[str, Any] = {"preamble": preamble}
    probe.stream(resting(), f"{space}/joint_states")
    process = bring_up.start(NODE, PARAMETERS, in_space(space), **given)
    commands = torques(probe, space)
    wait_for_torque(probe, commands, WEIGHT)
    assert probe.call(Trigger, f"{space}/hold").success
    process.signal(signal.SIGTSTP)
    wait_for_more(probe, commands)
    process.end(number)
    wait_for_torque(probe, commands, ZERO)
    assert "Traceback" not in process.output
    assert "acknowledged" not in process.output
