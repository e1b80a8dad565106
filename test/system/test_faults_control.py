"""Faults of a running controller, and orders that stop the arm.

The numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from geometry_msgs.msg import WrenchStamped
from std_msgs.msg import Bool, Float64MultiArray
from std_srvs.srv import Trigger

from rbd_control.control.torque_path import WEAKENED
from rbd_control.ros.messages import to_seconds

from .bringup import BringUp
from .controller_scenarios import MODEL, POSTURE, trajectory
from .fault_setting import count, resume, set_parameters, wait_for_mode
from .follower_arms import RATE, Arm, Arms
from .probe import Probe

STOP_TIME = 0.1
"""The controller's default [s]."""

LATE = 0.05
"""Samples of a busy probe may be so far apart [s]; the stop begins with the first of them."""

ORDERS = ("hold", "cancel", "contact")
NOISE = 1.0
"""Amplitude of a velocity that swings at 23 Hz, at RATE [rad/s]."""

STATES = ("following", "slowed", "retracting")


@pytest.fixture(scope="module")
def arms(bring_up: BringUp, probe: Probe) -> Arms:
    return Arms(bring_up, probe)


@pytest.fixture
def plain(arms: Arms, probe: Probe) -> Iterator[Arm]:
    arm = arms.arm("plain")
    if probe.report(arm.name).values["mode"] == "safe":
        # The arm of the tests may have been late after the last one: it is no part of this one.
        put_in_order(arm, probe)
    # The arm may still move: made still then, it would be one that repeats its samples.
    probe.wait(lambda: np.abs(arm.source.velocity).max() < 1e-3, "does not come to rest")
    yield arm
    put_in_order(arm, probe)


def put_in_order(arm: Arm, probe: Probe) -> None:
    """Let the controller go on with the arm where it is, whatever has happened."""

    def is_in_order() -> bool:
        arm.source.still, arm.source.noise = True, 0.0
        arm.source.velocity = np.zeros(MODEL.nv)
        # Not where it was: the same sample again would be the one that repeats. What the controller
        # wanted before the fault is not followed any more.
        arm.source.position = np.array(arm.source.position) + 1e-4
        arm.source.answered = to_seconds(arm.errors[-1].header.stamp)
        try:
            probe.wait(lambda: resumed(arm, probe), "cannot resume", timeout=2.0)
        except AssertionError:
            return False  # The arm was late, and its samples have repeated again.
        # The arm follows at once: the controller may go on with a trajectory.
        arm.source.still = False
        # A report of mode safe that is still on its way is not one of the next fault.
        return probe.report(arm.name).values["mode"] != "safe"

    probe.wait(is_in_order, "does not go on")


def resumed(arm: Arm, probe: Probe) -> bool:
    return bool(probe.call(Trigger, arm.topic("resume")).success)


def send_away(arm: Arm, probe: Probe, speed: float = 0.1) -> None:
    """Send the arm to the farther of two postures, at a mean speed [rad/s]."""
    here = float(arm.source.position[0] - POSTURE[0])
    there = 0.3 if here < 0.15 else 0.0
    motion = trajectory(there, seconds=abs(there - here) / speed)
    probe.send(arm.topic("joint_trajectory"), motion)


def test_repeated_samples_of_a_moving_arm_are_a_fault(plain: Arm, probe: Probe) -> None:
    """[51] Within 30 ms at 200 Hz, on the stamps: the velocity contradicts standing positions."""
    send_away(plain, probe, 0.4)
    probe.wait(lambda: np.abs(plain.source.velocity).max() > 0.4, "does not move")
    plain.source.still = True
    wait_for_mode(probe, "safe", plain.name)
    # The joint states are sent by a thread, which a busy machine may delay.
    sent = sorted(dict(plain.source.sent).items())
    repeated = max(
        stamp
        for (_, before), (stamp, state) in zip(sent, sent[1:], strict=False)
        if not np.array_equal(before[0], state[0])
    )
    followed = [
        to_seconds(message.header.stamp)
        for message in plain.errors
        if np.any(message.position) and to_seconds(message.header.stamp) > repeated
    ]
    # The first repetition is one period after the last new sample; periods vary on a busy machine.
    assert not followed or followed[-1] - repeated < 0.020 + 4.0 / RATE


