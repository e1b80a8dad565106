"""Setting of the controller's fault tests: one running node, restored after each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import rclpy
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from rbd_control.ros.processes import reserved_domain
from rbd_control.ros.transports import without_shared_memory

from .controller_scenarios import COMMANDS, MODEL, NODE, WEIGHT, wait_for_torque
from .machine_delays import late_joint_states
from .probe import Heard, Probe, Report

ZERO = np.zeros(MODEL.nv)


def torques(probe: Probe) -> Heard:
    """Return the commands that the controller publishes."""
    return probe.listen(Float64MultiArray, COMMANDS)


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


def holding(probe: Probe, timeout: float) -> Report | None:
    """Return the next report of a controller that holds the arm.

    A machine that delays joint states by more than the timeout ends the hold, which is no failure
    of the controller: it is resumed then, and there is no report.

    Args:
        probe: the other end of the topics.
        timeout: the parameter ``timeout`` of the controller [s].
    """
    report = probe.report(NODE)
    if report.values["mode"] == "hold":
        return report
    assert is_of_the_machine(report, timeout), f"does not hold: {report}"
    hold_again(probe)
    return None


def is_of_the_machine(report: Report, timeout: float) -> bool:
    """Return whether joint states that came too late for ``timeout`` [s] led to mode safe."""
    return late_joint_states(report.message) >= timeout


def count(report: Report, key: str) -> int:
    return int(report.values.get(key, 0))


def set_parameters(probe: Probe, node: str, **changes: Any) -> Any:
    """Return the node's answer to a change of all these parameters at once."""
    request = SetParametersAtomically.Request()
    request.parameters = [
        Parameter(name, value=value).to_parameter_msg() for name, value in changes.items()
    ]
    return probe.call(SetParametersAtomically, f"{node}/set_parameters_atomically", request).result


@contextmanager
def ros_here(*parameters: str) -> Iterator[None]:
    """Run ROS in this process, in a domain of its own, with parameters as ``name:=value``."""
    given = [word for parameter in parameters for word in ("-p", parameter)]
    with reserved_domain() as domain:
        try:
            with without_shared_memory():
                rclpy.init(
                    args=["--ros-args", *given] if given else [],
                    domain_id=domain,
                    signal_handler_options=SignalHandlerOptions.NO,
                )
                # The first node of a context creates what all its nodes send through.
                first = Node("first", start_parameter_services=False, enable_rosout=False)
            yield
            first.destroy_node()
        finally:
            rclpy.try_shutdown()
