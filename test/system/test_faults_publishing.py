"""The middleware refuses messages of the nodes, as it does on a machine at its limit.

The numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import GetParameters
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray

from rbd_control.nodes.contact_detector import ContactDetectorNode
from rbd_control.nodes.contact_guard import ContactGuard
from rbd_control.nodes.joint_state_player import JointStatePlayer
from rbd_control.nodes.passivity_controller import PassivityControllerNode
from rbd_control.nodes.simulated_arm import SimulatedArmNode
from rbd_control.ros.guarded_node import GuardedPublisher

from . import detector_scenarios as detector
from .bringup import BringUp, Process
from .controller_scenarios import COMMANDS, NODE, PARAMETERS, WEIGHT, resting, wait_for_torque
from .fault_setting import count, resume, ros_here, wait_for_mode
from .probe import Probe, Source

REFUSING = """
from collections import Counter
from rclpy._rclpy_pybind11 import RCLError
from rclpy.publisher import Publisher
from rclpy.service import Service

seen, publish, send = Counter(), Publisher.publish, Service.send_response

def refuse(name, what):
    seen[name] += 1
    if refuses(name, seen[name], what):
        raise RCLError("Failed to publish: injected")

def refusing(self, message):
    refuse(self.topic_name, message)
    publish(self, message)

def not_answering(self, response, header):
    refuse(self.srv_name, response)
    send(self, response, header)

Publisher.publish, Service.send_response = refusing, not_answering

"""
"""Preamble of a node whose middleware refuses what ``refuses(name, number, message)`` tells."""

NOW_AND_THEN = """
def refuses(name, number, _):
    if name.endswith("/commands"):
        return number > 100 and number % 5 == 0
    return number % 2 == 0 or name.endswith("/energy")
"""
"""Each fifth torque, all energies, and half of everything else."""

NO_TORQUE = """
import time
begun = []
def refuses(name, number, _):
    if not name.endswith("/commands") or number <= 100:
        return False
    begun.append(time.monotonic())
    return time.monotonic() - begun[0] < 2.5
"""
"""All torques for 2.5 s after the hundredth."""

NO_FLAG = """
def refuses(name, number, message):
    if name.endswith("/contact"):
        if message.data:
            seen["raised"] += 1
        return message.data and seen["raised"] <= 3
    return name.endswith("/events") and number <= 3 or name.endswith("/markers")
