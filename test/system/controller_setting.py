"""Setting of the controller's tests: a running node, its joint states, and its answers.

The arm ships with the package, and a :class:`~.probe.Source` sends joint states that stand still
for every torque.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.duration import Duration
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.simulation import arm7_urdf

from .bringup import STANDSTILL
from .machine_delays import late_joint_states
from .probe import Heard, Probe, Report, Source

NODE = "passivity_controller"
ALONE: dict[str, Any] = {"timeout": STANDSTILL, "discovery_time": 0.0}
"""Parameters of a single controller on a busy machine: no discovery time, long timeout."""
STILL = {"repeated_time": 3600.0, "repeated_torque_share": 2.0, "tracking_limit": [100.0]}
"""Parameters without which joint states that stand still would be a fault."""
STIFF: dict[str, Any] = {
    "resonance": 0.0,
    "loop_delay": 0.0,
    "bandwidth": [12.5],
    "damping_rate": 25.0,
    "damping": [0.3],
    "bias_rate": 0.0,
}
"""Gains for a rigid arm whose loop has at least 80 Hz: errors demand much torque."""
PARAMETERS: dict[str, Any] = {"urdf": "arm7", **ALONE, **STILL, **STIFF}
COMMANDS = "effort_controller/commands"
WAITS = "waiting for other publishers of torque"
"""Status of a second controller."""
MODEL = Model.from_urdf(arm7_urdf())
POSTURE = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2])
WEIGHT = gravity_torque(MODEL, POSTURE)
"""Gravity torque in this posture [N·m]."""
ZERO = np.zeros(MODEL.nv)


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


def in_space(space: str) -> list[str]:
    """Return the arguments of a controller with a name, joint states and torque of its own."""
    rules = (f"__node:={space}", f"joint_states:={space}/joint_states")
    return [word for rule in (*rules, f"{COMMANDS}:={space}/commands") for word in ("-r", rule)]


def torques(probe: Probe, space: str = "") -> Heard:
    """Return the commands that the controller publishes."""
    return probe.listen(Float64MultiArray, f"{space}/commands" if space else COMMANDS)


def holds(probe: Probe) -> None:
    """For resting joint states the controller sends the gravity torque."""
    errors = probe.listen(JointState, f"{NODE}/tracking_error")
    wait_for_torque(probe, torques(probe), WEIGHT)
    probe.wait(lambda: errors, "no tracking error")
    assert tuple(errors[-1].name) == MODEL.joint_names
    assert np.allclose(errors[-1].position, 0.0)


def wait_for_torque(probe: Probe, commands: Heard, torque: np.ndarray) -> None:
    probe.wait(
        lambda: commands and np.allclose(commands[-1].data, torque, atol=1e-6),
        f"the torque does not become {torque}",
    )


def wait_for_more(probe: Probe, commands: Heard, count: int = 20) -> None:
    first = len(commands)
    probe.wait(lambda: len(commands) > first + count, "no more torque")


def wait_for_mode(probe: Probe, mode: str, node: str = NODE) -> Report:
    return probe.wait_for_report(
        node, lambda r: r.values.get("mode") == mode, f"does not get to mode {mode}"
    )


def resume(probe: Probe, node: str = NODE) -> None:
    """Leave whatever mode a test has led to; joint states must be good again.

    It returns once a report says so: a report of mode safe that is still on its way would be taken
    for one of the next fault.
    """

    def resumed() -> bool:
        nonlocal answer
        answer = probe.call(Trigger, f"{node}/resume")
        return bool(answer.success) and probe.report(node).values["mode"] != "safe"

    answer = None
    try:
        probe.wait(resumed, "cannot resume")
    except AssertionError as error:
        raise AssertionError(f"{answer}: {error}") from error


def hold_again(probe: Probe) -> None:
    """Resume, and wait until the torque is the arm's weight."""
    resume(probe)
    wait_for_torque(probe, torques(probe), WEIGHT)


def holding(probe: Probe) -> Report | None:
    """Return the next report of a controller that holds the arm.

    A machine that delays joint states by more than the timeout ends the hold, which is no failure
    of the controller: it is resumed then, and there is no report.
    """
    report = probe.report(NODE)
    if report.values["mode"] == "hold":
        return report
    assert is_of_the_machine(report), f"does not hold: {report}"
    hold_again(probe)
    return None


def is_of_the_machine(report: Report) -> bool:
    """Return whether joint states that came too late for the timeout led to mode safe."""
    return late_joint_states(report.message) >= STANDSTILL


def count(report: Report, key: str) -> int:
    return int(report.values.get(key, 0))


def set_parameters(probe: Probe, node: str, **changes: Any) -> Any:
    """Return the node's answer to a change of all these parameters at once."""
    request = SetParametersAtomically.Request()
    request.parameters = [
        Parameter(name, value=value).to_parameter_msg() for name, value in changes.items()
    ]
    return probe.call(SetParametersAtomically, f"{node}/set_parameters_atomically", request).result
