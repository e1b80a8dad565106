"""Faults that a running controller must survive; numbers in brackets are those of the fault list.

As in :mod:`.controller_scenarios` the arm ships with the package, and its joint states stand still.
"""

from __future__ import annotations

import signal
import time
from math import nan

import numpy as np
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray
from std_srvs.srv import Trigger

from .bringup import BringUp, Process
from .controller_scenarios import (
    COMMANDS,
    MODEL,
    NODE,
    PARAMETERS,
    SECOND,
    WAITS,
    WEIGHT,
    trajectory,
    wait_for_torque,
)
from .probe import Heard, Probe, Source

REACTION = 0.010
"""Longest time from a contact flag to the torque that it causes, both on the wire [s]."""


def reacts_to_the_contact_flag_in_time(probe: Probe, source: Source) -> None:
    """While a trajectory leads away from the arm, which cannot follow, torque is other than weight.

    From the flag on the arm is held where it is: the weight again. It is repeated until five
    reactions were in time: a busy machine delays this test as well, and a slow reaction would be
    late each time.
    """
    seen: list[tuple[float, np.ndarray]] = []
    probe.node.create_subscription(
        Float64MultiArray,
        COMMANDS,
        lambda message: seen.append((time.monotonic(), np.array(message.data))),
        1000,
    )

    def delay() -> float:
        probe.send("contact_detector/contact", Bool(data=False))
        probe.send(f"{NODE}/joint_trajectory", trajectory(0.3, seconds=2.0))
        probe.wait(
            lambda: seen and np.abs(seen[-1][1] - WEIGHT).max() > 2.0, "does not begin to move"
        )
        begin = time.monotonic()
        probe.send("contact_detector/contact", Bool(data=True))
        probe.wait(lambda: np.allclose(seen[-1][1], WEIGHT, atol=1e-6), "does not react")
        # The rate limit makes a ramp of the way back: the reaction is its first step.
        before = max(i for i, (at, _) in enumerate(seen) if at < begin)
        steps = [(at, np.abs(x - WEIGHT).max()) for at, x in seen[before:]]
        top = steps[0][1]
        reaction = next(at for at, x in steps if x < 0.95 * top) - begin
        probe.send("contact_detector/contact", Bool(data=False))
        probe.wait(lambda: probe.call(Trigger, f"{NODE}/resume").success, "cannot resume")
        probe.send(f"{NODE}/joint_trajectory", trajectory(0.0, seconds=0.3))
        wait_for_torque(probe, probe.listen(Float64MultiArray, COMMANDS), WEIGHT)
        return reaction

    delays: list[float] = []

    def are_in_time() -> bool:
        delays.append(delay())
        return sum(each < REACTION for each in delays) >= 5

    probe.wait(are_in_time, "the reaction is late")
    # The detector, in its part the probe, tells nothing any more.
    probe.wait_for_report(
        NODE, lambda r: r.level > 0 and "no verdict about contact" in r.message, "is not missed"
    )


def two_trajectories_at_once(probe: Probe, source: Source) -> None:
    """[40] The controller follows the second, and the desired position does not jump."""
    errors = probe.listen(JointState, f"{NODE}/tracking_error")
    probe.wait(lambda: errors, "no tracking error")
    first = len(errors)
    probe.send(f"{NODE}/joint_trajectory", trajectory(0.05))
    probe.send(f"{NODE}/joint_trajectory", trajectory(-0.04))
    probe.wait(
        lambda: np.allclose(-np.array(errors[-1].position), -0.04, atol=2e-3),
        "does not go where the second leads",
    )
    heard = errors[first:]  # more come meanwhile
    desired = -np.array([message.position for message in heard])
    stamps = np.array([m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in heard])
    speeds = np.diff(desired, axis=0) / np.diff(stamps)[:, None]
    assert np.abs(speeds).max() < 0.3  # peak of a cubic over 0.09 rad in 1 s is 0.14 rad/s
    probe.send(f"{NODE}/joint_trajectory", trajectory(0.0, seconds=0.5))
    wait_for_torque(probe, probe.listen(Float64MultiArray, COMMANDS), WEIGHT)