WRONG: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sign": np.negative,
    "sign of one": lambda v: v * np.where(np.arange(7) == 2, -1.0, 1.0),
    "zero": np.zeros_like,
}


@pytest.mark.parametrize("kind", WRONG)
def test_velocities_that_contradict_the_positions_are_a_fault(
    kind: str, plain: Arm, probe: Probe
) -> None:
    """[113] Damping by such a velocity would drive the arm: exactly zero goes out."""
    assert set_parameters(probe, plain.name, velocity_mismatch=0.005).successful
    first = len(plain.commands)
    plain.source.distorted = WRONG[kind]
    try:
        # So fast that even a velocity of zero is noticed before the arm has arrived.
        send_away(plain, probe, 0.6)
        wait_for_mode(probe, "safe", plain.name)
        # The arm has come to rest since, where the velocities are right again: it is held.
        assert any(not np.any(message.data) for message in plain.commands[first:])
        assert "the velocity of joint_" in plain.process.output.splitlines()[-1]
    finally:
        plain.source.distorted = None
        assert set_parameters(probe, plain.name, velocity_mismatch=0.0).successful


def test_an_arm_that_does_not_follow_its_command_is_a_fault(plain: Arm, probe: Probe) -> None:
    """[51] A driver that repeats the state of rest, or brakes that stay closed."""
    plain.source.still = True
    probe.send(plain.topic("joint_trajectory"), trajectory(0.3, seconds=1.0))
    wait_for_mode(probe, "safe", plain.name)
    sent = np.array([message.data for message in plain.commands])
    assert (np.abs(sent) <= MODEL.effort_limit + 1e-9).all()


def test_a_joint_that_stands_still_beside_others_is_a_fault(plain: Arm, probe: Probe) -> None:
    """[114] Its drive has stopped; the samples as a whole are not repeated."""
    there = float(plain.source.position[2] - POSTURE[2])
    if abs(there) > 1e-6:  # it stands still where the posture has it
        probe.send(plain.topic("joint_trajectory"), trajectory(0.0, seconds=2.0))
        probe.wait(
            lambda: (
                abs(plain.source.position[2] - POSTURE[2]) < 1e-6
                and np.abs(plain.source.velocity).max() < 1e-3
            ),
            "does not get there",
        )
    plain.source.frozen = 2
    try:
        probe.send(plain.topic("joint_trajectory"), trajectory(0.3, seconds=1.0))
        wait_for_mode(probe, "safe", plain.name)
        assert "joint_3 does not move: its joint states have repeated" in plain.process.output
    finally:
        plain.source.frozen = None


def set_out(arm: Arm, probe: Probe, state: str) -> None:
    """Order a motion: a retreat from a force, or a trajectory, slowed down or not."""
    if state == "retracting":
        wrench = WrenchStamped()
        wrench.header.frame_id = "link_6"
        wrench.wrench.force.y = 12.0
        probe.send(arm.topic("wrench"), wrench)
        assert probe.call(Trigger, arm.topic("retract")).success
        return
    if state == "slowed":
        assert probe.call(Trigger, arm.topic("slow")).success
    send_away(arm, probe)


def set_in_motion(arm: Arm, probe: Probe, state: str) -> None:
    set_out(arm, probe, state)
    sent = time.monotonic()

    def moves() -> bool:
        nonlocal sent
        if time.monotonic() > sent + 5.0:
            # What the case before did last may have been heard after the order, the motion may have
            # ended before it was seen, or the arm's own samples may have been late.
            put_in_order(arm, probe)
            set_out(arm, probe, state)
            sent = time.monotonic()
        return bool(np.abs(arm.source.velocity).max() > 0.02)

    probe.wait(moves, "does not move")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("order", ORDERS)
