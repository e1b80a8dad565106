"""Joint states that come too late: after the end of a subscription, or after a pause."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from builtin_interfaces.msg import Time
from rclpy.serialization import serialize_message
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

from rbd_control.joint_states.prefix import PATIENCE, PrefixMatch
from rbd_control.ros.joint_state_input import (
    PAUSE,
    RECOVERY,
    SAID_EVERY,
    SILENT,
    JointStateInput,
    Lateness,
    OtherJoint,
)


def test_a_message_announced_before_the_end_of_the_subscription_is_not_taken() -> None:
    """The executor may call back after the node has destroyed the subscription."""
    node = MagicMock()
    node.parameters.best_effort, node.parameters.queue_depth = False, 10
    node.parameters.velocity_filter = 0.0
    inputs = JointStateInput(node, ["joint_1"], lambda: 1.0, lambda sample, stamp: None)
    callback, qos = node.create_subscription.call_args.args[2:4]
    assert qos.depth == node.parameters.queue_depth
    handle = node.create_subscription.return_value.handle
    handle.take_message.return_value = None
    node.errors.run.return_value = None
    callback(b"")
    assert handle.take_message.called
    handle.take_message.reset_mock()
    inputs.destroy()
    callback(b"")
    assert not handle.take_message.called


def test_an_activation_that_blocks_the_executor_reads_simulated_time() -> None:
    """A second activation was refused: "waiting for joint states", all of the "same stamp"."""
    clock: Any = SimpleNamespace(ros_time_is_active=True)
    clock.now = lambda: SimpleNamespace(nanoseconds=clock.time)
    queues: dict[str, list[bytes]] = {"clock": [], "joint states": []}

    def handle(name: str) -> MagicMock:
        made = MagicMock()
        made.take_message = lambda *_: (queues[name].pop(0), {}) if queues[name] else None
        return made

    node = MagicMock()
    node.is_active = False
    node.parameters.best_effort, node.parameters.queue_depth = False, 10
    node.parameters.velocity_filter = 0.0
    node.get_clock.return_value = clock
    node.create_subscription.return_value = SimpleNamespace(
        handle=handle("joint states"), msg_type=JointState, topic_name="joint_states"
    )
    node.subscriptions = [
        SimpleNamespace(
            handle=handle("clock"),
            msg_type=Clock,
            callback=lambda message: setattr(clock, "time", int(message)),
        )
    ]
    clock.time = 1_000_000_000
    inputs = JointStateInput(node, ["a"], lambda: 1.0, lambda sample, stamp: None, newest_only=True)
    for k in range(300):  # 3 s in which no executor runs
        nanoseconds = 1_000_000_000 + 10_000_000 * k
        queues["clock"] = [str(nanoseconds).encode()]
        message = JointState(name=["a"], position=[0.0], velocity=[0.0])
        message.header.stamp = Time(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)
        queues["joint states"] = [serialize_message(message)]
        inputs.poll()
        assert inputs.latest is not None
        assert inputs.latest.stamp == pytest.approx(1e-9 * nanoseconds, abs=1e-6)


@pytest.mark.parametrize("prefix", ["", "left_"])
def test_a_gripper_is_read_from_the_arm_s_messages_and_from_others(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name has the prefix of the arm's joints; another device's name is exact."""
    now = [0.0]
    monkeypatch.setattr("rbd_control.ros.joint_state_input.time.monotonic", lambda: now[0])
    node = MagicMock()
    node.parameters.best_effort, node.parameters.queue_depth = False, 10
    node.parameters.velocity_filter = 0.0
    node.get_clock.return_value.ros_time_is_active = False
    node.errors.run = lambda _name, callback, *given: callback(*given)
    node.create_subscription.return_value.handle.take_message.return_value = None
    names = ["joint_1", "joint_2"]
    inputs = JointStateInput(
        node, names, lambda: 1.0, lambda sample, stamp: None, prefix=PrefixMatch(names)
    )
    receive, positions = node.create_subscription.call_args.args[2], list[float]()
    inputs.other = OtherJoint(positions.append, "finger")

    def send(position: list[float], *joints: str) -> None:
        receive(serialize_message(JointState(name=joints, position=position)))

    arm = [prefix + name for name in names]
    for _ in range(2):  # the prefix is accepted after a while
        send([0.1, 0.2], *arm)
        now[0] += 2.0 * PATIENCE
    send([0.1, 0.2, 0.3], *arm, prefix + "finger")
    send([0.4], prefix + "finger")
    send([0.5], "finger")
    send([0.6], "another_finger")
    send([], "finger")
    assert positions == [0.3, 0.4, 0.5]
    inputs.other.name = ""
    send([0.7], "finger")
    assert len(positions) == 3


