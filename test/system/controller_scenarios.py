"""Scenarios for a running controller; the numbers in brackets are those of the fault list.

The arm ships with the package, and a :class:`~.probe.Source` sends joint states that stand still
for every torque.
"""

from __future__ import annotations

import signal
from math import nan
from typing import Any

import numpy as np
from lifecycle_msgs.srv import GetState
from rclpy.duration import Duration
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.simulation import arm7_urdf

from .bringup import STANDSTILL, STIFF, BringUp
from .probe import Heard, Probe, Source

NODE = "passivity_controller"
STILL = {"repeated_time": 3600.0, "repeated_torque_share": 2.0, "tracking_limit": [100.0]}
"""Parameters without which joint states that stand still would be a fault."""
PARAMETERS: dict[str, Any] = {
    "urdf": "arm7",
    "timeout": STANDSTILL,
    "discovery_time": 0.0,
    **STILL,
    **STIFF,
}
"""Parameters for a single controller on a busy machine: no discovery time, long timeout."""
COMMANDS = "effort_controller/commands"
SECOND = {**PARAMETERS, "discovery_time": 5.0}
"""Parameters of a second controller: it must find the first one, on a busy machine too."""
WAITS = "waiting for other publishers of torque"
"""Status of a second controller."""
MODEL = Model.from_urdf(arm7_urdf())
POSTURE = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2])
WEIGHT = gravity_torque(MODEL, POSTURE)
"""Gravity torque in this posture [N·m]."""


def resting() -> Source:
    """Return the arm standing still."""
    return Source(MODEL.joint_names, POSTURE, np.zeros(MODEL.nv))


def trajectory(*offsets: float, seconds: float = 1.0) -> JointTrajectory:
    """Return a motion of all joints away from the posture, point by point [rad]."""
    message = JointTrajectory(joint_names=list(MODEL.joint_names))
    for k, offset in enumerate(offsets):
        point = JointTrajectoryPoint()
        point.positions = [float(x) for x in POSTURE + offset]
        point.time_from_start = Duration(seconds=seconds * (k + 1) / len(offsets)).to_msg()
        message.points.append(point)
    return message


def no_start_without_velocity(probe: Probe, source: Source) -> None:
    """[1, 3] Without velocity the controller stays inactive; with it, it starts and holds."""
    commands = probe.listen(Float64MultiArray, COMMANDS)
    for velocity in ((), np.full(MODEL.nv, nan)):
        source.velocity = velocity
        probe.reports.clear()
        probe.wait_for_report(
            NODE,
            lambda r: "waiting for joint states with velocities" in r.message,
            "does not ask for velocity",
        )
        assert probe.call(GetState, f"{NODE}/get_state").current_state.label == "inactive"
    assert not commands
    source.velocity = np.zeros(MODEL.nv)
    holds(probe, source)


def holds(probe: Probe, source: Source) -> None:
    """For resting joint states the controller sends the gravity torque."""
    commands = probe.listen(Float64MultiArray, COMMANDS)
    errors = probe.listen(JointState, f"{NODE}/tracking_error")
    wait_for_torque(probe, commands, WEIGHT)
    probe.wait(lambda: errors, "no tracking error")
    assert tuple(errors[-1].name) == MODEL.joint_names
    assert np.allclose(errors[-1].position, 0.0)


def safe_when_joint_states_end(probe: Probe, source: Source) -> None:
    """[19, 20] Silence leads to the safe torque, which stays until ``~/resume``.

    Without joint states the documented safe torque is zero.
    """
    commands = probe.listen(Float64MultiArray, COMMANDS)
    wait_for_torque(probe, commands, WEIGHT)
    source.on = False
    wait_for_torque(probe, commands, np.zeros(MODEL.nv))
    report = probe.wait_for_report(NODE, lambda r: "safe torque" in r.message, "not safe")
    assert report.level == 2
    refused = probe.call(Trigger, f"{NODE}/resume")
    assert not refused.success
    source.on = True
    # With joint states again the safe torque carries the arm; it stays in mode safe all the same.
    wait_for_torque(probe, commands, WEIGHT)
    assert probe.report(NODE).values["mode"] == "safe"
    probe.wait(lambda: probe.call(Trigger, f"{NODE}/resume").success, "cannot resume")
    probe.wait_for_report(NODE, lambda r: r.values.get("mode") == "hold", "does not hold")