def test_every_order_stops_the_arm(order: str, state: str, plain: Arm, probe: Probe) -> None:
    """[52] Within ``stop_time`` of the answer the desired motion has ended, slowed down or not."""

    def is_ordered() -> bool:
        set_in_motion(plain, probe, state)
        if order == "contact":
            probe.send(plain.topic("contact"), Bool(data=True))
            probe.wait(lambda: "hold" in plain.process.output.splitlines()[-1], "does not react")
            return True
        if probe.call(Trigger, plain.topic(order)).success:
            return True
        put_in_order(plain, probe)  # the arm of the test was late again
        return False

    probe.wait(is_ordered, "cannot be ordered")
    ordered = probe.node.get_clock().now().nanoseconds * 1e-9
    stopped = ordered + STOP_TIME + LATE
    probe.wait(lambda: to_seconds(plain.errors[-1].header.stamp) > stopped + 0.1, "no more samples")
    # The error is what was sent less what is wanted.
    for message in plain.errors:
        stamp = to_seconds(message.header.stamp)
        if stamp > stopped:
            assert np.allclose(plain.source.sent[stamp][1], message.velocity, atol=1e-9)
    probe.send(plain.topic("contact"), Bool(data=False))
    # Resumed, the arm would go on with the motion, and the next test would wait for its end.
    probe.call(Trigger, plain.topic("cancel"))


def test_no_trajectory_begins_while_the_flag_is_raised(plain: Arm, probe: Probe) -> None:
    """[111] It is refused with the reason, and the arm stays where it is."""
    # With a trajectory to continue, the resume itself would be refused; there may be none.
    probe.call(Trigger, plain.topic("cancel"))
    probe.wait(lambda: np.abs(plain.source.velocity).max() < 1e-3, "does not stop")

    def is_refused() -> bool:
        # A flag that is late on a busy machine is a new contact, after which to resume again.
        assert probe.call(Trigger, plain.topic("resume")).success
        refused = count(probe.report(plain.name), "trajectories refused")
        probe.send(plain.topic("joint_trajectory"), trajectory(0.3, seconds=3.0))
        probe.wait_for_report(
            plain.name,
            lambda r: count(r, "trajectories refused") > refused,
            "is not refused",
        )
        return "the contact detector reports contact" in plain.process.output

    try:
        with probe.repeated(plain.topic("contact"), Bool(data=True)):
            probe.wait_for_report(
                plain.name, lambda r: r.message.startswith("contact"), "does not react"
            )

            probe.wait(is_refused, "is not refused for the contact")
            assert np.abs(plain.source.velocity).max() < 1e-3
    finally:
        probe.send(plain.topic("contact"), Bool(data=False))


def test_a_reaction_without_a_detector_is_reported(plain: Arm, probe: Probe) -> None:
    """[66] The warning appears at once, not only after a first verdict."""
    probe.wait_for_report(
        plain.name,
        lambda r: r.level >= 1 and ("verdict" in r.message or "detector" in r.message),
        "the missing detector is not told of",
    )


def test_every_contact_counts_after_a_silence_of_the_detector(plain: Arm, probe: Probe) -> None:
    """[56] A verdict ends with the silence: the next contact is a new one, and is reacted to."""
    for _ in range(2):
        probe.send(plain.topic("contact"), Bool(data=True))
        probe.wait_for_report(plain.name, lambda r: "contact" in r.message, "does not react")
        probe.wait_for_report(
            plain.name, lambda r: "verdict" in r.message, "the silence is not told of"
        )
        resume(probe, plain.name)
        probe.send(plain.topic("joint_trajectory"), trajectory(0.0, seconds=5.0))
        probe.wait_for_report(
            plain.name, lambda r: r.values["goal"] in ("moving", "reached"), "does not go on"
        )
    probe.call(Trigger, plain.topic("cancel"))  # the next test need not wait for its end