def test_a_driver_that_starts_late_has_time_until_it_sends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The node warned at once of a publisher that it had just found."""
    now = [100.0]
    monkeypatch.setattr("rbd_control.ros.joint_state_input.time.monotonic", lambda: now[0])
    node = MagicMock()
    node.is_active = False
    node.parameters.best_effort, node.parameters.queue_depth = False, 10
    node.parameters.velocity_filter = 0.0
    node.create_subscription.return_value.topic_name = "/joint_states"
    node.create_subscription.return_value.handle.take_message.return_value = None
    node.count_publishers.return_value = 0
    JointStateInput(node, ["joint_1"], lambda: 1.0, lambda sample, stamp: None)
    watch = node.create_timer.call_args.args[1]

    def said(seconds: float) -> list[str]:
        now[0] += seconds
        warned = node.get_logger.return_value.warning
        warned.reset_mock()
        watch()
        return [call.args[0] for call in warned.call_args_list]

    assert said(SILENT - 0.1) == []
    (first,) = said(0.2)
    assert first.startswith("no node publishes")
    node.count_publishers.return_value = 1
    assert said(SAID_EVERY + 0.1) == []
    assert said(SILENT - 0.1) == []
    (second,) = said(0.2)
    assert second.startswith("no message arrives on /joint_states, although it has a publisher")


def take(lateness: Lateness, now: float, *ages: float | None, is_full: bool = False) -> list[bool]:
    """Let the node take joint states of these ages [s], all at ``now``; return which are late."""
    lateness.begin_turn(now, is_full=is_full)
    late = [lateness.is_late(age, now) for age in ages]
    if not is_full:
        lateness.end_turn(now, ages[-1] if ages else None)
    return late


def running(age: float | None, until: float = 10.0) -> Lateness:
    """Return the judge of a node that ran until a time [s], with joint states of one age [s]."""
    lateness = Lateness()
    for k in range(10):
        assert take(lateness, until - 0.02 * (9 - k), age) == [False]
    return lateness


def run_on(lateness: Lateness, now: float, duration: float) -> float:
    """Let the node run for a while without joint states; return the time after it [s]."""
    for _ in range(round(duration / 0.02)):
        now += 0.02
        take(lateness, now)
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
        assert take(lateness, now, None, is_full=True) == [True]
        now += 0.05
    now = run_on(lateness, now, RECOVERY)
    assert take(lateness, now, None) == [False]


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
        late += take(lateness, now, 0.002 + 0.01 * k, is_full=True)
    assert late == [k > 10 for k in range(100)]


def test_a_node_that_falls_behind_at_a_low_rate_is_noticed() -> None:
    """Few joint states wait, but the oldest of them for long; each takes a tenth too long."""
    rate = 30.0
    lateness, work, now, done, unseen = running(0.002), 1.1 / rate, 10.0, 0, []
    while now < 60.0:
        count = int((now - 10.0) * rate) - done
        ages = [now - 10.0 - (done + k + 1) / rate + 0.002 for k in range(count)]
        lateness.begin_turn(now, is_full=count >= 32)
        for k, age in enumerate(ages[:32]):
            waited = age + k * work
            if not lateness.is_late(waited, now + k * work) and waited > PAUSE + 1.0 / rate:
                unseen.append(waited)
        if count < 32:
            lateness.end_turn(now, ages[-1] if ages else None)
        done += min(count, 32)
        now += max(min(count, 32) * work, 0.02)
    assert done > 32
    assert unseen == []


def test_a_queue_that_is_empty_again_holds_no_late_joint_states() -> None:
    """Those of the turn that empties it may have waited, later ones have not."""
    lateness, now = running(0.002), 10.0
    for _ in range(6):
        now += 0.02
        late = take(lateness, now, 0.4, 0.05, is_full=True)
    assert late == [True, False]
    now += 0.02
    assert take(lateness, now, 0.3, 0.003) == [True, False]
    for _ in range(50):
        now += 0.02
        assert take(lateness, now, 0.3, 0.003) == [False, False]


def test_a_slow_clock_makes_nothing_late_in_a_node_that_is_always_busy() -> None:
    """A simulated arm on a busy machine falls behind, and joint states come in batches."""
    lateness, now = running(0.0), 10.0
    for k in range(2000):
        now += 0.09
        assert not any(take(lateness, now, 0.09 + 0.07 * k, 0.01 + 0.07 * k)), k


def test_a_pause_between_two_joint_states_of_a_turn_is_noticed() -> None:
    lateness, now = running(0.002), 10.0
    assert not lateness.is_late(0.01, now)
    assert lateness.is_late(3.0, now + 3.0)


def test_a_short_queue_keeps_no_node_in_recovery_after_a_pause() -> None:
    """With simulated time nothing shows how long a joint state has waited."""
    lateness, now = running(None), 13.0
    assert take(lateness, now, None, None) == [True, True]
    for _ in range(60):
        now += 0.01
        take(lateness, now, None, None)
    assert take(lateness, now, None, None) == [False, False]


def test_without_other_joint_states_in_the_queue_none_is_late() -> None:
    """A clock was set, or a recording is played slowly: the age grows by itself."""
    lateness, now = running(0.002), 10.0
    for age in (3.0, 600.0):
        for _ in range(100):
            now += 0.9 * PAUSE
            assert take(lateness, now, age) == [False]
    now += 3.0
    assert take(lateness, now, 603.0, 600.0) == [True, False]