"""
"""The first three raised flags, the first three events, and all markers."""


def refused(topic: str) -> str:
    return f"publications refused on {topic}"


def started(bring_up: BringUp, probe: Probe, name: str, preamble: str) -> tuple[Source, Process]:
    """Return the joint states of an arm at rest and its controller, with topics of their own."""
    source = probe.stream(resting(), f"{name}/joint_states")
    topics = (f"joint_states:={name}/joint_states", f"{COMMANDS}:={name}/commands")
    remapped = [word for rule in (*topics, f"__node:={name}") for word in ("-r", rule)]
    return source, bring_up.start(NODE, PARAMETERS, remapped, preamble=preamble)


def test_single_refusals_do_not_touch_the_control(bring_up: BringUp, probe: Probe) -> None:
    """[104, 105] The arm is held; each topic is counted, and has one warning at a time."""
    source, process = started(bring_up, probe, "now_and_then", REFUSING + NOW_AND_THEN)
    commands = probe.listen(Float64MultiArray, "now_and_then/commands")
    errors = probe.listen(JointState, "now_and_then/tracking_error")
    probe.listen(Float64MultiArray, "now_and_then/energy")
    wait_for_torque(probe, commands, WEIGHT)
    topics = ("commands", "tracking_error", "energy")
    report = probe.wait_for_report(
        "now_and_then",
        lambda r: all(count(r, refused(f"/now_and_then/{topic}")) > 10 for topic in topics),
        "does not count refused publications",
    )
    assert report.values["mode"] == "hold"
    assert report.level == 1
    assert "publications refused" in report.message
    # A service whose response is refused leaves its client without an answer, and that is all.
    service = probe.node.create_client(GetParameters, "now_and_then/get_parameters")
    probe.wait(service.service_is_ready, "no service")
    answers = [service.call_async(GetParameters.Request(names=["timeout"])) for _ in range(2)]
    probe.wait(lambda: any(answer.done() for answer in answers), "answers nothing")
    report = probe.wait_for_report(
        "now_and_then",
        lambda r: any("refused" in key and "get_parameters" in key for key in r.values),
        "does not count refused responses",
    )
    assert report.values["mode"] == "hold"
    first = len(commands)
    probe.wait(lambda: len(commands) > first + 20, "sends no more torque")
    assert np.allclose([message.data for message in commands[first:]], WEIGHT, atol=1e-6)
    assert np.allclose([message.effort for message in errors[-20:]], WEIGHT, atol=1e-6)
    assert "safe torque" not in process.output

    def all_are_logged() -> bool:
        said = [line for line in process.output.splitlines() if "refused to publish" in line]
        return all(any(topic in line for line in said) for topic in topics)

    probe.wait(all_are_logged, "a refused topic is not in the log")
    process.end()
    assert not np.any(commands[-1].data)
    source.on = False


def test_refused_torques_become_the_safe_torque(bring_up: BringUp, probe: Probe) -> None:
    """[105] After ``timeout`` without a torque; the safe torque is tried again with each sample."""
    source, process = started(bring_up, probe, "no_torque", REFUSING + NO_TORQUE)
    commands = probe.listen(Float64MultiArray, "no_torque/commands")
    wait_for_torque(probe, commands, WEIGHT)
    report = wait_for_mode(probe, "safe", "no_torque")
    assert "no torque could be published for 1" in process.output
    assert count(report, refused("/no_torque/commands")) > 10
    first = len(commands)
    probe.wait(lambda: len(commands) > first, "the safe torque is not tried again")
    wait_for_torque(probe, commands, WEIGHT)  # at rest the safe torque carries the arm
    resume(probe, "no_torque")
    wait_for_mode(probe, "hold", "no_torque")
    process.end()
    source.on = False


def test_a_refused_verdict_is_published_again(bring_up: BringUp, probe: Probe) -> None:
    """[106] The flag, and the event of the contact; refused markers change nothing."""
    flags = probe.listen(Bool, f"{detector.NODE}/contact")
    events = probe.listen(DiagnosticArray, f"{detector.NODE}/events")
    process = bring_up.start(detector.NODE, detector.PARAMETERS, preamble=REFUSING + NO_FLAG)
    source = probe.stream(detector.resting())
    probe.wait(lambda: flags and not flags[-1].data, "no verdict")
    detector.touched(source)
    probe.wait(lambda: flags[-1].data, "the flag is not repeated")
    probe.wait(lambda: events, "the event is not repeated")
    values = {item.key: item.value for item in events[0].status[0].values}
    assert values["phase"] == "onset"
    report = probe.wait_for_report(
        detector.NODE,
        lambda r: (
            count(r, refused(f"/{detector.NODE}/markers")) > 0 and r.values.get("contact") == "True"
        ),
        "does not count refused markers, or does not report the contact",
    )
    assert count(report, refused(f"/{detector.NODE}/contact")) == 3
    assert count(report, refused(f"/{detector.NODE}/events")) == 3
    assert not [key for key in report.values if key.startswith("failures of")]
    assert "Traceback" not in process.output
    process.end()


@pytest.mark.parametrize(
    "kind",
    [
        ContactDetectorNode,
        ContactGuard,
        JointStatePlayer,
        PassivityControllerNode,
        SimulatedArmNode,
    ],
)
def test_every_publisher_of_a_node_is_guarded(kind: type) -> None:
    """[104] Those of rclpy, for parameters, as well."""
    with ros_here():
        node = kind()
        publishers = list(node.publishers)
        assert len(publishers) > 1
        for publisher in publishers:
            assert isinstance(publisher, GuardedPublisher), publisher.topic_name
            assert publisher.refusals is node.refusals
        assert all("send_response" in vars(service) for service in node.services)
        node.destroy_node()
