"""Malformed input and exceptions in callbacks: the process survives, and the arm is safe.

One controller for each executor.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import WrenchStamped
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import GetParameters, SetParameters, SetParametersAtomically
from rclpy.serialization import serialize_message
from std_msgs.msg import Bool
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from .bringup import SINGLE_THREADED, BringUp, Process
from .controller_setting import (
    PARAMETERS,
    WEIGHT,
    in_space,
    resting,
    resume,
    torques,
    trajectory,
    wait_for_torque,
)
from .probe import Heard, Probe, Report

EXECUTORS = {"events": "pass", "single_threaded": SINGLE_THREADED}

FAILING = """
from rclpy.node import Node
from rbd_control.nodes import passivity_controller as module
from rbd_control.nodes.passivity_controller import PassivityControllerNode as Controller

armed = []

def fail_once(place):
    if armed == [place]:
        armed.clear()
        raise RuntimeError("injected")

def patch(kind, name):
    original = getattr(kind, name)
    def failing(self, *arguments, **options):
        fail_once(name)
        return original(self, *arguments, **options)
    setattr(kind, name, failing)

for kind, name in (
    (module.PassivityController, "update"),
    (module.CommandReport, "publish"),
    (module.PassivityController, "silence"),
    (module.ExclusiveAccess, "others"),
    (Controller, "_report_status"),
):
    patch(kind, name)

receive = module.TrajectoryInput._receive
def arm(self, raw):
    # The first joint of a trajectory names where it shall fail.
    armed[:] = [place for place in PLACES if place.encode() in raw]
    receive(self, raw)
module.TrajectoryInput._receive = arm

init = Controller.__init__
def unguarded(self):
    init(self)
    Node.create_timer(self, 0.05, lambda: fail_once("executor"))
Controller.__init__ = unguarded
"""
"""Preamble of a controller that fails once at the place that a trajectory names.

