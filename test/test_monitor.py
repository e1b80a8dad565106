"""Monitor and view hear every message of a detector, and ignore and count what is not for them."""

from __future__ import annotations

import math
from dataclasses import replace
from io import StringIO
from typing import Any
from unittest.mock import MagicMock

import pytest
from contact_event import EVENT
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from rbd_control.estimation import ContactEvent
from rbd_control.playback.live_view import LiveState, render

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from rbd_control.live import monitor, view
from rbd_control.live.monitor import DetectorListener, Monitor
from rbd_control.live.view import LiveArm
from rbd_control.ros.contact_messages import THRESHOLD, event_message
from rbd_control.ros.diagnostics import Status
from rbd_control.ros.messages import Stamp

KEYS = [
    "id",
    "phase",
    "level",
    "stamp",
    "stamp_uncertainty",
    "detected",
    "joint",
    "link",
    "candidates",
    "confidence",
    "peak_torque",
    "force",
    "point",
    "duration",
    "samples",
    "valid samples",
    f"{THRESHOLD}joint_1 [N·m]",
    THRESHOLD,
]
texts = st.sampled_from(
    ["", "0", "-1", "1e400", "nan", "inf", "1 2 3", "1 nan 3", "1 2", "onset", "release", "contact"]
) | st.text(max_size=20)
numbers = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -0.0])
keys = st.sampled_from(KEYS) | texts
values = st.dictionaries(keys, texts, max_size=20) | st.fixed_dictionaries(
    dict.fromkeys(KEYS, texts)
)
# One value of a good event is another: most of the message is as it should be.
nearly = st.tuples(st.sampled_from(KEYS[:14]), texts)


def status_of(changes: dict[str, str], name: str = "contact_detector") -> DiagnosticStatus:
    pairs = [KeyValue(key=key, value=text) for key, text in changes.items()]
    return DiagnosticStatus(name=name, message="\x1b[2J" + name, values=pairs)


def good(**changes: str) -> DiagnosticStatus:
    (status,) = event_message("detector", EVENT, Stamp(1, 2)).status
    for item in status.values:
        item.value = changes.get(item.key, item.value)
    return status


def listener() -> tuple[DetectorListener, list[ContactEvent]]:
    events: list[ContactEvent] = []
    return DetectorListener(LiveState("/contact_detector"), events.append), events


def shown(state: LiveState) -> str:
    console = Console(file=StringIO(), width=110, force_terminal=False)
    console.print(render(state, 1.0))
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def joint_state(names: list[str], effort: list[float]) -> JointState:
    return JointState(name=names, effort=[float(x) for x in effort])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(values | nearly.map(lambda pair: dict([pair])), max_size=4),
    st.lists(st.sampled_from(["joint_1", "joint_2", "other"]) | st.text(max_size=5), max_size=8),
    st.lists(numbers, max_size=8),
    st.tuples(numbers, numbers, numbers),
    nearly,
)
def test_no_message_raises_or_spoils_the_picture(
    statuses: list[dict[str, str]],
    names: list[str],
    effort: list[float],
    force: tuple[float, float, float],
    change: tuple[str, str],
) -> None:
    heard, events = listener()
    array = DiagnosticArray(status=[status_of(s) for s in statuses])
    array.status.append(good(**{change[0]: change[1]}))
    heard.on_events(array)
    heard.on_diagnostics(array)
    heard.on_residual(joint_state(names, effort), 0.5)
    heard.on_residual(joint_state(names[: len(effort)], effort[: len(names)]), 0.5)
    wrench = WrenchStamped()
    wrench.header.frame_id = "".join(names)
    wrench.wrench.force.x, wrench.wrench.force.y, wrench.wrench.force.z = force
    heard.on_wrench(wrench)
    heard.on_contact(Bool(data=True), 0.9)
    told = shown(heard.state)
    assert told.startswith("contact")
    assert "\x1b" not in told
    assert len(events) + heard.state.ignored >= len(array.status)
    # What is for it is still taken.
    before = heard.state.ignored
    heard.on_events(DiagnosticArray(status=[good()]))
    heard.on_residual(joint_state(["a", "b"], [1.0, -2.0]), 1.0)
    assert heard.state.ignored == before
    assert events[-1].to_json() == replace(EVENT, joint="elbow").to_json()
    assert heard.state.residual == (1.0, -2.0)
    shown(heard.state)


@given(st.text(), st.text())
def test_every_report_can_be_published(key: str, text: str) -> None:
    status = Status()
    status.add(key + "\ud800", text * 1000)
    status.raise_to(b"\x02", text + "\x00")
    told = [*status.messages, *(part for v in status.values for part in (v.key, v.value))]
    for part in told:
        assert part.isprintable()
        assert len(part) <= 2000
        part.encode()


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
            callbacks.setdefault(topic.name, topic.take)  # the view polls one for its first message

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


def test_an_old_flag_and_an_old_status_are_no_verdict(take: dict[str, Any]) -> None:
    """It said "no contact, no samples" above "no verdict: ...", and a rate after a moment."""
    shown_by = Monitor("contact_detector", lambda _line: None)
    told = report(DETECTOR, **{f"{THRESHOLD}joint_1 [N·m]": "2.0"})
    told.status[0].message = "no verdict: no joint states"
    take[f"{DETECTOR}/contact"](FIRST[f"{DETECTOR}/contact"])
    take["/diagnostics"](told)
    assert shown(shown_by.state).startswith("no verdict")
    take[f"{DETECTOR}/external_joint_torques"](FIRST[f"{DETECTOR}/external_joint_torques"])
    shown_by.spin(0.0)
    assert (shown_by.state.condition, shown_by.knows_all) == ("", False)
    take["/diagnostics"](told)
    take[f"{DETECTOR}/contact"](FIRST[f"{DETECTOR}/contact"])  # repeated: a new verdict
    assert shown(shown_by.state).startswith("no contact")


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


def test_the_view_shows_changes_of_friction(take: dict[str, Any]) -> None:
    node: Any = None
    arm = LiveArm(node, "")
    statuses = [DiagnosticStatus(message=text) for text in ("joint_1 is stiff", "", "so is 3")]
    take[f"{DETECTOR}/drift"](DiagnosticArray(status=statuses))
    assert arm._friction == "joint_1 is stiff; so is 3"
