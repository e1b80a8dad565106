"""States in which a controller could damage the arm or hurt a person beside it.

Several controllers run side by side, each with joint states of its own. The numbers in brackets are
the rows of ``docs/faults.md``.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray
from std_srvs.srv import Trigger

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.nodes.messages import to_seconds
from rbd_control.simulation import arm7_urdf

from .bringup import BringUp, Process
from .controller_scenarios import COMMANDS, MODEL, NODE, POSTURE, WEIGHT, trajectory
from .fault_setting import resume, wait_for_mode
from .probe import Heard, Probe, Source

RATE = 200.0
"""Joint states per second."""

STOP_TIME = 0.1
"""The controller's default [s]."""

LATE = 0.05
"""Samples of a busy probe may be so far apart [s]; the stop begins with the first of them."""

UNLED = 0.2
"""Time without a new desired position after which an arm stands still [s]."""

WEAK = 5.0
"""Effort limit of joint_2 on the arm that cannot carry itself [N·m]; its weight needs more."""


def continuous(urdf: str) -> str:
    """Return the arm with a last joint that turns without end."""
    before, _, after = urdf.partition('<joint name="joint_7" type="revolute">')
    limit = re.compile(r'<limit lower="[^"]+" upper="[^"]+"')
    return f'{before}<joint name="joint_7" type="continuous">{limit.sub("<limit", after, count=1)}'


def weak(urdf: str) -> str:
    """Return the arm with a second joint that has no torque to spare."""
    before, name, after = urdf.partition('<joint name="joint_2"')
    limited = re.sub(r'effort="[0-9.]+"', f'effort="{WEAK}"', after, count=1)
    return f"{before}{name}{limited}"


ARMS: dict[str, dict[str, Any]] = {
    "plain": {"urdf": "arm7"},
    "compensated": {"urdf": "arm7", "gravity_compensated": True, "safe_torque": "zero"},
    "endless": {"robot_description": continuous(arm7_urdf())},
    "weak": {"robot_description": weak(arm7_urdf())},
    "limited": {"urdf": "arm7"},
    "learning": {"urdf": "arm7", "adaptive": True, "largest_payload_mass": 3.0},
}


class Follower(Source):
    """An arm that is where it is wanted one sample later; ``still`` makes it stay where it is."""

    errors: Heard
    sent: dict[float, tuple[np.ndarray, np.ndarray]]
    """Positions and velocities by the stamp under which they were sent."""
    answered = 0.0
    """Stamp of the last tracking error that was followed: each is followed once."""
    still = False
    noise = 0.0
    turning = 0.0
    """Speed at which the last joint turns over the wrap of its encoder [rad/s]."""

    def message(self, stamp: Any) -> JointState:
        if self.turning:
            self.position = np.array(self.position)
            self.velocity = np.zeros(len(self.names))
            turned = self.position[-1] + self.turning / RATE
            self.position[-1] = (turned + pi) % (2.0 * pi) - pi
            self.velocity[-1] = self.turning
        elif self.errors and not self.still:
            # The error is what was sent under its stamp less what is wanted.
            last = self.errors[-1]
            answered = to_seconds(last.header.stamp)
            if answered > self.answered:
                position, velocity = self.sent[answered]
                self.position = position - np.array(last.position)
                self.velocity = velocity - np.array(last.velocity)
                self.answered = answered
            elif to_seconds(stamp) > answered + UNLED:
                self.velocity = np.zeros(len(self.names))
            else:  # the answer is late: the arm moves on, and no sample is like the one before
                self.position = np.array(self.position) + np.array(self.velocity) / RATE
        made = super().message(stamp)
        now = to_seconds(made.header.stamp)
        self.sent[now] = np.array(made.position), np.array(made.velocity)
        if self.noise:
            made.velocity = [x + self.noise * np.sin(7.0 * len(self.errors)) for x in made.velocity]
        return made


@dataclass
class Arm:
    """One controller with its inputs and outputs."""

    name: str
    process: Process
    source: Follower
    commands: Heard
    errors: Heard

    @property
    def torque(self) -> np.ndarray:
        return np.array(self.commands[-1].data)

    def topic(self, name: str) -> str:
        return f"{self.name}/{name}"


