"""Bytes, requests and amounts that no well-behaved node sends, on the wire of a running controller.

The numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import WrenchStamped
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy._rclpy_pybind11 import RCLError
from rclpy.serialization import deserialize_message, serialize_message
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.control.waypoints import MOST_POINTS

from .bringup import BringUp, Process
from .controller_scenarios import (
    MODEL,
    NODE,
    PARAMETERS,
    WEIGHT,
    holds,
    resting,
    trajectory,
    wait_for_torque,
)
from .fault_setting import count, torques
from .probe import Probe, Report, Source

Bytes = Callable[[bytes], bytes]

DAMAGE: dict[str, Bytes] = {
    "no encapsulation": lambda raw: raw[:2],
    "encapsulation only": lambda raw: raw[:4],
    "half": lambda raw: raw[: len(raw) // 2],
    "one byte short": lambda raw: raw[:-1],
    "unknown encoding": lambda raw: b"\xff\xff" + raw[2:],
    "huge count": lambda raw: raw[:12] + b"\xff\xff\xff\x7f" + raw[16:],
}

TOPICS = {
    "joint_states": resting().message(Time(sec=1)),
    "contact_detector/contact": Bool(),
    "contact_detector/external_wrench": WrenchStamped(),
    f"{NODE}/joint_trajectory": trajectory(0.01),
}

FAST = 20_000
"""Joint states sent as fast as the probe can."""

MANY = (2_000, 100_000)


def serialized(points: int) -> bytes:
    """Return a serialized trajectory of many points."""
    message = JointTrajectory(joint_names=list(MODEL.joint_names))
    for k in range(1, points + 1):
        point = JointTrajectoryPoint(positions=[float(x) for x in resting().position])
        point.time_from_start = Duration(sec=k // 100, nanosec=k % 100 * 10_000_000)
        message.points.append(point)
    return bytes(serialize_message(message))


@pytest.fixture(scope="module")
def process(bring_up: BringUp) -> Process:
    return bring_up.start(NODE, PARAMETERS)


@pytest.fixture(scope="module")
def many() -> dict[int, bytes]:
    """Large trajectories by their number of points."""
    return {points: serialized(points) for points in MANY}


@pytest.fixture(scope="module")
def source(probe: Probe, process: Process, many: dict[int, bytes]) -> Source:
    """Return the joint states that the controller receives."""
    source = probe.stream(resting())
    holds(probe, source)
    return source


def is_unmoved(probe: Probe, first: int) -> None:
    """Still in hold, and every torque from ``first`` on carried the arm where it is."""
    commands = torques(probe)
    seen = len(commands)
    probe.wait(lambda: len(commands) > seen + 20, "no more torque")
    assert np.allclose([message.data for message in commands[first:]], WEIGHT, atol=1e-6)


def malformed(message: Any) -> list[bytes]:
    """Return the damaged forms of a message that cannot be read."""
    found = []
    for damage in DAMAGE.values():
        raw = damage(bytes(serialize_message(message)))
        try:
            deserialize_message(raw, type(message))
        except Exception:
            found.append(raw)
    assert len(found) >= 4
    return found


@pytest.mark.parametrize("topic", [*TOPICS])
def test_malformed_messages_are_dropped(
    topic: str, probe: Probe, process: Process, source: Source
) -> None:
    """[55, 65] On every topic they are counted and logged at most rarely; the torque goes on."""
    first = len(torques(probe))
    publisher = probe.node.create_publisher(type(TOPICS[topic]), topic, 50)

    def is_counted() -> bool:
        for raw in malformed(TOPICS[topic]):
            with suppress(RCLError):  # which the middleware itself does not send
                publisher.publish(raw)
        values = probe.report(NODE).values
        counted = [int(value) for key, value in values.items() if key in keys]
        return sum(counted) > 0

    keys = (f"malformed messages on /{topic}",)
    if "trajectory" in topic:
        keys = ("trajectories refused",)

    try:
        probe.wait(is_counted, "malformed messages are not counted")
    finally:
        probe.node.destroy_publisher(publisher)
    is_unmoved(probe, first)
    assert probe.report(NODE).values["mode"] == "hold"
    assert "Traceback" not in process.output


def test_an_unknown_type_of_parameter_is_refused(
    probe: Probe, process: Process, source: Source
) -> None:
    """[85] rclpy itself raises for it, outside of all callbacks of the node."""
    first = len(torques(probe))
    request = SetParameters.Request()
    request.parameters = [Parameter(name="timeout", value=ParameterValue(type=99))]
    results = probe.call(SetParameters, f"{NODE}/set_parameters", request).results
    assert not any(result.successful for result in results)
    is_unmoved(probe, first)


def test_a_parameter_cannot_be_deleted(probe: Probe, source: Source) -> None:
    """[82] Its value would fall back to the default without a word."""
    first = len(torques(probe))
    request = SetParameters.Request()
    request.parameters = [Parameter(name="timeout", value=ParameterValue(type=0))]
    results = probe.call(SetParameters, f"{NODE}/set_parameters", request).results
    assert [result.successful for result in results] == [False]
    assert "timeout" in results[0].reason
    is_unmoved(probe, first)


def test_several_changes_in_one_request_are_one_change(probe: Probe, source: Source) -> None:
    """[38] The torque would be interrupted for each of them, as by ``ros2 param load``."""
    first = len(torques(probe))

    def change(**values: float) -> list[Any]:
        request = SetParameters.Request()
        for name, value in values.items():
            number = ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=value)
            request.parameters.append(Parameter(name=name, value=number))
        return list(probe.call(SetParameters, f"{NODE}/set_parameters", request).results)

    results = change(stop_time=0.21, slow_factor=-1.0)
    assert [result.successful for result in results] == [False, False]
    assert all("slow_factor" in result.reason for result in results)
    results = change(stop_time=0.21, slow_factor=0.11)
    assert all(result.successful for result in results)
    get = GetParameters.Request(names=["stop_time", "slow_factor"])
    values = probe.call(GetParameters, f"{NODE}/get_parameters", get).values
    assert [value.double_value for value in values] == [0.21, 0.11]
    is_unmoved(probe, first)


@pytest.mark.parametrize("points", MANY)
def test_a_large_trajectory_delays_no_torque(
    points: int, probe: Probe, many: dict[int, bytes], source: Source
) -> None:
    """[70] 100,000 points are refused by their number, 2,000 are planned beside the torque.

    Reading 100,000 points in the way of the torque took 1.2 s every time. On a busy machine the
    torque, or its joint states, may once be late by themselves.
    """
    commands = torques(probe)
    if points > MOST_POINTS:
        # A motion that needs no torque of its own, as the arm does not follow it.
        probe.send(f"{NODE}/joint_trajectory", trajectory(1e-9, seconds=600.0))
        probe.wait_for_report(NODE, lambda r: r.values["goal"] == "moving", "does not move")
    probe.wait(lambda: gap_of_torque(points, probe, many) < 0.4, "the torque is late each time")
    report = probe.report(NODE)
    assert report.values["mode"] in ("hold", "follow")
    assert report.values["goal"] == "moving" or points <= MOST_POINTS
    wait_for_torque(probe, commands, WEIGHT)


def gap_of_torque(points: int, probe: Probe, many: dict[int, bytes]) -> float:
    """Send a trajectory until it is answered; return the longest time without torque [s]."""
    errors = probe.listen(JointState, f"{NODE}/tracking_error")
    refused = count(probe.report(NODE), "trajectories refused")
    publisher = probe.node.create_publisher(JointTrajectory, f"{NODE}/joint_trajectory", 10)
    try:
        probe.wait(publisher.get_subscription_count, "nobody subscribes")
        first = len(errors)
        publisher.publish(many[points])

        def is_answered(report: Report) -> bool:
            if points > MOST_POINTS:
                return count(report, "trajectories refused") > refused
            return report.values["goal"] in ("moving", "reached")

        probe.wait_for_report(NODE, is_answered, "is not answered")
    finally:
        probe.node.destroy_publisher(publisher)
    stamps = [m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in errors[first:]]
    return float(np.diff(stamps).max())


def test_what_a_full_queue_drops_is_counted(probe: Probe, source: Source) -> None:
    """[68] Each of many joint states is accepted, skipped for a newer one, or missed."""
    keys = (
        "accepted",
        "skipped for a newer one",
        "overwritten in the queue (estimated)",
        "lost on the way",
        "same stamp",
        "old stamp",
    )

    def total() -> int:
        report = probe.report(NODE)
        return sum(count(report, key) for key in keys)

    before = total()
    clock = probe.node.get_clock()
    for _ in range(FAST):
        source.publishers[0].publish(source.message(clock.now().to_msg()))
    probe.later_report(NODE)
    assert total() - before >= 0.95 * FAST


def test_a_negative_clock_ends_nothing(bring_up: BringUp, probe: Probe) -> None:
    """[84] rclpy raises for it, outside of all callbacks of the node."""
    simulated = bring_up.start(
        NODE,
        {**PARAMETERS, "use_sim_time": True},
        ["-r", "__node:=simulated_time", "-r", "effort_controller/commands:=simulated/commands"],
    )
    probe.wait_for_report("simulated_time", lambda r: "/clock" in r.message, "is not told of")

    def is_counted() -> bool:
        # The queue of the clock holds one message; the next one would replace it.
        probe.send("/clock", Clock(clock=Time(sec=-5)))
        return count(probe.report("simulated_time"), "malformed messages on /clock") > 0

    probe.wait(is_counted, "a negative clock is not counted")
    probe.send("/clock", Clock(clock=Time(sec=100)))
    report = probe.wait_for_report(
        "simulated_time", lambda r: "/clock" not in r.message, "the clock is not used any more"
    )
    assert report.values["state"] in ("inactive", "active")
    assert "Traceback" not in simulated.output
