"""Trajectories that a running controller refuses while it follows another one.

The numbers in brackets are the rows of ``docs/faults.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from rclpy.duration import Duration
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from .bringup import Process
from .controller_scenarios import MODEL, NODE, resting, trajectory
from .fault_setting import count
from .probe import Probe, Report, Source

Change = Callable[[JointTrajectory], None]


def name(index: int, text: str) -> Change:
    return lambda message: message.joint_names.__setitem__(index, text)


def position(value: float) -> Change:
    return lambda message: message.points[0].positions.__setitem__(3, value)


def time(index: int, seconds: float) -> Change:
    def change(message: JointTrajectory) -> None:
        message.points[index].time_from_start = Duration(seconds=seconds).to_msg()

    return change


def velocity(value: float, index: int = -1) -> Change:
    def change(message: JointTrajectory) -> None:
        message.points[index].velocities = [value] * MODEL.nv

    return change


def without_a_joint(message: JointTrajectory) -> None:
    message.joint_names.pop()
    for point in message.points:
        point.positions.pop()


def in_the_past(message: JointTrajectory) -> None:
    message.header.stamp = Time(sec=1000)


def first_point_far_from_here(message: JointTrajectory) -> None:
    message.points[0].positions = [float(x) for x in resting().position + 0.5]
    time(0, 0.0)(message)


REFUSED: dict[str, tuple[Change, str]] = {
    "no points": (lambda message: message.points.clear(), "has no points"),
    "unknown joint": (name(2, "elbow"), "no joint 'elbow'"),
    "duplicate name": (name(2, MODEL.joint_names[0]), "'joint_1' is named twice"),
    "missing joint": (without_a_joint, "'joint_7' is missing"),
    "too few positions": (lambda message: message.points[0].positions.pop(), "6 positions"),
    "too many positions": (lambda message: message.points[0].positions.append(0.0), "8 positions"),
    "velocities of another number": (
        lambda message: message.points[0].velocities.append(0.0),
        "1 velocities",
    ),
    "equal times": (time(0, 2.0), "is 2 s, not after the 2 s"),
    "times go back": (time(1, 0.5), "is 0.5 s, not after the 1 s"),
    "negative time": (time(0, -1.0), "is -1 s"),
    "in the past": (in_the_past, "the trajectory ended"),
    "ends moving": (velocity(0.2), "the last velocity is 0.2"),
    "NaN": (position(nan), "positions contain nan"),
    "infinite": (position(inf), "positions contain inf"),
    "NaN velocity": (velocity(nan, 0), "velocities contain nan"),
    "beyond a position limit": (position(-9.0), "position -9 is outside its limits"),
    "beyond a speed limit": (velocity(50.0, 0), "velocity 50 is over its limit"),
    "first point far from here": (first_point_far_from_here, "at once but 0.5 away"),
}
"""Bad trajectories: how each differs from a good one, and words of its log line."""


@pytest.fixture(scope="module")
def moving(probe: Probe, source: Source) -> float:
    """Return a trajectory that the controller follows for the whole test; its goal [rad]."""
    goal = 0.01
    probe.send(f"{NODE}/joint_trajectory", trajectory(goal, seconds=600.0))
    probe.wait_for_report(NODE, lambda r: r.values["goal"] == "moving", "does not move")
    return goal


def bad(kind: str) -> JointTrajectory:
    """Return a trajectory that is refused."""
    message = trajectory(0.02, 0.04, seconds=2.0)
    change, _ = REFUSED[kind]
    change(message)
    return message


def settled(probe: Probe) -> Report:
    """Return the controller's report when it refuses no further trajectory."""
    while True:
        before, report = probe.report(NODE), probe.later_report(NODE)
        if count(before, "trajectories refused") == count(report, "trajectories refused"):
            return report


@pytest.mark.parametrize("kind", [*REFUSED])
def test_a_bad_trajectory_is_refused_with_a_reason(
    kind: str, probe: Probe, process: Process, moving: float
) -> None:
    """[39] A log line gives the reason."""
    before = len(process.output)
    topic, message, (_, reason) = f"{NODE}/joint_trajectory", bad(kind), REFUSED[kind]

    def said() -> list[str]:
        return [line for line in process.output[before:].splitlines() if reason in line]

    # It is sent until it is logged: of many refusals in a few seconds only the first are.
    probe.send(topic, message)
    with probe.repeated(topic, message, period=0.5):
        probe.wait(said, f"{kind} is not refused")
    assert len(said()[0]) < 500
    assert "Traceback" not in process.output[before:]


def test_the_running_motion_outlasts_all_refusals(probe: Probe, moving: float) -> None:
    """[39, 40] It is still followed, without a step in the desired position; all are counted."""
    errors = probe.listen(JointState, f"{NODE}/tracking_error")
    probe.wait(lambda: errors, "no tracking error")
    first = len(errors)
    report = settled(probe)
    kinds = [*REFUSED]
    # The queue of the subscription holds ten messages.
    for group in (kinds[:9], kinds[9:]):
        expected = count(report, "trajectories refused") + len(group)
        for kind in group:
            probe.send(f"{NODE}/joint_trajectory", bad(kind))
        report = probe.wait_for_report(
            NODE,
            lambda r, expected=expected: count(r, "trajectories refused") >= expected,
            "not all are counted",
        )
        assert count(report, "trajectories refused") == expected
    assert report.values["goal"] == "moving"
    desired = -np.array([message.position for message in errors[first:]])
    # 0.01 rad in 600 s moves by less than 1e-6 rad from one sample to the next.
    assert (np.diff(desired, axis=0) >= -1e-12).all()
    assert np.diff(desired, axis=0).max() < 1e-5
