"""What is published of contacts, and torques, as it is heard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")


from geometry_msgs.msg import WrenchStamped
from rclpy.serialization import deserialize_message
from std_msgs.msg import Float64MultiArray
from visualization_msgs.msg import Marker

from rbd_control.dynamics import Model, frame_placement
from rbd_control.estimation import ContactEvent
from rbd_control.nodes.contact_messages import (
    ForceArrow,
    WrenchWriter,
    event_from_status,
    event_message,
)
from rbd_control.nodes.messages import JointStateWriter, Stamp, TorqueWriter
from rbd_control.simulation import arm7_urdf

ONSET = ContactEvent(
    id=3,
    phase="onset",
    level="contact",
    onset=9.0,
    onset_uncertainty=0.002,
    detected=9.012,
    release=None,
    joint="elbow",
    link="forearm",
    peak_torque=8.0,
    force=np.array([0.0, 3.0, -4.0]),
    candidates=("forearm", "wrist"),
    confidence=0.75,
    point=np.array([0.5, 0.25, 1.0]),
)
RELEASE = replace(
    ONSET, phase="release", level="collision", release=9.5, force=None, point=None, candidates=()
)


@pytest.mark.parametrize("event", [ONSET, RELEASE, replace(ONSET, link="", confidence=np.nan)])
def test_what_is_told_is_what_is_heard(event: ContactEvent) -> None:
    (status,) = event_message("detector", event, Stamp(1, 2)).status
    assert event_from_status(status).to_json() == event.to_json()
    assert status.hardware_id == event.link


class Sent(list[Any]):
    """Takes the place of a publisher."""

    readers = 0

    def get_subscription_count(self) -> int:
        return self.readers

    def publish(self, what: Any) -> None:
        self.append(what)


def test_forces() -> None:
    sent = Sent()
    writer = WrenchWriter(sent)
    for k, link in enumerate(("forearm", "hand", "forearm", "a")):
        force = np.array([k, -2.0, 0.5])
        writer.publish(link, force, Stamp(k, 7))
        assert isinstance(sent[-1], bytes)  # made without rclpy's messages
        heard = deserialize_message(sent[-1], WrenchStamped)
        assert (heard.header.frame_id, heard.header.stamp.sec) == (link, k)
        made = heard.wrench.force
        np.testing.assert_array_equal((made.x, made.y, made.z), force)
        assert heard.wrench.torque.x == 0.0


def test_arrow() -> None:
    """From the point where it is known, else from the link; seldom, and taken away again."""
    model, q = Model.from_urdf(arm7_urdf()), np.full(7, 0.3)
    sent = Sent()
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
        assert marker.header.frame_id == model.link_names[0]
        begin, end = (np.array([p.x, p.y, p.z]) for p in marker.points)
        np.testing.assert_allclose(begin, start)
        np.testing.assert_allclose(end - begin, 0.02 * force)
    arrow.clear()
    arrow.clear()
    assert len(sent) == 3
    assert sent[-1].markers[0].action == Marker.DELETE


@pytest.mark.parametrize(
    ("writer", "message"),
    [
        (WrenchWriter, ("hand", np.ones(3), Stamp(1, 2))),
        (lambda sent: JointStateWriter(sent, ("joint",)), (Stamp(1, 2), None, None, np.ones(1))),
    ],
)
def test_nothing_is_sent_while_nobody_listens(writer: Any, message: tuple[Any, ...]) -> None:
    sent = Sent()
    made = writer(sent)
    for readers, count in ((0, 0), (1, 1), (0, 1)):
        sent.readers = readers
        made.look_for_readers()
        made.publish(*message)
        assert len(sent) == count


@pytest.mark.parametrize("count", [1, 7])
def test_torques(count: int) -> None:
    sent = Sent()
    writer = TorqueWriter(sent, count)
    for k in range(2):
        torque = np.arange(k, k + count, dtype=float)
        writer.publish(torque)
        assert isinstance(sent[-1], bytes)
        heard = deserialize_message(sent[-1], Float64MultiArray)
        np.testing.assert_array_equal(heard.data, torque)
        assert not heard.layout.dim
    with pytest.raises(ValueError, match="length|size|structure"):
        writer.publish(np.zeros(count + 1))
