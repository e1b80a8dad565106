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


def run_on(lateness: Lateness, now: float, duration: float) -> float:
    """Let the node run for a while without joint states; return the time after it [s]."""
    for _ in range(round(duration / 0.02)):
        now += 0.02
        lateness.beat(now)
    return now


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
    now = run_on(lateness, now, RECOVERY + 0.02)
    assert not lateness.is_late(5.0, now)
    assert not lateness.is_late(5.0, now)


def test_a_full_queue_prolongs_the_recovery() -> None:
    """The node may take longer than that to work off what waited."""
    lateness, now = running(None), 13.0
    for _ in range(100):
        lateness.beat(now, has_more=True)
        assert lateness.is_late(None, now)
        now += 0.05
    now = run_on(lateness, now, RECOVERY)
    assert not lateness.is_late(None, now)


def test_without_a_stamp_everything_is_late_for_a_while_after_a_pause() -> None:
    lateness, now = running(None), 13.0
    lateness.beat(now)
    assert lateness.is_late(None, now)
    assert lateness.is_late(0.0, now)  # nobody knows what is normal
    now = run_on(lateness, now, RECOVERY + 0.02)
    assert not lateness.is_late(None, now)


def test_joint_states_behind_others_in_the_queue_are_late() -> None:
    """The node runs, but is slower than the joint states: their age grows without a pause."""
    lateness, now = running(0.002), 10.0
    late = []
    for k in range(100):
        now += 0.9 * PAUSE
        lateness.beat(now, has_more=True)
        late.append(lateness.is_late(0.002 + 0.01 * k, now))
    assert late == [k > 10 for k in range(100)]


def test_a_queue_that_is_empty_again_holds_no_late_joint_states() -> None:
    """Its end is judged by the age as well, which the time behind others has not changed."""
    lateness, now = running(0.002), 10.0
    lateness.beat(now, has_more=True)
    assert lateness.is_late(0.4, now)
    assert not lateness.is_late(0.05, now)
    now += 0.02
    lateness.beat(now)
    assert lateness.is_late(0.3, now)
    for _ in range(50):
        now += 0.02
        lateness.beat(now)
        assert not lateness.is_late(0.003, now)


def test_the_normal_age_is_not_that_of_a_turn_that_took_long() -> None:
    """The last joint state of a turn has waited for all others."""
    lateness, now = running(0.002), 10.0
    assert not lateness.is_late(0.09, now)
    lateness.beat(now, has_more=True)
    assert lateness.is_late(0.002 + PAUSE + 0.01, now)


def test_the_first_joint_state_of_many_does_not_count_as_usual() -> None:
    """The queue is empty while it is taken, and the next one is new again."""
    lateness, now = running(0.002), 10.0
    for _ in range(5):
        now = run_on(lateness, now, 2.0)
        lateness.is_late(0.5, now)
        lateness.beat(now, has_more=True)
        assert lateness.is_late(0.49, now)
        assert not lateness.is_late(0.002, now)


def test_a_pause_between_two_joint_states_of_a_turn_is_noticed() -> None:
    lateness, now = running(0.002), 10.0
    assert not lateness.is_late(0.01, now)
    assert lateness.is_late(3.0, now + 3.0)


def test_without_other_joint_states_in_the_queue_none_is_late() -> None:
    """A clock was set, or a recording is played slowly: the age grows by itself."""
    lateness, now = running(0.002), 10.0
    for age in (3.0, 600.0):
        for _ in range(100):
            now += 0.9 * PAUSE
            lateness.beat(now)
            assert not lateness.is_late(age, now)
    now += 3.0
    lateness.beat(now)
    assert not lateness.is_late(600.0, now)
    assert lateness.is_late(603.0, now)
