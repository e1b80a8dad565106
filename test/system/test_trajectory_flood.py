"""Large trajectories, good and bad, while the arm moves: torque goes on, and so does the motion.

The numbers in brackets are those of the fault list.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pytest
from rclpy.duration import Duration
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from .bringup import BringUp, Process
from .controller_scenarios import (
    MODEL,
    NODE,
    PARAMETERS,
    POSTURE,
    holds,
    resting,
    trajectory,
)
from .fault_setting import is_of_the_machine, resume
from .probe import Probe, Source

TOPIC = f"{NODE}/joint_trajectory"

RATE = 500.0
"""Rate of the joint states [Hz]."""


@dataclass(frozen=True)
class Waves:
    """Serialized trajectories."""

    good: bytes
    bad: bytes
    """The same trajectory with a last point beyond the limits."""
    huge: bytes
    """Fifty times as many points as are allowed."""


@pytest.fixture(scope="module")
def waves() -> Waves:
    """Made before there are joint states: serializing would keep their publisher waiting."""
    return Waves(wave(2000), wave(2000, last=9.0), wave(100_000))


@pytest.fixture(scope="module")
def process(bring_up: BringUp, waves: Waves) -> Process:
    # A report is about one second, as by default.
    return bring_up.start(NODE, PARAMETERS, is_forked=False)


@pytest.fixture(scope="module")
def source(probe: Probe, process: Process) -> Source:
    source = probe.stream(resting(), rate=RATE)
    holds(probe, source)
    return source


def wave(points: int, **spoilt: float) -> bytes:
    """Return a slow wave of all joints as a serialized trajectory.

    Args:
        points: number of points, 10 ms apart.
        spoilt: ``last``, the position of all joints in the last point [rad].
    """
    message = JointTrajectory(joint_names=list(MODEL.joint_names))
    for k in range(points):
        due = 0.01 * (k + 1)
        point = JointTrajectoryPoint()
        point.positions = [float(x) for x in POSTURE + 0.02 * np.sin(due)]
        point.time_from_start = Duration(seconds=due).to_msg()
        message.points.append(point)
    if "last" in spoilt:
        message.points[-1].positions = [spoilt["last"]] * MODEL.nv
    return serialize_message(message)


def refused(probe: Probe) -> int:
    return int(probe.report(NODE).values["trajectories refused"])


def test_a_flood_of_bad_ones(probe: Probe, source: Source, waves: Waves) -> None:
    """[40] 2,000 points that fail the last check, and 100,000: the motion goes on undisturbed."""
    errors = probe.listen(JointState, f"{NODE}/tracking_error")
    before = refused(probe)
    bad = waves.bad
    flood = [bad, serialize_message(JointTrajectory()), waves.huge, bad[: len(bad) // 2]]
    publisher = probe.node.create_publisher(JointTrajectory, TOPIC, 50)
    probe.wait(publisher.get_subscription_count, "nobody listens")
    probe.send(TOPIC, trajectory(0.1, seconds=60.0))
    probe.wait_for_report(NODE, lambda r: r.values["goal"] == "moving", "does not move")
    first, began = len(errors), time.monotonic()
    sent = 0
    while time.monotonic() < began + 5.0:
        publisher.publish(flood[sent % len(flood)])
        sent += 1
        time.sleep(0.05)
    report = probe.report(NODE)
    assert report.values["mode"] == "follow"
    assert report.values["goal"] == "moving"
    # Those that came within the planning of another may have been superseded, but not all.
    assert refused(probe) > before + sent // 4
    desired = -np.array([message.position for message in errors[first:]])
    assert (np.diff(desired, axis=0) >= 0.0).all()  # it never goes back
    # Nor does it stand: of the cubic over 0.1 rad in 60 s this is what 5 s at its begin make.
    assert desired[-1, 0] - desired[0, 0] > 0.5 * 0.1 * 3.0 * (5.0 / 60.0) ** 2
    assert probe.call(Trigger, f"{NODE}/cancel").success


def test_gaps_between_torques(probe: Probe, source: Source, process: Process, waves: Waves) -> None:
    """[27, 48] Gaps with the flood are at most twice the gaps without it, plus 5 ms.

    The stamps of the tracking error are those of the joint states, so that a gap is one of the
    controller and not of this test. On a busy machine gaps without the flood may be as large.
    """
    publisher = probe.node.create_publisher(JointTrajectory, TOPIC, 50)
    probe.wait(publisher.get_subscription_count, "nobody listens")
    flood = [waves.good, waves.huge, waves.bad]

    def largest_latency(flooded: bool) -> float:
        """Worst time from the receipt of a joint state to its torque, by the node's account."""
        probe.report(NODE)
        worst = []
        for _ in range(4):
            deadline = time.monotonic() + 0.9
            while flooded and time.monotonic() < deadline:
                publisher.publish(flood[len(worst) % len(flood)])
                time.sleep(0.1)
            worst.append(float(probe.report(NODE).values["receipt to publication maximum [ms]"]))
        return float(np.median(worst))

    tries = []
    begin = len(process.output)
    for _ in range(4):
        tries.append((largest_latency(False), largest_latency(True)))
        if tries[-1][1] < 2.0 * tries[-1][0] + 5.0:
            break
    else:
        raise AssertionError(f"latency without and with a flood [ms]: {tries}")
    print(f"worst latency without and with the flood [ms]: {tries}")
    assert "safe torque" not in process.output[begin:]
    probe.call(Trigger, f"{NODE}/cancel")


def test_a_jump_of_the_clock_discards_what_is_being_planned(
    probe: Probe, source: Source, process: Process, waves: Waves
) -> None:
    """[25] A restarted simulator may have moved the arm: nothing of before is followed."""
    publisher = probe.node.create_publisher(JointTrajectory, TOPIC, 50)
    probe.wait(publisher.get_subscription_count, "nobody listens")

    def is_discarded() -> bool:
        for _ in range(3):
            publisher.publish(waves.good)
        source.shift -= 1.0
        report = probe.report(NODE)
        if is_of_the_machine(report, PARAMETERS["timeout"]):
            resume(probe)
        probe.call(Trigger, f"{NODE}/cancel")
        return "is discarded: the clock of the joint states jumped" in process.output

    probe.wait(is_discarded, "is followed")


def test_a_stop_discards_what_is_being_planned(
    probe: Probe, source: Source, process: Process, waves: Waves
) -> None:
    """[39, 40] A hold order also stops the arm while large trajectories are in transit."""
    publisher = probe.node.create_publisher(JointTrajectory, TOPIC, 50)
    probe.wait(publisher.get_subscription_count, "nobody listens")
    held = 0

    def is_held_ten_times() -> bool:
        nonlocal held
        for _ in range(5):
            publisher.publish(waves.good)
        answer, report = probe.call(Trigger, f"{NODE}/hold"), probe.report(NODE)
        if answer.success and report.values["mode"] == "hold":
            held += 1
            assert probe.call(Trigger, f"{NODE}/resume").success
        else:
            assert is_of_the_machine(report, PARAMETERS["timeout"]), report
            resume(probe)
        probe.call(Trigger, f"{NODE}/cancel")
        return held == 10

    probe.wait(is_held_ten_times, "is not held")
    assert "is discarded: hold" in process.output or "resume first" in process.output