def flooded(probe: Probe, source: Source) -> None:
    """[18] Ten thousand joint states in a row: only gravity torque is sent, without a break."""
    commands = probe.listen(Float64MultiArray, COMMANDS)
    before = len(commands)
    clock = probe.node.get_clock()
    for _ in range(10_000):
        source.publishers[0].publish(source.message(clock.now().to_msg()))
    ended = time.monotonic()
    probe.wait(lambda: commands.last > ended + 0.5, "does not go on after a flood")
    sent = np.array([message.data for message in commands[before:]])
    assert np.allclose(sent, WEIGHT, atol=1e-6)
    assert probe.report(NODE).values["mode"] == "hold"


def fed_rubbish(probe: Probe, source: Source) -> None:
    """[3, 4] Velocities, then positions, that are NaN: zero torque until ``~/resume``."""
    commands = probe.listen(Float64MultiArray, COMMANDS)
    for name in ("velocity", "position"):
        good = getattr(source, name)
        setattr(source, name, np.full(MODEL.nv, nan))
        wait_for_torque(probe, commands, np.zeros(MODEL.nv))
        probe.wait_for_report(NODE, lambda r: r.values.get("mode") == "safe", "is not safe")
        setattr(source, name, good)
        wait_for_torque(probe, commands, WEIGHT)
        _resume(probe)
    assert np.isfinite([message.data for message in commands]).all()


def paused(probe: Probe, source: Source, process: Process) -> None:
    """[16, 48, 80] After a pause beyond its timeout it reports the gap and holds still."""
    commands = probe.listen(Float64MultiArray, COMMANDS)
    probe.send(f"{NODE}/joint_trajectory", trajectory(0.2, seconds=4.0))
    probe.wait(lambda: np.abs(np.array(commands[-1].data) - WEIGHT).max() > 0.5, "does not move")
    process.signal(signal.SIGSTOP)
    time.sleep(1.5 * PARAMETERS["timeout"])
    process.signal(signal.SIGCONT)
    probe.wait_for_report(
        NODE,
        lambda r: r.values["mode"] == "safe" and r.values["goal"] == "cancelled",
        "is not safe after a pause",
    )
    wait_for_torque(probe, commands, WEIGHT)
    sent = np.array([message.data for message in commands])
    assert (np.abs(sent) <= MODEL.effort_limit + 1e-9).all()
    _resume(probe)


def somebody_else_sends_torque(probe: Probe, source: Source) -> None:
    """[46] The safe torque, an error, and no resuming before the other is gone."""
    commands = probe.listen(Float64MultiArray, COMMANDS)
    other = probe.node.create_publisher(Float64MultiArray, COMMANDS, 1)
    probe.wait_for_report(NODE, lambda r: r.values.get("mode") == "safe", "is not safe")
    report = probe.wait_for_report(
        NODE, lambda r: "another publisher of torque" in r.message, "does not say why"
    )
    assert report.level == 2
    answer = probe.call(Trigger, f"{NODE}/resume")
    assert not answer.success
    assert "another publisher of torque" in answer.message
    wait_for_torque(probe, commands, WEIGHT)
    probe.node.destroy_publisher(other)
    probe.wait(lambda: probe.call(Trigger, f"{NODE}/resume").success, "cannot resume")


def another_of_the_same_name(probe: Probe, source: Source, bring_up: BringUp) -> None:
    """[45, 46] A second controller waits for the end of the first, which works on undisturbed."""
    commands = probe.listen(Float64MultiArray, COMMANDS)
    before = len(commands)
    second = bring_up.start(NODE, SECOND)
    second.wait_until(lambda: WAITS in second.output)
    assert np.allclose([message.data for message in commands[before:]], WEIGHT, atol=1e-6)
    second.end()
    _wait_for_more(probe, commands)
    assert np.allclose(commands[-1].data, WEIGHT, atol=1e-6)


def _wait_for_more(probe: Probe, commands: Heard) -> None:
    count = len(commands)
    probe.wait(lambda: len(commands) > count, "no more commands")


def _resume(probe: Probe) -> None:
    probe.wait(lambda: probe.call(Trigger, f"{NODE}/resume").success, "cannot resume")
    probe.wait_for_report(NODE, lambda r: r.values.get("mode") == "hold", "does not hold")
