"""Every message of a detector, and of an arm, counts as heard by monitor and view."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from contact_event import EVENT

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from rbd_control.live import monitor, view
from rbd_control.live.monitor import Monitor
from rbd_control.live.view import LiveArm
from rbd_control.ros.contact_messages import event_message
from rbd_control.ros.messages import Stamp

DETECTOR, CONTROLLER = "/contact_detector", "/passivity_controller"


def report(node: str, **values: str) -> DiagnosticArray:
    pairs = [KeyValue(key=key, value=value) for key, value in values.items()]
    status = DiagnosticStatus(name=node.lstrip("/"), message="ok", values=pairs)
    return DiagnosticArray(status=[status])


FIRST = {
    f"{DETECTOR}/contact": Bool(data=False),
    f"{DETECTOR}/external_joint_torques": JointState(name=["joint_1"], effort=[0.5]),
    f"{DETECTOR}/events": event_message("detector", EVENT, Stamp(1, 2)),
    f"{DETECTOR}/external_wrench": WrenchStamped(),
    "/diagnostics": report(DETECTOR),
}
"""One message on each topic of the detector, by topic."""


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the callbacks of all subscriptions by topic, filled in by monitor or arm."""
    callbacks: dict[str, Any] = {}

    class Node(MagicMock):
        def create_subscription(
            self, _kind: object, topic: str, callback: Any, _qos: object
        ) -> None:
            callbacks[topic] = callback

    class Polled:
        def __init__(self, _node: object, topic: Any, _qos: object = None) -> None:
            callbacks[topic.name] = topic.take

    monkeypatch.setattr(monitor, "Node", Node)
    monkeypatch.setattr(monitor, "make_executor", MagicMock())
    monkeypatch.setattr(view, "PolledTopic", Polled)
    return callbacks


@pytest.mark.parametrize("topic", FIRST)
def test_the_monitor_hears_every_message_of_the_detector(take: dict[str, Any], topic: str) -> None:
    """A flag alone, an event or a force ended in "no message received"."""
    shown = Monitor("contact_detector", lambda _line: None)
    take["/diagnostics"](report("/another_detector"))
    before = shown.has_heard
    take[topic](FIRST[topic])
    assert (before, shown.has_heard) == (False, True)
    assert set(take) == set(FIRST)


OF_THE_ARM = {
    "/joint_states": JointState(name=["joint_1"], position=[0.5]),
    f"{CONTROLLER}/tracking_error": JointState(name=["joint_1"], position=[0.01]),
    "/diagnostics of the controller": report(CONTROLLER, mode="hold"),
}


@pytest.mark.parametrize("topic", [*FIRST, *OF_THE_ARM])
def test_the_view_hears_every_message_of_the_arm(take: dict[str, Any], topic: str) -> None:
    """An arm of which only the controller or the flag was heard ended in exit code 1."""
    node: Any = None
    arm = LiveArm(node, "")
    take["/diagnostics"](report("/another_detector"))
    before = arm.has_heard
    take[topic.split()[0]]((FIRST | OF_THE_ARM)[topic])
    assert (before, arm.has_heard) == (False, True)
