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
from .probe import Probe, Source

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


REFUSED: dict[str, Change] = {
    "no points": lambda message: message.points.clear(),
    "unknown joint": name(2, "elbow"),
    "duplicate name": name(2, MODEL.joint_names[0]),
    "missing joint": without_a_joint,
    "too few positions": lambda message: message.points[0].positions.pop(),
    "too many positions": lambda message: message.points[0].positions.append(0.0),
    "velocities of another number": lambda message: message.points[0].velocities.append(0.0),
    "equal times": time(0, 2.0),
    "times go back": time(1, 0.5),
    "negative time": time(0, -1.0),
    "in the past": in_the_past,
    "ends moving": velocity(0.2),
    "NaN": position(nan),
    "infinite": position(inf),
    "NaN velocity": velocity(nan, 0),
    "beyond a position limit": position(-9.0),
    "beyond a speed limit": velocity(50.0, 0),
    "first point far from here": first_point_far_from_here,
}


@pytest.fixture(scope="module")
def moving(probe: Probe, source: Source) -> float:
    """Return a trajectory that the controller follows for the whole test; its goal [rad]."""
    goal = 0.01
    probe.send(f"{NODE}/joint_trajectory", trajectory(goal, seconds=600.0))
    probe.wait_for_report(NODE, lambda r: r.values["goal"] == "moving", "does not move")
    return goal


def refuse(probe: Probe, process: Process, kind: str) -> str:
    """Send a bad trajectory; return the controller's log line on it."""
    message = trajectory(0.02, 0.04, seconds=2.0)
    REFUSED[kind](message)
    before = len(process.output)
    probe.send(f"{NODE}/joint_trajectory", message)
    probe.wait(lambda: "refused" in process.output[before:], f"{kind} is not refused")
    return process.output[before:]


@pytest.mark.parametrize("kind", [*REFUSED])
def test_a_bad_trajectory_is_refused_with_a_reason(
    kind: str, probe: Probe, process: Process, moving: float
) -> None:
    """[39] One log line gives the reason."""
    said = refuse(probe, process, kind)
    assert "Traceback" not in said
    assert len(said) < 500


def test_the_running_motion_outlasts_all_refusals(
    probe: Probe, process: Process, moving: float
) -> None:
    """[39, 40] It is still followed, without a step in the desired position; all are counted."""
    errors = probe.listen(JointState, f"{NODE}/tracking_error")
    probe.wait(lambda: errors, "no tracking error")
    first = len(errors)
    before = count(probe.report(NODE), "trajectories refused")
    for kind in REFUSED:
        refuse(probe, process, kind)
    report = probe.wait_for_report(
        NODE,
        lambda r: count(r, "trajectories refused") == before + len(REFUSED),
        "not all are counted",
    )
    assert report.values["goal"] == "moving"
    desired = -np.array([message.position for message in errors[first:]])
    # 0.01 rad in 600 s moves by less than 1e-6 rad from one sample to the next.
    assert (np.diff(desired, axis=0) >= -1e-12).all()
    assert np.diff(desired, axis=0).max() < 1e-5
