"""Messages and requests that the middleware refuses are sent again."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rclpy._rclpy_pybind11 import RCLError
from rclpy.client import Client
from rclpy.publisher import Publisher
from rclpy.task import Future
from ros_here import ros_here
from std_msgs.msg import Bool

from rbd_control.live import requests
from rbd_control.live.requests import CommandNode, run_payload
from rbd_control.nodes.contact_detector import ContactDetectorNode
from rbd_control.nodes.contact_guard import ContactGuard
from rbd_control.nodes.demo_scenario import PUSH, TRAJECTORY, Scenario, ScenarioDriver
from rbd_control.nodes.hand_guide import HandGuideNode
from rbd_control.nodes.joint_state_player import JointStatePlayer
from rbd_control.nodes.passivity_controller import PassivityControllerNode
from rbd_control.nodes.simulated_arm import SimulatedArmNode
from rbd_control.robot.payload import PayloadParameters
from rbd_control.ros.diagnostics import ERROR, OK, WARN, Status
from rbd_control.ros.fault_tolerant_node import LOG_PERIOD, FaultTolerantPublisher, Refusals
from rbd_control.ros.processes import reserved_domain


@pytest.mark.parametrize(
    "kind",
    [
        ContactDetectorNode,
        ContactGuard,
        HandGuideNode,
        JointStatePlayer,
        PassivityControllerNode,
        SimulatedArmNode,
    ],
)
def test_every_publisher_of_a_node_is_guarded(kind: type) -> None:
    """Those of rclpy, for parameters, as well."""
    with ros_here():
        node = kind()
        publishers = list(node.publishers)
        assert len(publishers) > 1
        for publisher in publishers:
            assert isinstance(publisher, FaultTolerantPublisher), publisher.topic_name
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
    """The request is no defect; the stop begins when the middleware takes it."""
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
        assert not guard.errors.failures
        monkeypatch.undo()
        guard.end()
        guard.destroy_node()


def test_the_demo_sends_refused_messages_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The motion begins when the middleware takes the trajectory; no push is left out."""
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
    """Without a traceback; after a while the command gives up and says so."""
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


def test_refusals_are_reported_and_logged_once_in_a_period() -> None:
    lines: list[str] = []
    now = 100.0
    refusals = Refusals(lines.append, lambda: now)
    error = RuntimeError("Failed to publish: " + 1000 * "x")

    def level() -> bytes:
        status = Status()
        refusals.report(status)
        return status.level

    assert level() == OK
    for _ in range(3):
        refusals.add("/error", error)
    refusals.add("/energy", error)
    assert not lines, "logging takes longer than a sample"
    assert level() == WARN
    (line,) = lines
    assert "/error (3 messages), /energy (1 messages): Failed to publish: xxx" in line
    assert len(line) < 500
    assert level() == OK  # nothing new
    refusals.add("/error", error)
    assert level() == WARN
    assert len(lines) == 1
    now += LOG_PERIOD
    assert level() == OK
    assert "/error (1 messages): " in lines[1]
    status = Status()
    refusals.report(status)
    values = {item.key: item.value for item in status.values}
    assert values["publications refused on /error"] == "4"