@pytest.fixture(scope="module")
def arms(bring_up: BringUp, probe: Probe) -> Callable[[str], Arm]:
    """Return an arm of the table, started at its first use."""
    made: dict[str, Arm] = {}

    def arm(name: str) -> Arm:
        if name not in made:
            joint_states = f"{name}/joint_states"
            process = bring_up.start(
                NODE,
                {"timeout": 1.0, **ARMS[name]},
                ["-r", f"__node:={name}", "-r", f"joint_states:={joint_states}"]
                + ["-r", f"{COMMANDS}:={name}/commands"]
                + ["-r", f"contact_detector/contact:={name}/contact"]
                + ["-r", f"contact_detector/external_wrench:={name}/wrench"],
            )
            position = POSTURE.copy()
            if name == "limited":
                position[3] = MODEL.lower_limit[3] - 0.1
            if name == "endless":
                position[6] = pi - 0.5
            source = Follower(MODEL.joint_names, position, np.zeros(MODEL.nv))
            source.sent = {}
            source.errors = probe.listen(JointState, f"{name}/tracking_error")
            probe.stream(source, joint_states, RATE)
            commands = probe.listen(Float64MultiArray, f"{name}/commands")
            made[name] = Arm(name, process, source, commands, source.errors)
            wait_for_mode(probe, "hold", name)
        return made[name]

    return arm


@pytest.fixture
def single(arms: Callable[[str], Arm]) -> Iterator[Callable[[str], Arm]]:
    """Return an arm of the table for one test; it ends with the test, to leave time to others."""
    started = []

    def arm(name: str) -> Arm:
        started.append(arms(name))
        return started[-1]

    yield arm
    for each in started:
        each.process.signal(signal.SIGTERM)
        assert each.process.wait() == 0
        each.source.on = False


@pytest.fixture
def plain(arms: Callable[[str], Arm], probe: Probe) -> Iterator[Arm]:
    arm = arms("plain")
    if probe.report(arm.name).values["mode"] == "safe":
        # The arm of the tests may have been late after the last one: it is no part of this one.
        resume(probe, arm.name)
    # The arm may still move: made still then, it would be one that repeats its samples.
    probe.wait(lambda: np.abs(arm.source.velocity).max() < 1e-3, "does not come to rest")
    yield arm
    arm.source.still, arm.source.noise = True, 0.0
    arm.source.velocity = np.zeros(MODEL.nv)
    # Not where it was: the same sample again would be the one that repeats. What the controller
    # wanted before the fault is not followed any more.
    arm.source.position = np.array(arm.source.position) + 1e-4
    arm.source.answered = to_seconds(arm.errors[-1].header.stamp)
    resume(probe, arm.name)
    arm.source.still = False


def test_safe_zero_on_an_arm_that_carries_itself_is_zero(
    single: Callable[[str], Arm], probe: Probe
) -> None:
    """[49] Minus the gravity torque would cancel the arm's own compensation; it would fall."""
    arm = single("compensated")
    probe.wait(lambda: np.allclose(arm.torque, 0.0, atol=1e-6), "does not hold")
    first = len(arm.commands)
    arm.source.still = True
    arm.source.position = arm.source.position + 1.0
    wait_for_mode(probe, "safe", arm.name)
    sent = len(arm.commands)
    probe.wait(lambda: len(arm.commands) > sent + 50, "sends nothing")
    assert not np.any(arm.commands[-1].data)
    largest = np.abs([message.data for message in arm.commands[first:]]).max()
    assert largest < 0.1 * np.abs(WEIGHT).max()


def test_a_continuous_joint_turns_over_pi(single: Callable[[str], Arm], probe: Probe) -> None:
    """[50] Mode and torque do not change where the encoder wraps."""
    arm = single("endless")
    assert probe.call(Trigger, arm.topic("float")).success
    wait_for_mode(probe, "float", arm.name)
    model = Model.from_urdf(continuous(arm7_urdf()))
    first = len(arm.commands)
    arm.source.turning = 1.0
    probe.wait(lambda: -2.5 < arm.source.position[-1] < -2.0, "does not turn")
    weight = gravity_torque(model, np.array(arm.source.position))
    assert probe.report(arm.name).values["mode"] == "float"
    sent = np.array([message.data for message in arm.commands[first:]])
    # The wrist weighs little; a step of 2 pi would ask for thousands of N·m.
    assert np.abs(sent - weight).max() < 5.0


def send_away(arm: Arm, probe: Probe) -> None:
    """Send the arm to the farther of two postures, at a mean speed of 0.1 rad/s."""
    here = float(arm.source.position[0] - POSTURE[0])
    there = 0.3 if here < 0.15 else 0.0
    motion = trajectory(there, seconds=10.0 * abs(there - here))
    probe.send(arm.topic("joint_trajectory"), motion)


