"""Joint states and trajectories that arrive faster than they can be processed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from rclpy.duration import Duration
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from .bringup import BringUp, Process
from .controller_setting import (
    MODEL,
    NODE,
    PARAMETERS,
    POSTURE,
    WEIGHT,
    count,
    holds,
    is_of_the_machine,
    resting,
    resume,
    torques,
    trajectory,
)
from .probe import Probe, Source

TOPIC = f"{NODE}/joint_trajectory"
RATE = 500.0
"""Rate of the joint states [Hz]."""
COUNT = 20_000
"""Number of joint states in a flood."""

ACCOUNTS = (
    "answered",
    "skipped for a newer one",
    "overwritten in the queue (estimated)",
    "lost on the way",
)


@dataclass(frozen=True)
class Waves:
    """Serialized trajectories."""

    good: bytes
    bad: bytes
    """The same trajectory with a last point beyond the limits."""
    huge: bytes
    """Fifty times as many points as are allowed."""


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


@pytest.fixture(scope="module")
def waves() -> Waves:
    """Made before there are joint states: serializing would keep their publisher waiting."""
    return Waves(wave(2000), wave(2000, last=9.0), wave(100_000))


@pytest.fixture(scope="module")
def process(bring_up: BringUp, waves: Waves) -> Process:
    # A process of its own: the reports of a second give it time to work off its queue.
    return bring_up.start(NODE, PARAMETERS, is_forked=False)


@pytest.fixture(scope="module")
def source(probe: Probe, process: Process) -> Source:
    source = probe.stream(resting(), rate=RATE)
    holds(probe)
    return source


def test_every_joint_state_is_accounted_for(probe: Probe, process: Process, source: Source) -> None:
    """Answered, skipped, overwritten or lost: together as many as were published."""
    commands = torques(probe)

    def counts() -> np.ndarray:
        values = probe.report(NODE).values
        return np.array([int(values[key]) for key in ACCOUNTS])

    source.on = False
    probe.report(NODE)
    before, first = counts(), len(commands)
    clock = probe.node.get_clock()
    for _ in range(COUNT):
        source.publishers[0].publish(source.message(clock.now().to_msg()))
    source.on = True
    probe.report(NODE)
    source.on = False
    probe.report(NODE)
    counted = counts() - before
    # The joint states between the flood and its end are few beside it.
    assert counted.sum() > 0.98 * COUNT
    assert counted.sum() < 1.05 * COUNT
    assert counted[0] > 0
    sent = np.array([message.data for message in commands[first:]])
    # The last ones are answered, and what is silent then is a fault of its own.
    assert all(np.allclose(x, WEIGHT, atol=1e-6) or not x.any() for x in sent)
    assert "Traceback" not in process.output
    source.on = True
    resume(probe)


def test_a_flood_of_bad_trajectories(probe: Probe, source: Source, waves: Waves) -> None:
    """2,000 points that fail the last check, and 100,000: the motion goes on."""
    errors = probe.listen(JointState, f"{NODE}/tracking_error")
    before = count(probe.report(NODE), "trajectories refused")
    bad = waves.bad
    flood = [bad, serialize_message(JointTrajectory()), waves.huge, bad[: len(bad) // 2]]
    publisher = probe.node.create_publisher(JointTrajectory, TOPIC, 50)
    probe.wait(publisher.get_subscription_count, "nobody listens")
    probe.send(TOPIC, trajectory(0.1, seconds=60.0))
    probe.wait_for_report(NODE, lambda r: r.values["goal"] == "moving", "does not move")
    first, began = len(errors), time.monotonic()
    sent = 0
    while time.monotonic() < began + 3.0:
        publisher.publish(flood[sent % len(flood)])
        sent += 1
        time.sleep(0.05)
    report = probe.report(NODE)
    assert report.values["mode"] == "follow"
    assert report.values["goal"] == "moving"
    # Those that came within the planning of another may have been superseded, but not all.
    assert count(report, "trajectories refused") > before + sent // 4
    desired = -np.array([message.position for message in errors[first:]])
    assert (np.diff(desired, axis=0) >= 0.0).all()  # it never goes back
    # Nor does it stand: of the cubic over 0.1 rad in 60 s this is what 3 s at its begin make.
    assert desired[-1, 0] - desired[0, 0] > 0.5 * 0.1 * 3.0 * (3.0 / 60.0) ** 2
    assert probe.call(Trigger, f"{NODE}/cancel").success


def test_large_trajectories_delay_no_torque(
    probe: Probe, source: Source, process: Process, waves: Waves
) -> None:
    """Latency with the flood is at most twice the latency without it, plus 5 ms.

    It is that of the controller and not of this test. On a busy machine the latency without the
    flood may be as large.
    """
    publisher = probe.node.create_publisher(JointTrajectory, TOPIC, 50)
    probe.wait(publisher.get_subscription_count, "nobody listens")
    flood = [waves.good, waves.huge, waves.bad]

    def largest_latency(flooded: bool) -> float:
        """Worst time from the receipt of a joint state to its torque, by the node's account."""
        probe.report(NODE)
        worst: list[float] = []
        for _ in range(3):
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


def test_a_stop_discards_what_is_being_planned(
    probe: Probe, source: Source, process: Process, waves: Waves
) -> None:
    """A hold order, or a jump of the clock, while large trajectories are in transit."""
    publisher = probe.node.create_publisher(JointTrajectory, TOPIC, 50)
    probe.wait(publisher.get_subscription_count, "nobody listens")

    def is_discarded(jump: bool) -> bool:
        for _ in range(3):
            publisher.publish(waves.good)
        if jump:
            source.shift -= 1.0
        else:
            assert probe.call(Trigger, f"{NODE}/hold").success
        report = probe.report(NODE)
        if jump or is_of_the_machine(report):
            probe.call(Trigger, f"{NODE}/cancel")
        else:
            assert report.values["mode"] == "hold"
        resume(probe)
        reason = "the clock of the joint states jumped" if jump else "hold"
        return f"is discarded: {reason}" in process.output or not jump

    probe.wait(partial(is_discarded, True), "is followed")
    probe.wait(partial(is_discarded, False), "is followed")
