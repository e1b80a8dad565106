"""One arm file for detector and controller, and changes of the payload at run time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import InertiaStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String

from rbd_control.dynamics import Model, gravity_torque, inverse_dynamics
from rbd_control.robot.payload import PayloadParameters
from rbd_control.ros.messages import to_seconds
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
from .detector_setting import MODEL as PLAIN
from .detector_setting import PARAMETERS, wait_for_flag
from .probe import LATCHED, Probe, Source, efforts

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
        assert re.search(f"/{node}: payload refused: .*too heavy", ended.stdout)
        for reason in ("too heavy", "finite"):
            process.wait_until(partial(says, process, reason))
        report = probe.report(node)
        assert float(report.values["payload [kg]"]) == 1.5
    wait_for_more(probe, commands)
    wait_for_torque(probe, commands, loaded)


@dataclass
class Moving(Source):
    """Joint states of the arm in motion, with noise of the efforts.

    Attributes:
        model: the arm with what it carries.
    """

    model: Model = PLAIN

    def message(self, stamp: Any) -> JointState:
        t, i = to_seconds(stamp) % 1e3, np.arange(PLAIN.nv)
        w, size = 1.1 + 0.23 * i, 0.25
        q, v = POSTURE + size * np.sin(w * t + i), size * w * np.cos(w * t + i)
        a = -size * w**2 * np.sin(w * t + i)
        noise = np.random.default_rng(stamp.nanosec).normal(scale=0.05, size=PLAIN.nv)
        self.position, self.velocity = q, v
        self.effort = inverse_dynamics(self.model, q, v, a) + noise
        return super().message(stamp)


@pytest.mark.parametrize("executable", [DETECTOR, "contact_aware_controller"])
def test_a_grasped_payload_is_taken_and_put_back(
    executable: str, bring_up: BringUp, probe: Probe
) -> None:
    """The gripper publishes its position in messages of its own.

    In one process with a controller, the controller receives them, and takes no payload itself.
    """
    cell = f"{executable}_cell"
    node, namespace = f"{cell}/{DETECTOR}", ("-r", f"__ns:=/{cell}")
    process = bring_up.start(executable, {**PARAMETERS, "gripper_joint": "finger"}, namespace)
    arm = Moving(PLAIN.joint_names, POSTURE)
    hand = Source(["finger"], [0.04])
    contact = probe.listen(Bool, f"{node}/contact", LATCHED)
    taken = probe.listen(InertiaStamped, f"{node}/payload", LATCHED)
    probe.stream(arm, f"{cell}/joint_states")
    probe.stream(hand, f"{cell}/joint_states", 50.0)
    wait_for_flag(probe, contact, False)
    compared = "nothing in 10 s of joint states contradicts the model"
    process.wait_until(partial(says, process, compared))
    hand.position = [0.02]
    # The contact must begin after the movement, whose end the detector sees within 0.5 s.
    moved = probe.node.get_clock().now().nanoseconds
    probe.wait(lambda: probe.node.get_clock().now().nanoseconds > moved + 10**9, "no time passes")
    payload = PayloadParameters(1.5, "link_7", (0.0, 0.0, 0.1))
    arm.model = payload.loaded(PLAIN)
    wait_for_flag(probe, contact, True)
    process.wait_until(partial(says, process, "because its contact began after finger moved"))
    probe.wait(lambda: taken, "the payload is not published")
    assert abs(taken[-1].inertia.m - 1.5) < 0.05  # the noise of 2 s to 4 s of efforts
    report = probe.wait_for_report(
        node, lambda r: r.values.get("payload taken") == "1", "nothing was taken"
    )
    assert abs(float(report.values["payload [kg]"]) - 1.5) < 0.05
    if executable != DETECTOR:
        report = probe.reports[f"{cell}/{NODE}"]
        assert float(report.values["payload [kg]"]) == 0.0
    wait_for_flag(probe, contact, False)
    hand.position, arm.model = [0.04], PLAIN
    probe.wait(lambda: taken[-1].inertia.m == 0.0, "the payload is not put back")
    assert len(taken) == 2
    wait_for_flag(probe, contact, False)