def test_repeated_samples_of_a_moving_arm_are_a_fault(plain: Arm, probe: Probe) -> None:
    """[51] Within 20 ms, on the stamps: no encoder repeats a velocity to the last digit."""
    send_away(plain, probe)
    probe.wait(lambda: np.abs(plain.source.velocity).max() > 0.05, "does not move")
    plain.source.still = True
    repeated = probe.node.get_clock().now().nanoseconds * 1e-9
    wait_for_mode(probe, "safe", plain.name)
    followed = [
        to_seconds(message.header.stamp)
        for message in plain.errors
        if np.any(message.position) and to_seconds(message.header.stamp) > repeated
    ]
    # The sample under way when the arm was stopped counts from the next one on.
    assert not followed or followed[-1] - repeated < 0.020 + 2.0 / RATE


def test_an_arm_that_does_not_follow_its_command_is_a_fault(plain: Arm, probe: Probe) -> None:
    """[51] A driver that repeats the state of rest, or brakes that stay closed."""
    plain.source.still = True
    probe.send(plain.topic("joint_trajectory"), trajectory(0.3, seconds=1.0))
    wait_for_mode(probe, "safe", plain.name)
    sent = np.array([message.data for message in plain.commands])
    assert (np.abs(sent) <= MODEL.effort_limit + 1e-9).all()


ORDERS = ("hold", "cancel", "contact")
STATES = ("following", "slowed", "retracting")


def set_in_motion(arm: Arm, probe: Probe, state: str) -> None:
    if state == "retracting":
        wrench = WrenchStamped()
        wrench.header.frame_id = "link_6"
        wrench.wrench.force.y = 12.0
        probe.send(arm.topic("wrench"), wrench)
        assert probe.call(Trigger, arm.topic("retract")).success
    else:
        if state == "slowed":
            assert probe.call(Trigger, arm.topic("slow")).success
        send_away(arm, probe)
    sent = time.monotonic()

    def moves() -> bool:
        nonlocal sent
        if state != "retracting" and time.monotonic() > sent + 5.0:
            # What the case before did last may have been heard after the trajectory.
            probe.call(Trigger, arm.topic("resume"))
            if state == "slowed":
                probe.call(Trigger, arm.topic("slow"))
            send_away(arm, probe)
            sent = time.monotonic()
        return bool(np.abs(arm.source.velocity).max() > 0.02)

    probe.wait(moves, "does not move")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("order", ORDERS)
def test_every_order_stops_the_arm(order: str, state: str, plain: Arm, probe: Probe) -> None:
    """[52] Within ``stop_time`` of the answer the desired motion has ended, slowed down or not."""
    set_in_motion(plain, probe, state)
    if order == "contact":
        probe.send(plain.topic("contact"), Bool(data=True))
        probe.wait(lambda: "hold" in plain.process.output.splitlines()[-1], "does not react")
    else:
        assert probe.call(Trigger, plain.topic(order)).success
    ordered = probe.node.get_clock().now().nanoseconds * 1e-9
    stopped = ordered + STOP_TIME + LATE
    probe.wait(lambda: to_seconds(plain.errors[-1].header.stamp) > stopped + 0.1, "no more samples")
    # The error is what was sent less what is wanted.
    for message in plain.errors:
        stamp = to_seconds(message.header.stamp)
        if stamp > stopped:
            assert np.allclose(plain.source.sent[stamp][1], message.velocity, atol=1e-9)
    probe.send(plain.topic("contact"), Bool(data=False))


def test_a_joint_without_room_leaves_the_others_their_damping(
    single: Callable[[str], Arm], probe: Probe
) -> None:
    """[54] joint_2 cannot even carry itself; all others are damped, none is pushed on."""
    arm = single("weak")
    arm.source.still = True
    arm.source.position = arm.source.position + 1.0
    wait_for_mode(probe, "safe", arm.name)
    arm.source.velocity = np.array([0.5, 0.0, -0.5, 0.5, -0.5, 0.5, -0.5])
    arm.source.noise = 1e-3
    first = len(arm.commands)
    probe.wait(lambda: len(arm.commands) > first + 50, "sends nothing")
    weight = gravity_torque(MODEL, np.array(arm.source.position))
    damping = (arm.torque - weight) * arm.source.velocity
    assert (damping <= 1e-9).all()
    assert (damping[[0, 2, 3, 4]] < -1e-3).all()
    assert abs(arm.torque[1]) <= WEAK + 1e-9


