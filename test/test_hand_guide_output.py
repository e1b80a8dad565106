"""Messages of the hand guide for each kind of output."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from fake_node import FakeNode, FakePublisher

from rbd_control.control.hand_guide import Command
from rbd_control.errors import ParameterError
from rbd_control.nodes.hand_guide import OUTPUTS, ArmOutput, HandGuideNodeParameters
from rbd_control.ros.contact_messages import level_and_link

COMMAND = Command(np.array([0.1, 0.2]), np.array([0.3, -0.4]), np.arange(1.0, 7.0))


def output(kind: str) -> tuple[ArmOutput, FakePublisher]:
    parameters = HandGuideNodeParameters(output=kind)
    made: list[FakePublisher] = []

    def create(_kind: type, topic: str, _qos: Any) -> FakePublisher:
        made.append(FakePublisher(topic))
        return made[-1]

    stamp = SimpleNamespace(to_msg=lambda: Time(sec=7))
    node: Any = FakeNode(
        create_publisher=create,
        parameters=parameters,
        get_clock=lambda: SimpleNamespace(now=lambda: stamp),
    )
    return ArmOutput(node, parameters, ["a", "b"], "base"), made[0]


def test_a_point_has_the_positions_and_the_hold_keeps_them() -> None:
    arm, sent = output("trajectory")
    arm.send(COMMAND)
    arm.hold(COMMAND)
    for message in sent:
        assert message.joint_names == ["a", "b"]
        (point,) = message.points
        assert list(point.positions) == [0.1, 0.2]
        assert not len(point.velocities)
        assert point.time_from_start.nanosec == 20_000_000
    assert sent.topic_name == OUTPUTS["trajectory"].command
    assert arm.missing() == f"nothing subscribes to {sent.topic_name}"
    sent.readers = 1
    assert not arm.missing()


def test_velocities_and_their_zero() -> None:
    arm, sent = output("velocity")
    arm.send(COMMAND)
    arm.hold(COMMAND)
    assert [list(message.data) for message in sent] == [[0.3, -0.4], [0.0, 0.0]]


def test_a_twist_is_in_the_root_link_and_stamped() -> None:
    arm, sent = output("twist")
    arm.send(COMMAND)
    arm.hold(COMMAND)
    first, last = sent
    assert (first.header.frame_id, first.header.stamp.sec) == ("base", 7)
    linear, angular = first.twist.linear, first.twist.angular
    assert (angular.x, angular.y, angular.z) == (1.0, 2.0, 3.0)
    assert (linear.x, linear.y, linear.z) == (4.0, 5.0, 6.0)
    assert last.twist.linear.x == last.twist.angular.z == 0.0


def test_level_and_link_of_a_verdict() -> None:
    def message(level: bytes, *values: KeyValue) -> DiagnosticArray:
        return DiagnosticArray(status=[DiagnosticStatus(level=level, values=list(values))])

    link = KeyValue(key="link", value="link_3")
    assert level_and_link(message(DiagnosticStatus.ERROR, link)) == ("collision", "link_3")
    assert level_and_link(message(DiagnosticStatus.WARN, link)) == ("contact", "link_3")
    assert level_and_link(message(DiagnosticStatus.OK)) is None
    assert level_and_link(message(DiagnosticStatus.STALE, link)) is None


def test_a_box_without_an_inside_is_refused() -> None:
    with pytest.raises(ParameterError):
        HandGuideNodeParameters(box_lower=(0.0,), box_upper=(1.0,))
