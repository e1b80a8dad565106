"""The middleware refuses messages of nodes and commands, as it does on a machine at its limit.

The numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import GetParameters
from rclpy._rclpy_pybind11 import RCLError
from rclpy.client import Client
from rclpy.publisher import Publisher
from rclpy.task import Future
from std_msgs.msg import Bool, Float64MultiArray

from rbd_control.live import requests
from rbd_control.live.requests import CommandNode, run_payload
from rbd_control.nodes.contact_detector import ContactDetectorNode
from rbd_control.nodes.contact_guard import ContactGuard
from rbd_control.nodes.demo_scenario import PUSH, TRAJECTORY, Scenario, ScenarioDriver
from rbd_control.nodes.joint_state_player import JointStatePlayer
from rbd_control.nodes.passivity_controller import PassivityControllerNode
from rbd_control.nodes.simulated_arm import SimulatedArmNode
from rbd_control.robot.payload import PayloadParameters
from rbd_control.ros.diagnostics import ERROR, Status
from rbd_control.ros.guarded_node import GuardedPublisher
from rbd_control.ros.processes import reserved_domain

from . import detector_setting as detector
from .bringup import BringUp
from .controller_setting import (
    NODE,
    PARAMETERS,
    WEIGHT,
    count,
    in_space,
    resting,
    ros_here,
    torques,
    wait_for_more,
    wait_for_torque,
)
from .probe import Probe

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


def test_single_refusals_do_not_touch_the_control(bring_up: BringUp, probe: Probe) -> None:
    """[104, 105] The arm is held; each topic is counted, and has one warning at a time."""
    space = "now_and_then"
    probe.stream(resting(), f"{space}/joint_states")
    process = bring_up.start(NODE, PARAMETERS, in_space(space), preamble=REFUSING + NOW_AND_THEN)
    commands = torques(probe, space)
    probe.listen(Float64MultiArray, f"{space}/energy")
    wait_for_torque(probe, commands, WEIGHT)
    topics = ("commands", "energy")
    report = probe.wait_for_report(
        space,
        lambda r: all(count(r, refused(f"/{space}/{topic}")) > 10 for topic in topics),
        "does not count refused publications",
    )
    assert (report.values["mode"], report.level) == ("hold", 1)
    assert "publications refused" in report.message
    # A service whose response is refused leaves its client without an answer, and that is all.
    service = probe.node.create_client(GetParameters, f"{space}/get_parameters")
    probe.wait(service.service_is_ready, "no service")
    answers = [service.call_async(GetParameters.Request(names=["timeout"])) for _ in range(2)]
    probe.wait(lambda: any(answer.done() for answer in answers), "answers nothing")
    report = probe.wait_for_report(
        space,
        lambda r: any("refused" in key and "get_parameters" in key for key in r.values),
        "does not count refused responses",
    )
    assert report.values["mode"] == "hold"
    first = len(commands)
    wait_for_more(probe, commands)
    assert np.allclose([message.data for message in commands[first:]], WEIGHT, atol=1e-6)
    assert "safe torque" not in process.output
    process.end()
    assert not np.any(commands[-1].data)


def test_a_refused_verdict_is_published_again(bring_up: BringUp, probe: Probe) -> None:
    """[106] The flag, and the event of the contact; refused markers change nothing."""
    flags = probe.listen(Bool, f"{detector.NODE}/contact")
    events = probe.listen(DiagnosticArray, f"{detector.NODE}/events")
    bring_up.start(detector.NODE, detector.PARAMETERS, preamble=REFUSING + NO_FLAG)
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


# Requests to stop, and messages of the commands ---------------------------------------------------

ACTION, PAUSE = "/arm/follow_joint_trajectory", "/arm/pause"
CANCEL, STOP = f"{ACTION}/_action/cancel_goal", "/trajectory_execution_event"


class Wire:
    """A middleware that refuses the first messages to some topics and services.

    Attributes:
        sent: topics and services of the messages to them that were not refused, in order.
    """

    def __init__(self, patch: pytest.MonkeyPatch, refusals: int, *names: str) -> None:
        self.sent: list[str] = []
        self._left = dict.fromkeys(names, refusals)
        publish = Publisher.publish

        def publish_or_refuse(publisher: Publisher[Any], message: Any) -> None:
            if publisher.topic_name in names:
                self._send(publisher.topic_name)
            else:
                publish(publisher, message)

        patch.setattr(Client, "call_async", lambda client, _: self._send(client.srv_name))
        patch.setattr(Client, "remove_pending_request", lambda *_: None)
        patch.setattr(Publisher, "publish", publish_or_refuse)

    def _send(self, name: str) -> Future:
        if self._left[name]:
            self._left[name] -= 1
            raise RCLError("Failed to send: injected")
        self.sent.append(name)
        return Future()


def test_a_refused_request_to_stop_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """[108] The request is no defect; the stop begins when the middleware takes it."""
    with ros_here("autostart:=false", f"actions:=[{ACTION}]", f"services:=[{PAUSE}]"):
        guard = ContactGuard()
        guard.trigger_configure()
        guard.trigger_activate()
        wire = Wire(monkeypatch, 2, CANCEL, PAUSE, STOP)

        def status() -> tuple[Status, dict[str, str]]:
            found = Status()
            guard._report(found)
            return found, {item.key: item.value for item in found.values}

        guard._on_contact(Bool(data=True))
        guard._watch()
        assert not wire.sent
        found, values = status()
        assert (found.level, values["guard"]) == (ERROR, "stopping")
        assert f"refuses to send the request to {CANCEL}" in "; ".join(found.messages)
        assert "flag to requests sent [s]" not in values
        guard._watch()
        assert [x for x in wire.sent if x in (CANCEL, PAUSE, STOP)] == [CANCEL, PAUSE, STOP]
        found, values = status()
        assert values[f"requests to {CANCEL} that were not sent"] == "2"
        assert "flag to requests sent [s]" in values
        guard._watch()
        assert wire.sent.count(STOP) == 1  # MoveIt logs each event
        assert not guard.guard.failures
        monkeypatch.undo()
        guard.end()
        guard.destroy_node()


def test_the_demo_sends_refused_messages_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """[109] The motion begins when the middleware takes the trajectory; no push is left out."""
    with ros_here():
        said: list[str] = []
        node, scenario = CommandNode("demo", said.append), Scenario(20.0)
        driver = ScenarioDriver(node, scenario, ("joint_1",))
        wire = Wire(monkeypatch, 1, f"/{TRAJECTORY}", f"/{PUSH}")
        assert not driver.begin(1.0)
        assert not driver.has_begun
        node.refusals.log()
        assert [f"/{TRAJECTORY}" in line for line in said] == [True]
        assert driver.begin(3.0)
        due = 3.0 + scenario.pushes[0].time + 0.01
        driver.step(due)
        assert wire.sent == [f"/{TRAJECTORY}"]
        driver.step(due)
        assert wire.sent == [f"/{TRAJECTORY}", f"/{PUSH}"]
        node.destroy_node()


@pytest.mark.parametrize("left", [2, 10**9])
def test_a_refused_payload_is_published_again(
    left: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[109] Without a traceback; after a while the command gives up and says so."""
    monkeypatch.setattr(requests, "SENDING", 0.1)
    monkeypatch.setattr(requests, "_listeners", lambda *_: ["/somebody"])
    monkeypatch.setattr(requests, "_has_taken", lambda *_: True)
    with reserved_domain() as domain:
        monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
        wire = Wire(monkeypatch, left, "/payload", "/parameter_events")
        code = run_payload(PayloadParameters(payload_mass=1.0), "")
    said = capsys.readouterr().out
    assert "the middleware refused to publish on" in said
    assert (code, wire.sent.count("/payload")) == ((0, 1) if left == 2 else (1, 0))
