"""Malformed input and exceptions in callbacks: the process survives, and the arm is safe.

The numbers in brackets are those of the fault list.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import WrenchStamped
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import GetParameters, SetParameters, SetParametersAtomically
from rclpy.serialization import serialize_message
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from .bringup import SINGLE_THREADED, BringUp, Process
from .controller_scenarios import (
    COMMANDS,
    NODE,
    PARAMETERS,
    WEIGHT,
    resting,
    trajectory,
    wait_for_torque,
)
from .probe import LATCHED, Heard, Probe, Report, Source

EXECUTORS = {"events": "pass", "single_threaded": SINGLE_THREADED}

FAILING = """
import time
from rclpy.node import Node
from rbd_control.nodes import passivity_controller as module
from rbd_control.nodes.passivity_controller import PassivityControllerNode as Controller

def fail(kind, name, calls=1):
    # The method raises so many times, once a trajectory has been taken.
    original, left = getattr(kind, name), [calls]
    def failing(self, *arguments, **options):
        if armed and left[0]:
            left[0] -= 1
            raise RuntimeError("injected")
        return original(self, *arguments, **options)
    setattr(kind, name, failing)

armed = []
receive = module.TrajectoryInput._receive
def arm(self, raw):
    armed.append(True)
    receive(self, raw)
module.TrajectoryInput._receive = arm

"""
"""Preamble of a controller in which something fails after its first trajectory."""

BROKEN = {
    "the control loop": "fail(module.PassivityController, 'update', calls=20)",
    "after the torque": "fail(module.CommandReport, 'publish')",
    "the watchdog": "fail(module.PassivityController, 'silence')",
    "the look for others": "fail(module.ExclusiveAccess, 'others')",
    "the diagnostics": "fail(Controller, '_report_status')",
    "the executor": """
init = Controller.__init__
def unguarded(self):
    init(self)
    left = [3]
    def tick():
        if armed and left[0]:
            left[0] -= 1
            raise RuntimeError("injected")
    Node.create_timer(self, 0.05, tick, clock=self.steady)