def test_a_speed_over_the_limit_that_lasts_is_a_fault(plain: Arm, probe: Probe) -> None:
    """[86] Whatever has led to it; each sample alone could be believed."""
    plain.source.turning = 2.5 * MODEL.velocity_limit[-1]
    try:
        report = wait_for_mode(probe, "safe", plain.name)
        assert "joint_7" in report.message
    finally:
        plain.source.turning = 0.0


def test_torque_that_swings_to_and_fro_is_a_fault(plain: Arm, probe: Probe) -> None:
    """[107] A loop that is not stable shakes the arm at its limits for ever."""
    plain.source.still = True
    plain.source.noise = NOISE
    report = wait_for_mode(probe, "safe", plain.name)
    assert "swung" in report.message


def test_a_brake_that_overshoots_is_weaker(plain: Arm, probe: Probe) -> None:
    """[132] The velocities of a joint change their sign under the brake."""
    plain.source.still = True
    plain.source.noise = NOISE
    wait_for_mode(probe, "safe", plain.name)
    probe.wait_for_report(plain.name, lambda r: WEAKENED in r.message, "brakes as before")
    assert WEAKENED in plain.process.output


def test_a_retreat_that_is_blocked_stops(plain: Arm, probe: Probe) -> None:
    """[128] The flag stays raised, and the arm does not follow."""
    assert set_parameters(probe, plain.name, contact_reaction="retract").successful
    wrench = WrenchStamped()
    wrench.header.frame_id = "link_7"
    wrench.wrench.force.z = 20.0
    plain.source.still = True
    plain.source.noise = 1e-3  # joint states that repeat would be another fault
    touched = probe.repeated(plain.topic("wrench"), wrench)
    flag = probe.repeated(plain.topic("contact"), Bool(data=True))
    try:
        with touched, flag:
            report = probe.wait_for_report(
                plain.name, lambda r: "and stopped: " in r.message, "presses on"
            )
    finally:
        assert set_parameters(probe, plain.name, contact_reaction="hold").successful
    assert "retracted along the force on link_7, and stopped: the arm cannot" in report.message
    # It is held where it is, so that it does not press.
    error = np.abs(plain.errors[-1].position).max()
    assert error < 1e-3, error


def test_gains_that_are_too_high_for_the_loop_are_refused(plain: Arm, probe: Probe) -> None:
    """[135] A rigid arm bears them at 1 kHz, but not at RATE."""
    result = set_parameters(probe, plain.name, damping_rate=200.0, bandwidth=[100.0])
    assert not result.successful
    assert "its gain margin is" in result.reason


def test_an_arm_that_leaves_its_target_is_a_fault(plain: Arm, probe: Probe) -> None:
    """[69, 86] Its elastic energy is published; beyond ``tracking_limit`` the torque is safe."""
    energy = probe.listen(Float64MultiArray, plain.topic("energy"))
    probe.wait(lambda: energy, "no energies")
    at_rest = energy[-1].data[0]
    plain.source.still = True
    start = np.array(plain.source.position)

    def pushed_to(offset: float) -> bool:
        now = np.array(plain.source.position)
        step = np.clip(start[0] + offset - now[0], -0.004, 0.004)
        now[0] += step
        plain.source.position = now
        return abs(step) < 1e-12

    probe.wait(lambda: pushed_to(0.05), "is not pushed")
    seen = len(energy)
    probe.wait(lambda: len(energy) > seen + 20, "no energies")
    assert energy[-1].data[0] > at_rest + 0.01
    probe.wait(lambda: pushed_to(0.7), "is not pushed")
    report = wait_for_mode(probe, "safe", plain.name)
    assert "joint_1" in report.message
