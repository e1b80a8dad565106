"""Joint states that a running controller cannot use, one by one and in a row.

The numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from rbd_control.ros.messages import to_seconds, to_stamp

from .bringup import BringUp
from .controller_scenarios import (
    MODEL,
    NODE,
    PARAMETERS,
    WEIGHT,
    holds,
    resting,
    trajectory,
    wait_for_torque,
)
from .fault_setting import (
    ZERO,
    count,
    hold_again,
    holding,
    is_of_the_machine,
    set_parameters,
    torques,
    wait_for_mode,
)
from .probe import Probe, Source

WARN, ERROR = 1, 2

Change = Callable[[JointState], None]


def set_field(field: str, value: Callable[[list[Any]], list[Any]]) -> Change:
    def change(message: JointState) -> None:
        setattr(message, field, value(list(getattr(message, field))))

    return change


def set_stamp(seconds: int) -> Change:
    def change(message: JointState) -> None:
        message.header.stamp.sec = seconds

    return change


UNUSABLE: dict[str, Change] = {
    "not finite": set_field("position", lambda q: [nan, *q[1:]]),
    "infinite": set_field("position", lambda q: [*q[:-1], inf]),
    "lengths": set_field("position", lambda q: q[:-1]),
    "velocity lengths": set_field("velocity", lambda v: v[:-1]),
    "duplicate name": set_field("name", lambda names: [names[0], *names[:-1]]),
    "missing joint": set_field("name", lambda names: [*names[:-1], "elbow"]),
    "empty": set_field("name", lambda _: []),
    "negative stamp": set_stamp(-5),
    "old stamp": set_stamp(1_000),
}
"""Changes that make a joint state unusable, by the reason under which it is counted."""

COUNTED_AS = {"infinite": "not finite", "velocity lengths": "lengths"}


class Spoiled(Source):
    """A source whose every message may be changed before it is sent."""

    change: Change | None = None
    good = 0.0
    """When the last message that was not changed was made, on the monotonic clock [s]."""

    def message(self, stamp: Any) -> JointState:
        message = super().message(stamp)
        if self.change is not None:
            self.change(message)
        else:
            self.good = time.monotonic()
        return message


@pytest.fixture(scope="module")
def streamed(bring_up: BringUp, probe: Probe) -> Spoiled:
    bring_up.start(NODE, PARAMETERS)
    source = Spoiled(**vars(resting()))
    probe.stream(source)
    holds(probe, source)
    return source


@pytest.fixture
def source(streamed: Spoiled, probe: Probe) -> Iterator[Spoiled]:
    """Yield the joint states that the controller receives, put in order again after each test."""
    yield streamed
    vars(streamed).update(vars(resting()), publishers=streamed.publishers, change=None)
    hold_again(probe)


def test_single_unusable_messages_are_dropped_and_counted(probe: Probe, source: Spoiled) -> None:
    """[4, 5, 8, 10, 11, 15] Between good messages they change neither torque nor mode."""
    commands = torques(probe)
    wait_for_torque(probe, commands, WEIGHT)
    before = probe.report(NODE)
    expected = {COUNTED_AS.get(kind, kind) for kind in UNUSABLE}

    def all_counted() -> bool:
        first = len(commands)
        # Joint states are received best-effort: a message may be lost.
        for change in UNUSABLE.values():
            message = resting().message(probe.node.get_clock().now().to_msg())
            change(message)
            probe.send("joint_states", message)
        report = holding(probe, PARAMETERS["timeout"])
        if report is None:
            return False
        assert np.allclose([message.data for message in commands[first:]], WEIGHT, atol=1e-6)
        return all(count(report, reason) > count(before, reason) for reason in expected)

    probe.wait(all_counted, f"not all are counted: {expected}")


@pytest.mark.parametrize("kind", ["lengths", "missing joint"])
def test_nothing_but_unusable_messages_is_silence(kind: str, probe: Probe, source: Spoiled) -> None:
    """[5, 9, 19] Zero torque within the timeout, and the safe mode until resumed."""
    commands = torques(probe)
    source.change = UNUSABLE[kind]
    wait_for_torque(probe, commands, ZERO)
    report = wait_for_mode(probe, "safe")
    assert report.level == ERROR
    assert count(report, kind) > 0
    source.change = None
    wait_for_torque(probe, commands, WEIGHT)
    assert probe.report(NODE).values["mode"] == "safe"


def test_joints_are_matched_by_name(probe: Probe, source: Spoiled) -> None:
    """[6, 7] Another order and further joints of a gripper have no effect."""
    commands = torques(probe)

    def another_order(message: JointState) -> None:
        message.name = ["finger", *reversed(message.name)]
        message.position = [0.01, *reversed(message.position)]
        message.velocity = [0.5, *reversed(message.velocity)]

    source.change = another_order
    first = len(commands)
    accepted = count(probe.report(NODE), "accepted")
    probe.wait_for_report(
        NODE, lambda r: count(r, "accepted") > accepted + 20, "another order is not accepted"
    )
    assert np.allclose([message.data for message in commands[first:]], WEIGHT, atol=1e-6)


def test_equal_stamps_add_no_time(probe: Probe, source: Spoiled) -> None:
    """[12] Each message sent twice: a trajectory takes as long, and torque does not jump."""
    twice = source.publishers[0]
    errors = probe.listen(JointState, f"{NODE}/tracking_error")
    first = 0

    class Twice:
        @staticmethod
        def publish(message: JointState) -> None:
            twice.publish(message)
            twice.publish(message)

    def begin() -> None:
        """Send the trajectory, and note the last tracking error before it."""
        nonlocal first
        first = len(errors) - 1
        probe.send(f"{NODE}/joint_trajectory", trajectory(0.02, seconds=1.0))

    def ended() -> bool:
        """Whether the trajectory is over; one that late joint states ended begins anew."""
        report = probe.reports.get(NODE)
        if report is not None and report.values["mode"] == "safe":
            assert is_of_the_machine(report, PARAMETERS["timeout"]), f"does not follow: {report}"
            hold_again(probe)
            begin()
        return np.allclose(errors[-1].position, -0.02, atol=1e-7)

    before = count(probe.report(NODE), "same stamp")
    source.publishers[0] = Twice()
    try:
        probe.wait_for_report(
            NODE, lambda r: count(r, "same stamp") > before + 50, "equal stamps are not counted"
        )
        begin()
        probe.wait(ended, "does not follow")
    finally:
        source.publishers[0] = twice
    stamps = np.array([to_seconds(message.header.stamp) for message in errors[first:]])
    desired = -np.array([message.position[0] for message in errors[first:]])
    assert (np.diff(stamps) > 0.0).all()
    moving = np.flatnonzero((desired > 1e-6) & (desired < 0.02 - 1e-6))
    start, end = moving[0], moving[-1]
    # A cubic over 0.02 rad in 1 s is within 1e-6 rad of its ends for 4 ms at each end. Samples that
    # a busy machine sends late leave the duration between these two.
    assert stamps[end] - stamps[start] < 0.99 + 0.05
    assert stamps[end + 1] - stamps[start - 1] > 0.99 - 0.05


@pytest.mark.parametrize("kind", ["zero", "future"])
def test_stamps_without_meaning_are_replaced(kind: str, probe: Probe, source: Spoiled) -> None:
    """[14] The time of receipt counts, with a warning; the arm is held as before."""
    if kind == "zero":
        source.stamp = Time()
    else:
        source.shift = 3600.0
    before = count(probe.report(NODE), "stamp replaced")
    probe.wait_for_report(
        NODE,
        lambda r: r.level >= WARN and count(r, "stamp replaced") > before + 50,
        "is not told of",
    )
    probe.wait(lambda: holding(probe, PARAMETERS["timeout"]), "does not hold")
    wait_for_torque(probe, torques(probe), WEIGHT)


def test_a_jump_of_position_is_a_fault(probe: Probe, source: Spoiled) -> None:
    """[17] After a few samples the torque is safe; the old place is believed when it is back."""
    commands = torques(probe)
    source.position = np.where(np.arange(MODEL.nv) == 0, 2.0, resting().position)
    report = wait_for_mode(probe, "safe")
    assert "joint_1 jumped" in report.message
    sent = np.array([message.data for message in commands])
    assert (np.abs(sent) <= MODEL.effort_limit).all()


def test_a_speed_beyond_reason_is_a_fault(probe: Probe, source: Spoiled) -> None:
    """[17] No sample with it is used; the arm, which stands still, gets zero torque at once."""
    commands = torques(probe)
    source.velocity = np.full(MODEL.nv, 1e3)
    wait_for_torque(probe, commands, ZERO)
    report = wait_for_mode(probe, "safe")
    assert "contradicts its positions" in report.message


def test_a_publisher_that_restarts_is_not_followed_by_itself(probe: Probe, source: Spoiled) -> None:
    """[20] Mode safe continues after the return of the publisher, until ``resume``."""
    commands = torques(probe)
    probe.end_stream(source)
    wait_for_torque(probe, commands, ZERO)
    source.publishers.append(probe.node.create_publisher(JointState, "joint_states", 50))
    source.on = True
    wait_for_torque(probe, commands, WEIGHT)
    assert probe.report(NODE).values["mode"] == "safe"
    probe.send(f"{NODE}/joint_trajectory", trajectory(0.02))
    assert probe.report(NODE).values["mode"] == "safe"


def test_a_second_publisher_is_reported(probe: Probe, source: Spoiled) -> None:
    """[21] WARN with the number, for as long as there are two."""
    there = int(probe.report(NODE).values["publishers"])
    second = probe.node.create_publisher(JointState, "joint_states", 50)
    probe.wait_for_report(
        NODE,
        lambda r: r.level >= WARN and r.values["publishers"] == str(there + 1),
        "a second publisher is not told of",
    )
    probe.node.destroy_publisher(second)
    probe.wait_for_report(
        NODE, lambda r: r.values["publishers"] == str(there), "it is counted for ever"
    )


def test_two_sources_that_contradict_each_other_are_a_fault(probe: Probe, source: Spoiled) -> None:
    """[21] No torque, and no activation until one of them ends."""
    commands = torques(probe)
    count_of_all = 0

    def every_other_elsewhere(message: JointState) -> None:
        nonlocal count_of_all
        count_of_all += 1
        if count_of_all % 2:
            message.position[0] += 2.0

    source.change = every_other_elsewhere
    wait_for_torque(probe, commands, ZERO)
    report = wait_for_mode(probe, "safe")
    assert "whether there is a second publisher" in report.message
    assert not probe.call(Trigger, f"{NODE}/resume").success
    assert probe.change(NODE, "deactivate")
    seen = count_of_all
    probe.wait(lambda: count_of_all > seen + 50, "nothing is published")
    assert not probe.change(NODE, "activate")
    source.change = None
    probe.wait(
        lambda: probe.change(NODE, "activate"),
        "cannot be activated with one source",
    )
    wait_for_torque(probe, commands, WEIGHT)


class Slowed:
    """Makes the stamps of joint states pass at a fifth of the time.

    Attributes:
        behind: by how much the last stamp is behind the clock [s].
    """

    def __init__(self) -> None:
        self._begin: float | None = None
        self.behind = 0.0

    def __call__(self, message: JointState) -> None:
        now = to_seconds(message.header.stamp)
        if self._begin is None:
            self._begin = now
        self.behind = 0.8 * (now - self._begin)
        message.header.stamp = to_stamp(now - self.behind)


def test_a_delay_that_grows_is_a_fault(probe: Probe, source: Spoiled) -> None:
    """[118] Joint states come at their rate, but each is older than the one before.

    Without ``delay_growth`` they are those of a simulation that falls behind the clock.
    """
    commands = torques(probe)
    slowed = source.change = Slowed()
    probe.wait(lambda: slowed.behind > 2.0 * PARAMETERS["timeout"], "nothing is published")
    probe.wait(lambda: holding(probe, PARAMETERS["timeout"]), "does not hold")
    assert set_parameters(probe, NODE, delay_growth=PARAMETERS["timeout"]).successful
    wait_for_torque(probe, commands, ZERO)
    report = wait_for_mode(probe, "safe")
    assert "joint states arrive too late" in report.message
    assert not probe.call(Trigger, f"{NODE}/resume").success
    assert set_parameters(probe, NODE, delay_growth=0.0).successful


def test_no_clock_where_time_is_simulated(bring_up: BringUp, probe: Probe) -> None:
    """[24] The controller reports the missing clock, and sends no torque."""
    bring_up.start(
        NODE,
        {**PARAMETERS, "use_sim_time": True},
        ["-r", "__node:=simulated_time", "-r", "effort_controller/commands:=simulated/commands"],
    )
    commands = probe.listen(Float64MultiArray, "simulated/commands")
    probe.wait_for_report(
        "simulated_time", lambda r: r.level == ERROR and "/clock" in r.message, "is not told of"
    )
    assert not commands
