"""A message on a topic of the detector that is not for its listener is ignored and counted."""

from __future__ import annotations

import math
from dataclasses import replace
from io import StringIO

import pytest
from contact_event import EVENT
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from rbd_control.errors import InputError
from rbd_control.estimation import ContactEvent
from rbd_control.live.monitor import DetectorListener
from rbd_control.playback.live_view import LiveState, render
from rbd_control.ros.contact_messages import THRESHOLD, event_from_status, event_message
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


@pytest.mark.parametrize("key", KEYS[:14])
def test_a_status_that_lacks_a_value_is_no_event(key: str) -> None:
    status = good()
    status.values = [item for item in status.values if item.key != key]
    if key in ("stamp_uncertainty", "candidates", "confidence", "point", "duration"):
        assert event_from_status(status).id == 3
    else:
        with pytest.raises(InputError, match=key):
            event_from_status(status)


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
