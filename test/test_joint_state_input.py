"""Joint states that come too late: after the end of a subscription, or after a pause."""

from unittest.mock import MagicMock

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.nodes.joint_state_input import JointStateInput
from rbd_control.nodes.lateness import PAUSE, RECOVERY, Lateness


def test_a_message_announced_before_the_end_of_the_subscription_is_not_taken() -> None:
    """The executor may call back after the node has destroyed the subscription."""
    node = MagicMock()
    node.parameters.best_effort, node.parameters.queue_depth = False, 10
    inputs = JointStateInput(node, ["joint_1"], lambda: 1.0, lambda sample, stamp: None)
    callback = node.create_subscription.call_args.args[2]
    handle = node.create_subscription.return_value.handle
    handle.take_message.return_value = None
    callback(b"")
    assert handle.take_message.called
    handle.take_message.reset_mock()
    inputs.destroy()
    callback(b"")
    assert not handle.take_message.called


def running(age: float | None, until: float = 10.0) -> Lateness:
    """Return the judge of a node that ran until a time [s], with joint states of one age [s]."""
    lateness = Lateness()
    for k in range(10):
        now = until - 0.02 * (9 - k)
        lateness.beat(now)
        assert not lateness.is_late(age, now)
    return lateness


@pytest.mark.parametrize("normal", [0.002, 600.0, -0.05])
def test_joint_states_of_a_pause_are_late(normal: float) -> None:
    """Their age counts, less what it was before: the sender has a clock of its own."""
    lateness, now = running(normal), 13.0
    lateness.beat(now)
    assert lateness.is_late(normal + 3.0, now)
    assert lateness.is_late(normal + PAUSE + 0.01, now)
    assert not lateness.is_late(normal + PAUSE - 0.01, now)
    assert not lateness.is_late(normal, now)
    # The middleware delivers some of them only after newer ones were seen.
    lateness.beat(now + 0.02)
    assert lateness.is_late(normal + 2.9, now + 0.02)


def test_a_clock_that_was_set_during_a_pause_makes_nothing_late_for_long() -> None:
    lateness, now = running(0.002), 13.0
    lateness.beat(now)
    assert lateness.is_late(5.0, now)
    now += RECOVERY + 0.01
    assert not lateness.is_late(5.0, now)
    assert not lateness.is_late(5.0, now)


def test_a_full_queue_prolongs_the_recovery() -> None:
    """The node may take longer than that to work off what waited."""
    lateness, now = running(0.002), 13.0
    for _ in range(100):
        lateness.beat(now, has_more=True)
        assert lateness.is_late(3.0, now)
        now += 0.05
    assert not lateness.is_late(3.0, now + RECOVERY)


def test_without_a_stamp_everything_is_late_for_a_while_after_a_pause() -> None:
    lateness, now = running(None), 13.0
    lateness.beat(now)
    assert lateness.is_late(None, now)
    assert lateness.is_late(0.0, now)  # nobody knows what is normal
    assert not lateness.is_late(None, now + RECOVERY + 0.01)


def test_a_busy_node_that_runs_finds_nothing_late() -> None:
    """Joint states that come late by themselves are no matter of the node."""
    lateness, now = running(0.002), 10.0
    for _ in range(100):
        now += 0.9 * PAUSE
        lateness.beat(now, has_more=True)
        assert not lateness.is_late(3.0, now)