Controller.__init__ = unguarded
""",
}
"""Where it fails; the executor stands for whatever rclpy raises outside of a callback."""


def garbage(good: bytes, chance: random.Random) -> Iterator[bytes]:
    """Bytes that resemble a message, less and less."""
    yield from (good[:end] for end in range(4, len(good), max(len(good) // 25, 1)))
    yield b"\xff\xff\xff\xff" + good[4:]
    yield good[:4] + b"\xff" * 200_000
    for _ in range(20):
        spoilt = bytearray(good)
        for _ in range(8):
            spoilt[chance.randrange(4, len(good))] = chance.choice((0, 127, 128, 255))
        yield bytes(spoilt)
    yield from (good[:4] + chance.randbytes(chance.randrange(3000)) for _ in range(10))


@pytest.fixture(params=EXECUTORS)
def running(
    request: pytest.FixtureRequest, bring_up: BringUp, probe: Probe
) -> Iterator[tuple[Process, Source, Heard]]:
    """Yield a controller that holds the arm, on either executor, with its joint-state source."""
    name = request.param
    source = probe.stream(resting(), f"{name}/joint_states")
    process = bring_up.start(
        NODE,
        {**PARAMETERS, "contact_reaction": "none"},
        [
            *("-r", f"joint_states:={name}/joint_states"),
            *("-r", f"{COMMANDS}:={name}/commands"),
            *("-r", f"robot_description:={name}/robot_description"),
        ],
        preamble=EXECUTORS[name],
    )
    commands = probe.listen(Float64MultiArray, f"{name}/commands")
    wait_for_torque(probe, commands, WEIGHT)
    yield process, source, commands
    process.end()
    assert "Traceback" not in process.output
    source.on = False


def test_garbage_on_every_topic(
    request: pytest.FixtureRequest,
    probe: Probe,
    running: tuple[Process, Source, Heard],
) -> None:
    """[8, 55] Truncated and random bytes are dropped and counted; the arm is held all the while."""
    process, source, commands = running
    chance = random.Random(8)
    space = request.node.callspec.params["running"]
    now = probe.node.get_clock().now().to_msg()
    topics: dict[str, tuple[Any, Any]] = {
        f"{space}/joint_states": (source.message(now), 50),
        f"{NODE}/joint_trajectory": (trajectory(0.01), 50),
        "contact_detector/contact": (Bool(), 50),
        "contact_detector/external_wrench": (WrenchStamped(), 50),
        f"{space}/robot_description": (String(data="<robot/>"), LATCHED),
    }
    first = len(commands)
    for topic, (message, qos) in topics.items():
        publisher = probe.node.create_publisher(type(message), topic, qos)
        probe.wait(publisher.get_subscription_count, f"nobody listens to {topic}")
        if isinstance(message, JointTrajectory):
            key = "trajectories refused"
        else:
            key = f"malformed messages on /{topic}"

        def is_counted(publisher: Any = publisher, message: Any = message, key: str = key) -> bool:
            # Once more in each round: the reader may know the writer later than it is known.
            for raw in garbage(serialize_message(message), chance):
                with contextlib.suppress(Exception):  # what the publisher's own middleware refuses
                    publisher.publish(raw)
                time.sleep(0.002)
            report = probe.reports.get(NODE)
            return report is not None and int(report.values.get(key, "0")) > 0

        probe.wait(is_counted, f"counts none on {topic}")
        probe.node.destroy_publisher(publisher)
    faults = [line for line in process.output.splitlines() if "safe torque" in line]
    # A busy machine delays joint states by more than the timeout: that is one, and no other is.
    assert not [line for line in faults if "no joint states for" not in line]
    probe.wait(lambda: len(commands) > first, "sends nothing any more")
    assert np.isfinite([message.data for message in commands[first:]]).all()
    if faults:
        probe.wait(lambda: probe.call(Trigger, f"{NODE}/resume").success, "cannot resume")
        probe.wait_for_report(NODE, lambda r: r.values["mode"] != "safe", "does not resume")
    assert probe.report(NODE).values["mode"] in ("hold", "follow")
    # One line for each topic and five seconds, not one for each message.
    assert process.output.count("dropped a malformed message") < 30


@pytest.mark.parametrize(
    ("executor", "where"),
    [
        *(("events", where) for where in BROKEN),
        # The guard is the same on both; one of its users and the executor itself suffice.
        ("single_threaded", "the control loop"),
        ("single_threaded", "the executor"),
    ],
)
def test_an_exception_leads_to_the_safe_torque(
    bring_up: BringUp, probe: Probe, executor: str, where: str
) -> None:
    """[42, 55] An exception leads to mode safe, one log line and a count; resume works."""
    space = f"{executor}_{list(BROKEN).index(where)}"
    source = probe.stream(resting(), f"{space}/joint_states")
    process = bring_up.start(
        NODE,
        PARAMETERS,
        [
            *("-r", f"joint_states:={space}/joint_states"),
            *("-r", f"{COMMANDS}:={space}/commands"),
            *("-r", f"__node:={space}"),
        ],
        preamble=EXECUTORS[executor] + FAILING + BROKEN[where],
    )
    commands = probe.listen(Float64MultiArray, f"{space}/commands")
    wait_for_torque(probe, commands, WEIGHT)
    first = len(commands)
    probe.send(f"{space}/joint_trajectory", trajectory(0.01, seconds=60.0))

    def failed(report: Report) -> bool:
        # On an overloaded machine late joint states may have led to mode safe before.
        counted = [int(n) for key, n in report.values.items() if key.startswith("failures of")]
        return report.values.get("mode") == "safe" and sum(counted) >= 1

    report = probe.wait_for_report(space, failed, "is not safe after an exception")
    assert report.level == 2
    assert "injected" in process.output
    if where == "the control loop":  # what was to be answered is answered by zero
        assert any(not np.any(message.data) for message in commands[first:])
    wait_for_torque(probe, commands, WEIGHT)  # the safe torque carries the arm
    assert "Traceback" not in process.output
    probe.wait(lambda: probe.call(Trigger, f"{space}/resume").success, "cannot be resumed")
    process.end()
    source.on = False


def test_a_negative_clock(bring_up: BringUp, probe: Probe) -> None:
    """[15, 34] rclpy raises an exception; the message is dropped, and the next one counts."""
    clock = probe.node.create_publisher(Clock, "/clock", 10)
    source = resting()
    states = probe.node.create_publisher(JointState, "simulated/joint_states", 50)
    seconds = [100.0]

    def tick() -> None:
        seconds[0] += 0.005
        message = Clock()
        message.clock.sec, rest = divmod(round(seconds[0] * 1e9), 10**9)
        message.clock.nanosec = rest
        clock.publish(message)
        states.publish(source.message(message.clock))

    repetition = probe.every(0.005, tick)
    process = bring_up.start(
        NODE,
        {**PARAMETERS, "use_sim_time": True},
        [
            *("-r", "joint_states:=simulated/joint_states"),
            *("-r", f"{COMMANDS}:=simulated/commands"),
            *("-r", "__node:=simulated"),
        ],
    )
    commands = probe.listen(Float64MultiArray, "simulated/commands")
    wait_for_torque(probe, commands, WEIGHT)
    bad = Clock()
    bad.clock.sec = -5
    key = "malformed messages on /clock"
    for raw in (bad, serialize_message(bad)[:6]):
        before = int(probe.report("simulated").values.get(key, "0"))

        def is_counted(raw: Any = raw, before: int = before) -> bool:
            clock.publish(raw)  # again and again: of a burst the newest alone is received
            return int(probe.report("simulated").values.get(key, "0")) > before

        probe.wait(is_counted, "a bad time is not counted")
    report = probe.report("simulated")
    assert report.values["mode"] == "hold"
    count = len(commands)
    probe.wait(lambda: len(commands) > count, "does not go on")
    process.end()
    assert "Traceback" not in process.output
    probe.end_repetition(repetition)


def _parameter(name: str, kind: int, **value: Any) -> Parameter:
    return Parameter(name=name, value=ParameterValue(type=kind, **value))


def test_impossible_parameters_are_refused(
    probe: Probe, running: tuple[Process, Source, Heard]
) -> None:
    """[34, 38] An unknown type, a deletion or a file to write is refused; the node works on."""
    process, _, commands = running
    array, text = ParameterType.PARAMETER_DOUBLE_ARRAY, ParameterType.PARAMETER_STRING
    good = _parameter("bandwidth", array, double_array_value=[5.0])
    cases = {
        "unknown type 77": _parameter("damping_rate", 77),
        "cannot be deleted": _parameter("bandwidth", ParameterType.PARAMETER_NOT_SET),
        "cannot be undeclared": _parameter("use_sim_time", ParameterType.PARAMETER_NOT_SET),
        "read-only": _parameter("estimates", text, string_value="/tmp/elsewhere.yaml"),
        "at most 500": _parameter("bandwidth", array, double_array_value=[1e308]),
        "finite": _parameter("bandwidth", array, double_array_value=[float("nan")]),
        "7 joints": _parameter("bandwidth", array, double_array_value=[1.0, 2.0]),
        "give a text": _parameter("safe_torque", array, double_array_value=[1.0]),
    }

    def value() -> list[float]:
        request = GetParameters.Request(names=["bandwidth"])
        return list(
            probe.call(GetParameters, f"{NODE}/get_parameters", request)
            .values[0]
            .double_array_value
        )

    before = value()
    for words, bad in cases.items():
        one = probe.call(
            SetParameters, f"{NODE}/set_parameters", SetParameters.Request(parameters=[bad])
        )
        assert [result.successful for result in one.results] == [False], words
        assert words in one.results[0].reason
        whole = probe.call(
            SetParametersAtomically,
            f"{NODE}/set_parameters_atomically",
            SetParametersAtomically.Request(parameters=[good, bad]),
        ).result
        assert not whole.successful, words
        assert value() == before, words
    # What was refused before can be set, and set again.
    for number in (5.0, before[0]):
        request = SetParameters.Request(
            parameters=[_parameter("bandwidth", array, double_array_value=[number])]
        )
        answer = probe.call(SetParameters, f"{NODE}/set_parameters", request)
        assert answer.results[0].successful
        assert value() == [number]
    assert probe.report(NODE).values["mode"] == "hold"
    wait_for_torque(probe, commands, WEIGHT)
    assert "safe torque" not in process.output
