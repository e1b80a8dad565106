"""Controllers of arms with a peculiar description, state or parameter.

The numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from geometry_msgs.msg import WrenchStamped
from std_msgs.msg import Bool, Float64MultiArray
from std_srvs.srv import Trigger

from rbd_control.dynamics import Model, frame_placement, gravity_torque, mass_matrix
from rbd_control.simulation import arm7_urdf

from .bringup import REPORT_PERIOD, BringUp
from .controller_scenarios import COMMANDS, MODEL, NODE, POSTURE, STILL, WEIGHT, trajectory
from .fault_setting import wait_for_mode
from .follower_arms import ALONE, ARMS, RATE, WEAK, Arm, Arms, continuous
from .probe import Probe, Source


@pytest.fixture(scope="module")
def arms(bring_up: BringUp, probe: Probe) -> Arms:
    return Arms(bring_up, probe)


@pytest.fixture
def single(arms: Arms) -> Iterator[Callable[[str], Arm]]:
    """Return an arm of the table for one test; it ends with the test, to leave time to others."""
    started = []

    def arm(name: str) -> Arm:
        started.append(arms.arm(name))
        return started[-1]

    yield arm
    for each in started:
        arms.end(each)


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


def test_a_joint_without_room_leaves_the_others_their_damping(
    single: Callable[[str], Arm], probe: Probe
) -> None:
    """[54] joint_2 cannot even carry itself; all others are braked in full, with one rate."""
    arm = single("weak")
    arm.source.still = True
    arm.source.position = arm.source.position + 1.0
    wait_for_mode(probe, "safe", arm.name)
    arm.source.velocity = np.array([0.5, 0.0, -0.5, 0.5, -0.5, 0.5, -0.5])
    arm.source.noise = 1e-3
    first = len(arm.commands)
    probe.wait(lambda: len(arm.commands) > first + 50, "sends nothing")
    weight = gravity_torque(MODEL, np.array(arm.source.position))
    momentum = mass_matrix(MODEL, np.array(arm.source.position)) @ arm.source.velocity
    others = [0, 2, 3, 4, 5, 6]
    brake = (arm.torque - weight)[others]
    rate = -(brake @ momentum[others]) / (momentum[others] @ momentum[others])
    assert rate > 0.1
    # The noise of the velocities changes the momentum by up to 1e-3 of the inertia of the arm.
    np.testing.assert_allclose(brake, -rate * momentum[others], atol=3e-3 * rate)
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


def test_no_trajectory_leads_through_a_posture_that_is_too_heavy(
    single: Callable[[str], Arm], probe: Probe
) -> None:
    """[117] joint_2 can hold the arm at both ends, but not with the elbow straight between them."""
    arm = single("burdened")
    begin = np.array(arm.source.position)

    def send(elbow: float) -> None:
        message = trajectory(0.0, seconds=5.0)
        message.points[0].positions = [*begin[:3].tolist(), elbow, *begin[4:].tolist()]
        probe.send(arm.topic("joint_trajectory"), message)

    send(1.4)
    reason = "too heavy: joint_2 cannot hold the arm on the way to the last point, after"
    probe.wait(lambda: reason in arm.process.output, "is not refused")
    assert probe.report(arm.name).values["mode"] == "hold"
    send(begin[3] - 0.1)
    probe.wait_for_report(arm.name, lambda r: r.values["goal"] == "moving", "does not move")


def test_a_touched_upper_arm_retracts(single: Callable[[str], Arm], probe: Probe) -> None:
    """[125] Its origin lies on the axes of the joints before it, so its other end is moved."""
    arm = single("plain")
    wrench = WrenchStamped()
    wrench.header.frame_id = "link_2"
    wrench.wrench.force.x = 20.0
    begin = POSTURE.copy()
    direction = frame_placement(MODEL, begin, "link_2")[:3, 0]

    def retracts() -> bool:
        """Return whether the force was known at the order, which may be delivered first."""
        answer = probe.call(Trigger, arm.topic("retract"))
        report = probe.wait_for_report(arm.name, lambda r: "retract" in r.message, "does not obey")
        return answer.success and "retracted along the force on link_2" in report.message

    def way() -> float:
        q = np.array(arm.source.position)
        there, here = (frame_placement(MODEL, x, "link_3")[:3, 3] for x in (q, begin))
        return float((there - here) @ direction)

    with probe.repeated(arm.topic("wrench"), wrench):
        probe.wait(retracts, "does not retract")
    # The damping of the inverse shortens a way of 50 mm with a lever of 0.2 m.
    probe.wait(lambda: way() > 0.025, "does not move along the force")


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
    description = {**ALONE, "robot_description": without_effort_limit(arm7_urdf())}
    refused = bring_up.start(NODE, description, ["-r", "__node:=unknown", *remapped])
    probe.wait(lambda: "no effort limit for joint_2" in refused.output, "is not refused")
    assert not commands
    refused.kill()
    limited = {**description, "effort_limit": 100.0}
    known = bring_up.start(NODE, limited, ["-r", "__node:=known", *remapped])
    wait_for_mode(probe, "hold", "known")
    known.kill()
    source.on = False


def test_limits_of_a_mimic_joint_limit_its_leader(bring_up: BringUp, probe: Probe) -> None:
    """[119] The leader may move by 2.9 rad, and the joint that follows it by 0.5 rad."""
    before, name, after = arm7_urdf().partition('<joint name="joint_7" type="revolute">')
    limit, mimic = 'lower="-0.5" upper="0.5"', '<mimic joint="joint_5"/>'
    description = (
        before + name + mimic + re.sub('lower="[^"]+" upper="[^"]+"', limit, after, count=1)
    )
    joints = list(MODEL.joint_names[:-1])
    source = Source(tuple(joints), POSTURE[:-1], np.zeros(len(joints)))
    probe.stream(source, "coupled/joint_states", RATE)
    process = bring_up.start(
        NODE,
        {**ALONE, **STILL, "robot_description": description, "joints": joints},
        ["-r", "__node:=coupled", "-r", "joint_states:=coupled/joint_states"]
        + ["-r", f"{COMMANDS}:=coupled/commands"],
    )
    wait_for_mode(probe, "hold", "coupled")
    message = trajectory(0.5, seconds=5.0)
    message.joint_names.pop()
    message.points[0].positions.pop()
    probe.send("coupled/joint_trajectory", message)
    reason = "joint 'joint_5': position 0.8 is outside its limits -0."
    probe.wait(lambda: reason in process.output, "is not refused")
    process.kill()
    source.on = False


def test_a_required_detector_is_waited_for(bring_up: BringUp, probe: Probe) -> None:
    """[66] Without it the controller is not activated."""
    source = Source(MODEL.joint_names, POSTURE, np.zeros(MODEL.nv))
    probe.stream(source, "alone/joint_states", RATE)
    process = bring_up.start(
        NODE,
        {**ALONE, "urdf": "arm7", "require_detector": True},
        ["-r", "__node:=alone", "-r", "joint_states:=alone/joint_states"]
        + ["-r", f"{COMMANDS}:=alone/commands", "-r", "contact_detector/contact:=alone/contact"],
    )
    report = probe.wait_for_report(
        "alone", lambda r: "waiting for" in r.message and "detector" in r.message, "does not wait"
    )
    assert report.values["state"] == "inactive"
    with probe.repeated("alone/contact", Bool()):
        wait_for_mode(probe, "hold", "alone")
    process.kill()
    source.on = False


def test_estimates_keep_their_bounds(single: Callable[[str], Arm], probe: Probe) -> None:
    """[87] An arm that moves at random teaches no payload beyond ``largest_payload_mass``."""
    arm = single("learning")
    arm.source.still, arm.source.noise = True, 0.3
    most = ARMS["learning"]["largest_payload_mass"]
    for _ in range(round(4.0 / REPORT_PERIOD)):
        learned = float(probe.report(arm.name).values["payload learned [kg]"])
        assert 0.0 <= learned <= most + 1e-9
