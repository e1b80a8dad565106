"""One arm file for detector and controller, and changes of the payload at run time."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import InertiaStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.robot.payload import PayloadParameters
from rbd_control.simulation import arm7_urdf

from .bringup import BringUp, Process
from .controller_setting import (
    ALONE,
    NODE,
    POSTURE,
    resting,
    torques,
    wait_for_more,
    wait_for_torque,
)
from .probe import LATCHED, Probe, efforts

DETECTOR = "contact_detector"
GRAVITY = (2.0, 0.0, -9.6)
"""Gravity of an arm on a slope [m/s²]."""

ARM = {"gravity": list(GRAVITY), "effort_kind": "current", "effort_gain": [-2.0]}
NODES: dict[str, dict[str, Any]] = {NODE: {**ALONE, "discovery_time": 1.0}, DETECTOR: {}}
"""Parameters of each node beside those of the arm."""

MODEL = Model.from_urdf(arm7_urdf(), gravity=GRAVITY)


def weight(mass: float, com: tuple[float, float, float]) -> np.ndarray:
    payload = PayloadParameters(payload_mass=mass, payload_com=com)
    return np.asarray(gravity_torque(payload.loaded(MODEL), POSTURE))


def says(process: Process, reason: str) -> bool:
    return reason in process.output


def test_a_payload_reaches_both_nodes(bring_up: BringUp, probe: Probe) -> None:
    """A payload that the motors cannot carry is refused, and the one before stays.

    One that is announced before the start is pending until model and posture are known.
    """
    message = InertiaStamped()
    message.inertia.m, message.inertia.com.z = 0.5, 0.05
    announced = probe.node.create_publisher(InertiaStamped, "payload", LATCHED)
    announced.publish(message)
    description = probe.node.create_publisher(String, "robot_description", LATCHED)
    processes = {node: bring_up.start(node, {**ARM, **more}) for node, more in NODES.items()}
    for node in NODES:
        probe.wait_for_report(
            node, lambda r: "payload not in force yet" in r.message, "nothing is pending"
        )
    description.publish(String(data=arm7_urdf()))
    source = probe.stream(resting())
    source.effort = weight(0.5, (0.0, 0.0, 0.05)) / -2.0
    commands = torques(probe)
    residuals = probe.listen(JointState, f"{DETECTOR}/external_joint_torques")
    # The file of the arm is the same picture of it for both.
    wait_for_torque(probe, commands, weight(0.5, (0.0, 0.0, 0.05)))
    probe.wait(lambda: residuals and np.abs(efforts(residuals)).max() < 1e-6, "a residual")

    given = ("--mass", "1.5", "--com", "0,0,0.1", "--link", "link_7")
    ended = bring_up.run("payload", *given)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    loaded = weight(1.5, (0.0, 0.0, 0.1))
    wait_for_torque(probe, commands, loaded)
    source.effort = loaded / -2.0
    probe.wait(lambda: np.abs(efforts(residuals)).max() < 1e-6, "payload is felt")

    ended = bring_up.run("payload", "--mass", "500")
    assert ended.returncode == 1
    message.inertia.m = float("nan")
    announced.publish(message)
    for node, process in processes.items():
        assert f"/{node}: refused, or not checked" in ended.stdout
        for reason in ("too heavy", "finite"):
            process.wait_until(partial(says, process, reason))
        report = probe.report(node)
        assert float(report.values["payload [kg]"]) == 1.5
    wait_for_more(probe, commands)
    wait_for_torque(probe, commands, loaded)