The executor stands for whatever rclpy raises outside of a callback.
"""

PLACES = ("update", "publish", "silence", "others", "_report_status", "executor")


@dataclass
class Running:
    """A controller that holds the arm."""

    name: str
    process: Process
    commands: Heard

    def topic(self, name: str) -> str:
        return f"{self.name}/{name}"


@pytest.fixture(scope="module", params=EXECUTORS)
def running(request: pytest.FixtureRequest, bring_up: BringUp, probe: Probe) -> Iterator[Running]:
    name = request.param
    source = probe.stream(resting(), f"{name}/joint_states")
    process = bring_up.start(
        "passivity_controller",
        {**PARAMETERS, "contact_reaction": "none"},
        [*in_space(name), "-r", f"robot_description:={name}/robot_description"],
        preamble=f"{EXECUTORS[name]}\nPLACES = {PLACES}\n{FAILING}",
    )
    commands = torques(probe, name)
    wait_for_torque(probe, commands, WEIGHT)
    yield Running(name, process, commands)
    process.end()
    assert "Traceback" not in process.output
    source.on = False


def garbage(good: bytes) -> Iterator[bytes]:
    """Bytes that resemble a message, less and less."""
    yield from (good[:end] for end in (2, 4, len(good) // 2))
    yield good[:12] + b"\xff\xff\xff\x7f" + good[16:]
    yield good[:4] + b"\xff" * 200_000


def test_garbage_on_every_topic(probe: Probe, running: Running) -> None:
    """Malformed bytes are dropped and counted; the arm is held all the while."""
    source = resting()
    now = probe.node.get_clock().now().to_msg()
    topics: dict[str, Any] = {
        running.topic("joint_states"): source.message(now),
        running.topic("joint_trajectory"): trajectory(0.01),
        "contact_detector/contact": Bool(),
        "contact_detector/external_wrench": WrenchStamped(),
    }
    first = len(running.commands)
    for topic, message in topics.items():
        publisher = probe.node.create_publisher(type(message), topic, 50)
        probe.wait(publisher.get_subscription_count, f"nobody listens to {topic}")
        key = f"malformed messages on /{topic}"
        if isinstance(message, JointTrajectory):
            key = "trajectories refused"

        def is_counted(publisher: Any = publisher, message: Any = message, key: str = key) -> bool:
            # Once more in each round: the reader may know the writer later than it is known.
            for raw in garbage(serialize_message(message)):
                with contextlib.suppress(Exception):  # what the publisher's own middleware refuses
                    publisher.publish(raw)
            return int(probe.report(running.name).values.get(key, 0)) > 0

        probe.wait(is_counted, f"counts none on {topic}")
        probe.node.destroy_publisher(publisher)
    sent = np.array([message.data for message in running.commands[first:]])
    assert np.allclose(sent, WEIGHT, atol=1e-6) or "no joint states" in running.process.output
    # One line for each topic and five seconds, not one for each message.
    assert running.process.output.count("dropped a malformed message") < 30


def test_an_exception_leads_to_the_safe_torque(probe: Probe, running: Running) -> None:
    """An exception leads to mode safe, one log line and a count; resume works."""

    def failures(report: Report) -> int:
        return sum(int(n) for key, n in report.values.items() if key.startswith("failures of"))

    for place in PLACES:
        before, first = failures(probe.report(running.name)), len(running.commands)
        message = trajectory(0.01)
        message.joint_names[0] = place
        probe.send(running.topic("joint_trajectory"), message)
        report = probe.wait_for_report(
            running.name,
            lambda r, n=before: r.values.get("mode") == "safe" and failures(r) > n,
            f"is not safe after an exception in {place}",
        )
        assert report.level == 2
        if place == "update":  # what was to be answered is answered by zero
            assert any(not np.any(message.data) for message in running.commands[first:])
        wait_for_torque(probe, running.commands, WEIGHT)  # the safe torque carries the arm
        resume(probe, running.name)
    assert running.process.output.count("injected") >= len(PLACES)


def parameter(name: str, kind: int, **value: Any) -> Parameter:
    return Parameter(name=name, value=ParameterValue(type=kind, **value))


def test_impossible_parameters_are_refused(probe: Probe, running: Running) -> None:
    """Each with its reason, and all others of the same request with it."""
    array, number = ParameterType.PARAMETER_DOUBLE_ARRAY, ParameterType.PARAMETER_DOUBLE
    good = parameter("bandwidth", array, double_array_value=[5.0])
    cases = {
        "unknown type 77": parameter("damping_rate", 77),
        "cannot be deleted": parameter("bandwidth", ParameterType.PARAMETER_NOT_SET),
        "finite": parameter("bandwidth", array, double_array_value=[float("nan")]),
        "7 joints": parameter("bandwidth", array, double_array_value=[1.0, 2.0]),
        "give a text": parameter("safe_torque", array, double_array_value=[1.0]),
        "stop_time": parameter("stop_time", number, double_value=-1.0),
        "unconfigured": parameter("queue_depth", ParameterType.PARAMETER_INTEGER, integer_value=7),
        "too heavy: joint_2": parameter("torque_share", array, double_array_value=[0.1]),
    }
    whole, single = (
        f"{running.name}/{name}" for name in ("set_parameters_atomically", "set_parameters")
    )

    def value() -> list[float]:
        request = GetParameters.Request(names=["bandwidth"])
        answer = probe.call(GetParameters, f"{running.name}/get_parameters", request)
        return list(answer.values[0].double_array_value)

    def change(*parameters: Parameter) -> list[Any]:
        request = SetParameters.Request(parameters=list(parameters))
        return list(probe.call(SetParameters, single, request).results)

    before, first = value(), len(running.commands)
    for words, bad in cases.items():
        request = SetParametersAtomically.Request(parameters=[good, bad])
        result = probe.call(SetParametersAtomically, whole, request).result
        assert not result.successful, words
        assert words in result.reason
        # Several changes in one request are one change, as by ``ros2 param load``.
        assert [result.successful for result in change(good, bad)] == [False, False], words
        assert value() == before, words
    assert np.allclose([x.data for x in running.commands[first:]], WEIGHT, atol=1e-6)
    assert all(result.successful for result in change(good))
    assert value() == [5.0]
    assert probe.call(Trigger, f"{running.name}/resume").success