def bad_trajectories_leave_the_old_one(probe: Probe, source: Source) -> None:
    """[39, 40] Bad trajectories are rejected with a reason; the running trajectory continues."""
    errors = probe.listen(JointState, f"{NODE}/tracking_error")
    before = int(probe.report(NODE).values["trajectories refused"])
    probe.send(f"{NODE}/joint_trajectory", trajectory(-0.01, 0.015, seconds=3.0))
    _wait_for_desired(probe, errors, -0.005)
    bad = [trajectory(0.1) for _ in range(5)]
    bad[0].joint_names[2] = "elbow"
    bad[1].points[0].positions[3] = nan
    bad[2].points.clear()
    bad[3].points[0].positions.pop()
    bad[4].points.append(bad[4].points[0])  # the time does not increase
    for message in bad:
        probe.send(f"{NODE}/joint_trajectory", message)
    _wait_for_desired(probe, errors, 0.015)
    report = probe.wait_for_report(
        NODE,
        lambda r: int(r.values["trajectories refused"]) == before + len(bad),
        f"{len(bad)} bad trajectories are not refused",
    )
    assert report.values["goal"] in ("moving", "reached")
    probe.send(f"{NODE}/joint_trajectory", trajectory(0.0, seconds=0.5))
    _wait_for_desired(probe, errors, 0.0)


def torque_is_cut_to_its_limits(probe: Probe, source: Source) -> None:
    """[41] For an arm that does not follow, the law's torque exceeds the limits of the motors."""
    commands = probe.listen(Float64MultiArray, COMMANDS)
    wait_for_torque(probe, commands, WEIGHT)
    probe.send(f"{NODE}/joint_trajectory", trajectory(0.8, seconds=2.0))
    limit = MODEL.effort_limit
    probe.wait(
        lambda: np.isclose(np.abs(commands[-1].data), limit).any(), "no torque gets to its limit"
    )
    sent = np.array([message.data for message in commands])
    assert np.isfinite(sent).all()
    assert (np.abs(sent) <= limit + 1e-9).all()
    probe.wait_for_report(
        NODE, lambda r: int(r.values["saturated samples"]) > 0, "saturation is not told of"
    )
    probe.send(f"{NODE}/joint_trajectory", trajectory(0.0, seconds=2.0))
    wait_for_torque(probe, commands, WEIGHT)


def zero_torque_at_the_end(probe: Probe, source: Source, bring_up: BringUp) -> None:
    """[43] SIGINT and SIGTERM: the last command is zero and acknowledged; the process ends well."""
    numbers = {"int": signal.SIGINT, "term": signal.SIGTERM}
    processes = {
        space: bring_up.start(
            NODE,
            PARAMETERS,
            ["-r", f"{COMMANDS}:={space}/commands", "-r", f"__node:=controller_{space}"],
        )
        for space in numbers
    }
    for space, number in numbers.items():
        commands = probe.listen(Float64MultiArray, f"{space}/commands")
        wait_for_torque(probe, commands, WEIGHT)
        processes[space].signal(number)
        assert processes[space].wait() == 0
        wait_for_torque(probe, commands, np.zeros(MODEL.nv))
        assert "Traceback" not in processes[space].output
        assert "acknowledged" not in processes[space].output


def wait_for_torque(probe: Probe, commands: Heard, torque: np.ndarray) -> None:
    probe.wait(
        lambda: commands and np.allclose(commands[-1].data, torque, atol=1e-6),
        f"the torque does not become {torque}",
    )


def _wait_for_desired(probe: Probe, errors: Heard, offset: float) -> None:
    """Wait until the desired position is this far from the posture, in all joints."""
    probe.wait(
        lambda: errors and np.allclose(-np.array(errors[-1].position), offset, atol=2e-3),
        f"the desired position does not get to {offset}",
    )
