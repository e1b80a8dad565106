"""Messages of contacts and torques, as subscribers receive them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from contact_event import EVENT
from fake_node import FakePublisher
from urdf_texts import with_root_last

pytest.importorskip("rclpy", reason="ROS 2 is not installed")


from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import WrenchStamped
from rclpy.serialization import deserialize_message
from visualization_msgs.msg import Marker

from rbd_control.dynamics import Model, frame_placement
from rbd_control.estimation import ContactEvent, Detection
from rbd_control.ros.contact_messages import (
    ARROW_SCALE,
    ForceArrow,
    ForceWriter,
    StampedVerdict,
    event_from_status,
    event_message,
)
from rbd_control.ros.messages import NumberWriter, Stamp
from rbd_control.simulation import arm7_urdf

ONSET = replace(
    EVENT,
    candidates=("forearm", "wrist"),
    confidence=0.75,
    point=np.array([0.5, 0.25, 1.0]),
)
RELEASE = replace(
    ONSET, phase="release", level="collision", release=9.5, force=None, point=None, candidates=()
)


@pytest.mark.parametrize("event", [ONSET, RELEASE])
def test_a_published_event_is_received_unchanged(event: ContactEvent) -> None:
    (status,) = event_message("detector", event, Stamp(1, 2)).status
    assert event_from_status(status).to_json() == event.to_json()
    assert status.hardware_id == event.link


def detection(level: str, residual: list[float], *, valid: bool = True) -> Detection:
    return Detection(
        stamp=1.0,
        valid=valid,
        reason="" if valid else "no effort",
        contact=level != "none",
        level=level,  # type: ignore[arg-type]
        residual=np.array(residual),
        link="hand" if level != "none" else "",
        force=None,
        event=None,
    )


def test_the_stamped_verdict() -> None:
    """It is published at each change and repeated while valid, with the stamp of its sample."""
    sent: Any = FakePublisher()
    verdict = StampedVerdict(sent, "left/detector", ("elbow", "wrist"), "base")
    thresholds = np.array([2.0, 1.0])
    verdict.repeat()
    assert not sent, "no verdict yet"
    for k, (level, residual) in enumerate(
        [("none", [0.5, 0.5]), ("none", [0.5, 0.1]), ("contact", [0.0, -4.0])]
    ):
        verdict.take(detection(level, residual), thresholds, Stamp(k, 7))
    assert [message.header.stamp.sec for message in sent] == [0, 2], "once for each change"
    verdict.repeat()
    message, (status,) = sent[-1], sent[-1].status
    assert (message.header.stamp.sec, message.header.frame_id) == (2, "base")
    assert (status.name, status.hardware_id) == ("left/detector: verdict", "left/detector")
    assert status.level == DiagnosticStatus.WARN
    values = {item.key: item.value for item in status.values}
    assert values == {
        "contact": "1",
        "severity": "1",
        "threshold_share": "4",
        "joint": "wrist",
        "link": "hand",
    }
    count = len(sent)
    verdict.take(detection("none", [0.0, 0.0], valid=False), thresholds, Stamp(4, 0))
    verdict.repeat()
    assert len(sent) == count, "silence means that there is no verdict"
    verdict.take(detection("collision", [9.0, 0.0]), thresholds, Stamp(5, 0))
    assert sent[-1].status[0].level == DiagnosticStatus.ERROR
    verdict.clear()
    verdict.repeat()
    assert len(sent) == count + 1


def test_frames_on_tf_may_have_a_prefix() -> None:
    model, q = Model.from_urdf(arm7_urdf()), np.zeros(7)
    sent: Any = FakePublisher()
    shown: Any = FakePublisher()
    for k in range(2):
        ForceWriter(model, sent, "left/").publish_force(q, "link_7", np.ones(3), Stamp(k, 0))
    ForceArrow(model, shown, "left/").show(q, "link_7", np.ones(3), None, Stamp(1, 0))
    assert deserialize_message(sent[-1], WrenchStamped).header.frame_id == "left/link_7"
    assert shown[-1].markers[0].header.frame_id == "left/link_0"


def numbers(message: WrenchStamped) -> list[float]:
    """Force, then torque."""
    force, torque = message.wrench.force, message.wrench.torque
    return [force.x, force.y, force.z, torque.x, torque.y, torque.z]


def test_a_force_has_its_components_in_the_frame_of_its_header() -> None:
    """Transformed by TF to the frame of the arrow, the force is the one that the arrow shows."""
    model, q = Model.from_urdf(arm7_urdf()), np.linspace(-1.2, 1.3, 7)
    sent: Any = FakePublisher()
    shown: Any = FakePublisher()
    writer, arrow = ForceWriter(model, sent), ForceArrow(model, shown)
    force = np.array([10.0, 3.0, -5.0])
    for k, link in enumerate(("link_2", "link_7", "tool")):
        writer.publish_force(q, link, force, Stamp(k, 0))
        arrow.show(q, link, force, None, Stamp(k, 0))
        heard = deserialize_message(sent[-1], WrenchStamped)
        assert heard.header.frame_id == link
        assert numbers(heard)[3:] == [0.0, 0.0, 0.0]
        marker = shown[-1].markers[0]
        from_link = frame_placement(model, q, link)[:3, :3]
        to_arrow = frame_placement(model, q, marker.header.frame_id)[:3, :3].T
        turned = to_arrow @ from_link @ numbers(heard)[:3]
        begin, end = (np.array([p.x, p.y, p.z]) for p in marker.points)
        np.testing.assert_allclose(turned, (end - begin) / ARROW_SCALE, atol=1e-12)
        assert np.abs(np.array(numbers(heard)[:3]) - force).max() > 1.0, "the link is turned"


def test_arrow() -> None:
    """The arrow starts at the point if known, else at the link; it is sent rarely and deleted."""
    model, q = Model.from_urdf(with_root_last(arm7_urdf())), np.full(7, 0.3)
    sent: Any = FakePublisher()
    arrow = ForceArrow(model, sent)
    arrow.clear()
    assert not sent
    force, point = np.array([10.0, 0.0, -5.0]), np.array([0.1, 0.2, 0.3])
    origin = frame_placement(model, q, "link_5")[:3, 3]
    for k, (given, start) in enumerate(((point, point), (None, origin))):
        arrow.show(q, "link_5", force, given, Stamp(k, 0))
        arrow.show(q, "link_5", force, given, Stamp(k, 10_000_000))
        assert len(sent) == k + 1, "10 ms after the last one"
        (marker,) = sent[-1].markers
        assert (marker.action, marker.header.stamp.sec) == (Marker.ADD, k)
        assert marker.header.frame_id == "link_0", "the root, not the first link of the file"
        begin, end = (np.array([p.x, p.y, p.z]) for p in marker.points)
        np.testing.assert_allclose(begin, start)
        np.testing.assert_allclose(end - begin, 0.02 * force)
    arrow.clear()
    arrow.clear()
    assert len(sent) == 3
    assert sent[-1].markers[0].action == Marker.DELETE


def test_messages_are_sent_only_to_subscribers() -> None:
    sent: Any = FakePublisher(while_read=True)
    writer = NumberWriter(sent, 2)
    for readers, count in ((0, 0), (1, 1), (0, 1)):
        sent.readers = readers
        sent.look_for_readers()
        writer.publish(np.ones(2))
        assert len(sent) == count
