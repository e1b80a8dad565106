"""The middleware refuses requests to stop, and messages of the commands.

The numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rclpy._rclpy_pybind11 import RCLError
from rclpy.client import Client
from rclpy.publisher import Publisher
from rclpy.task import Future
from std_msgs.msg import Bool

from rbd_control.live import requests
from rbd_control.live.requests import CommandNode, run_payload
from rbd_control.nodes.contact_guard import ContactGuard
from rbd_control.nodes.demo_scenario import PUSH, TRAJECTORY, Scenario, ScenarioDriver
from rbd_control.robot.payload import PayloadParameters
from rbd_control.ros.diagnostics import ERROR, Status
from rbd_control.ros.processes import reserved_domain

from .fault_setting import ros_here

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


def worst(report: Callable[[Status], None]) -> Status:
    """Return the status that a source of diagnostics fills in."""
    status = Status()
    report(status)
    return status


def test_a_refused_request_to_stop_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """[108] The request is no defect; the stop begins when the middleware takes it."""
    with ros_here("autostart:=false", f"actions:=[{ACTION}]", f"services:=[{PAUSE}]"):
        guard = ContactGuard()
        guard.trigger_configure()
        guard.trigger_activate()
        wire = Wire(monkeypatch, 3, CANCEL, PAUSE, STOP)
        guard._on_contact(Bool(data=True))
        for _ in range(2):
            guard._watch()
            assert not wire.sent
            status = worst(guard._report)
            values = {item.key: item.value for item in status.values}
            assert status.level == ERROR
            assert f"refuses to send the request to {CANCEL}" in "; ".join(status.messages)
            assert values["guard"] == "stopping"
            assert "flag to requests sent [s]" not in values
        guard._watch()
        assert [name for name in wire.sent if name in (CANCEL, PAUSE, STOP)] == [
            CANCEL,
            PAUSE,
            STOP,
        ]
        status = worst(guard._report)
        values = {item.key: item.value for item in status.values}
        assert values[f"requests to {CANCEL} that were not sent"] == "3"
        assert "flag to requests sent [s]" in values
        assert "refuses to send" not in "; ".join(status.messages)
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
        wire = Wire(monkeypatch, 2, f"/{TRAJECTORY}", f"/{PUSH}")
        assert not driver.begin(1.0)
        assert not driver.has_begun
        node.refusals.log()
        assert [f"/{TRAJECTORY}" in line for line in said] == [True]
        assert not driver.begin(2.0)
        assert driver.begin(3.0)
        due = 3.0 + scenario.pushes[0].time + 0.01
        for _ in range(2):
            driver.step(due)
            assert wire.sent == [f"/{TRAJECTORY}"]
        driver.step(due)
        assert wire.sent == [f"/{TRAJECTORY}", f"/{PUSH}"]
        assert driver.activity.startswith("pushing")
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
    assert "/payload (1 messages)" in said
    if left == 2:
        assert (code, wire.sent.count("/payload")) == (0, 1)
        assert "/somebody: 1 kg" in said
    else:
        assert (code, wire.sent.count("/payload")) == (1, 0)
        assert "not published within 0.1 s, and no node has changed" in said