def test_a_position_limit_closes_behind_the_arm(single: Callable[[str], Arm], probe: Probe) -> None:
    """[57] Activated beyond it, the arm is not pushed; once back, it is kept from going there."""
    arm = single("limited")
    outside = np.array(arm.source.position)

    def pushed() -> float:
        return float(arm.torque[3] - gravity_torque(MODEL, np.array(arm.source.position))[3])

    def move_to(position: float) -> None:
        q = np.array(arm.source.position)
        while abs(position - q[3]) > 1e-9:
            q = q.copy()
            q[3] += np.clip(position - q[3], -0.004, 0.004)
            arm.source.position = q
            seen = len(arm.errors)
            probe.wait(lambda n=seen: len(arm.errors) > n + 1, "does not answer")

    arm.source.still = True
    assert probe.call(Trigger, arm.topic("float")).success
    wait_for_mode(probe, "float", arm.name)
    assert abs(pushed()) < 1e-3
    move_to(MODEL.lower_limit[3] + 0.2)
    move_to(outside[3])
    probe.wait(lambda: pushed() > 1.0, "the limit stays where the arm was")


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
    plain.source.noise = 1.0  # 23 Hz at RATE
    report = wait_for_mode(probe, "safe", plain.name)
    assert "swung" in report.message


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


def without_effort_limit(urdf: str) -> str:
    """Return the arm with a second joint whose effort limit was not filled in."""
    before, name, after = urdf.partition('<joint name="joint_2"')
    return before + name + re.sub(r'effort="[0-9.]+"', 'effort="0"', after, count=1)


def test_no_activation_without_an_effort_limit(bring_up: BringUp, probe: Probe) -> None:
    """[35] The joint is named; with a limit from the parameter file the arm is held."""
    source = Source(MODEL.joint_names, POSTURE, np.zeros(MODEL.nv))
    probe.stream(source, "unknown/joint_states", RATE)
    remapped = ["-r", "joint_states:=unknown/joint_states", "-r", f"{COMMANDS}:=unknown/commands"]
    commands = probe.listen(Float64MultiArray, "unknown/commands")
    description = {"robot_description": without_effort_limit(arm7_urdf()), "timeout": 1.0}
    refused = bring_up.start(NODE, description, ["-r", "__node:=unknown", *remapped])
    probe.wait(lambda: "no effort limit for joint_2" in refused.output, "is not refused")
    assert not commands
    refused.kill()
    limited = {**description, "effort_limit": 100.0}
    known = bring_up.start(NODE, limited, ["-r", "__node:=known", *remapped])
    wait_for_mode(probe, "hold", "known")
    known.kill()
    source.on = False


def test_a_required_detector_is_waited_for(bring_up: BringUp, probe: Probe) -> None:
    """[66] Without it the controller is not activated."""
    source = Source(MODEL.joint_names, POSTURE, np.zeros(MODEL.nv))
    probe.stream(source, "alone/joint_states", RATE)
    process = bring_up.start(
        NODE,
        {"urdf": "arm7", "timeout": 1.0, "require_detector": True},
        ["-r", "__node:=alone", "-r", "joint_states:=alone/joint_states"]
        + ["-r", f"{COMMANDS}:=alone/commands", "-r", "contact_detector/contact:=alone/contact"],
    )
    report = probe.wait_for_report(
        "alone", lambda r: "waiting for" in r.message and "detector" in r.message, "does not wait"
    )
    assert report.values["state"] == "inactive"
    flag = probe.node.create_publisher(Bool, "alone/contact", 10)
    timer = probe.node.create_timer(0.02, lambda: flag.publish(Bool()))
    wait_for_mode(probe, "hold", "alone")
    probe.node.destroy_timer(timer)
    process.kill()
    source.on = False


def test_estimates_keep_their_bounds(single: Callable[[str], Arm], probe: Probe) -> None:
    """[87] An arm that moves at random teaches no payload beyond ``largest_payload_mass``."""
    arm = single("learning")
    arm.source.still, arm.source.noise = True, 0.3
    most = ARMS["learning"]["largest_payload_mass"]
    for _ in range(4):
        learned = float(probe.report(arm.name).values["payload learned [kg]"])
        assert 0.0 <= learned <= most + 1e-9
