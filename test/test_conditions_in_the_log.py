"""What lasts in the diagnostics is in the log as well; another description is remarked on."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from fake_node import FakeNode
from std_msgs.msg import String

from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.ros.diagnostics import ERROR, LASTING, OVER, WARN, ConditionLog, Status
from rbd_control.ros.robot_source import TOPIC, RobotSource
from rbd_control.simulation import arm7_urdf


def test_a_condition_that_lasts_is_logged_once_and_so_is_its_end() -> None:
    node: Any = FakeNode()
    now = 0.0
    log = ConditionLog(node, lambda: now)
    for k in range(20):
        now = 0.5 * k
        log.update([(WARN, f"no verdict about contact for {now:.1f} s")])
    assert node.lines == [f"no verdict about contact for {LASTING:.1f} s"]
    # It may be absent for a moment.
    now += OVER - 0.5
    log.update([(WARN, f"no verdict about contact for {now:.1f} s")])
    last = now
    for k in range(20):
        now = last + 0.5 * k
        log.update([])
    assert node.lines[1:] == [f"no longer: no verdict about contact for {last:.1f} s"]


def test_two_servers_are_two_conditions_and_the_fastest_joint_may_change() -> None:
    """The digits of a name tell one arm from another; what stands in parentheses varies."""
    node: Any = FakeNode()
    now = 0.0
    log = ConditionLog(node, lambda: now)
    for k in range(5):
        now = float(k)
        moves = f"the arm still moves after the stop (joint_{k}: 0.{k} rad/s or m/s)"
        log.update([(WARN, moves), *((WARN, f"no action server /arm{i}/follow") for i in (1, 2))])
    assert node.lines == [
        "the arm still moves after the stop (joint_3: 0.3 rad/s or m/s)",
        "no action server /arm1/follow",
        "no action server /arm2/follow",
    ]


def test_what_does_not_last_is_not_logged() -> None:
    node: Any = FakeNode()
    now = 0.0
    log = ConditionLog(node, lambda: now)
    for k in range(20):
        now = float(k)
        log.update([(ERROR, "refused")] if k % 2 else [])
    assert node.lines == []


def test_lower_levels_are_logged_beside_an_error_and_what_the_node_logs_is_not() -> None:
    status = Status()
    status.raise_to(WARN, "a warning")
    status.raise_to(ERROR, "an error")
    status.raise_to(ERROR, "safe torque", is_logged=True)
    assert status.messages == ["an error", "safe torque"]
    assert status.unlogged == [(WARN, "a warning"), (ERROR, "an error")]


@pytest.mark.parametrize("is_given", [False, True])
def test_another_description_never_goes_unnoticed(is_given: bool) -> None:
    """A given one may differ from that of the driver, but not change; white space is no change."""
    node: Any = FakeNode()
    arm = RobotParameters(urdf="arm7" if is_given else "")
    source = RobotSource(node, lambda: arm, reads_joint_states=False)

    def publish(text: str) -> list[str]:
        node.callbacks[TOPIC](String(data=text))
        status = Status()
        source.report(status)
        return status.messages

    first = arm7_urdf().replace('value="4"', 'value="3"') if is_given else arm7_urdf()
    assert publish(first) == []
    source.use(source.make())
    assert publish(first.replace(">", ">\n ")) == []
    said = publish(first.replace('value="4"', 'value="5"').replace('value="3"', 'value="5"'))
    assert said == node.lines
    assert "another robot description was published" in said[0]
    assert bool(source.contradiction) != is_given
    assert publish(first) == []
    assert not source.contradiction
