"""Two arms in one graph, each with its own namespace, model and joint names."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Vector3, WrenchStamped
from rclpy.duration import Duration
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.nodes.demo_scenario import START
from rbd_control.ros.contact_messages import event_from_status
from rbd_control.share import share_directory
from rbd_control.simulation import arm7_urdf
from rbd_control.startup.arm_launch import node_parameters

from .bringup import BringUp
from .controller_setting import wait_for_mode
from .probe import LATCHED, Heard, Probe

ARMS = ("left", "right")
NODES = ("simulated_arm", "passivity_controller", "contact_detector", "contact_guard")
MASS = {"left": "4", "right": "3"}
"""Mass of the second link [kg]: the arms have different models."""


def description(arm: str) -> str:
    """Return the arm that ships, with the names of this one."""
    text = arm7_urdf().replace('<mass value="4"/>', f'<mass value="{MASS[arm]}"/>', 1)
    for what in ("joint", "link"):
        text = text.replace(f'"{what}_', f'"{arm}_{what}_')
    return text


def parameters(arm: str, node: str) -> dict[str, Any]:
    """Return the parameters that ``arm.launch.py`` gives a node of this arm, from the demo's."""
    joints = [f"joint_{i}" for i in range(1, 8)]
    file = share_directory() / "config" / "demo.yaml"
    values = node_parameters(file, arm, node, f"{arm}_", joints)
    if node == "contact_guard":
        return {"joints": values["joints"], "actions": ["follow"]}
    values |= {"urdf": "", "robot_description": description(arm)}
    if node == "simulated_arm":
        del values["spheres"]  # nothing is in the way of these motions
    if node == "passivity_controller":
        values["contact_reaction"] = "hold"
    return values


class Arm:
    """The messages received from one arm."""

    def __init__(self, probe: Probe, name: str) -> None:
        self.name, self._probe = name, probe
        self.contact = probe.listen(Bool, f"/{name}/contact_detector/contact", LATCHED)
        self.events = probe.listen(DiagnosticArray, f"/{name}/contact_detector/events")
        self.stops = probe.listen(String, f"/{name}/trajectory_execution_event")
        self.stopped = probe.listen(Bool, f"/{name}/contact_guard/stopped", LATCHED)
        self.states: Heard = probe.listen(JointState, f"/{name}/joint_states")

    def wait_until_ready(self) -> None:
        probe, name = self._probe, self.name
        probe.wait(lambda: self.contact and not self.contact[-1].data, f"{name}: no verdict")
        probe.wait(lambda: self.stopped and not self.stopped[-1].data, f"{name}: no guard")
        wait_for_mode(probe, "hold", f"{name}/passivity_controller")
        assert list(self.states[-1].name) == [f"{name}_joint_{i}" for i in range(1, 8)]

    def go(self, goal: np.ndarray, seconds: float) -> None:
        point = JointTrajectoryPoint(positions=[float(x) for x in goal])
        point.time_from_start = Duration(seconds=seconds).to_msg()
        names = [f"{self.name}_joint_{i}" for i in range(1, 8)]
        message = JointTrajectory(joint_names=names, points=[point])
        self._probe.send(f"/{self.name}/passivity_controller/joint_trajectory", message)

    def push(self) -> None:
        message = WrenchStamped()
        message.header.frame_id = f"{self.name}_link_7"
        message.wrench.force = Vector3(x=0.0, y=25.0, z=0.0)
        self._probe.send(f"/{self.name}/simulated_arm/external_wrench", message)

    def wait_for_stop(self) -> None:
        probe, name = self._probe, self.name
        probe.wait(lambda: self.stopped[-1].data, f"{name} is not stopped")
        probe.wait(lambda: self.stops, f"{name}: MoveIt is not stopped")
        probe.wait(lambda: self.events, f"{name}: no event")

    def resume(self) -> None:
        probe, name = self._probe, self.name
        probe.wait(lambda: not self.contact[-1].data, f"{name}: the push does not end")
        for node in ("contact_guard", "passivity_controller"):
            probe.wait(partial(self._resumes, node), f"{name}: {node} does not resume")

    def _resumes(self, node: str) -> bool:
        return bool(self._probe.call(Trigger, f"/{self.name}/{node}/resume").success)


def test_a_push_on_one_arm_stops_that_arm_alone(bring_up: BringUp, probe: Probe) -> None:
    arms = {name: Arm(probe, name) for name in ARMS}
    for name in ARMS:
        for node in NODES:
            bring_up.start(node, parameters(name, node), ["-r", f"__ns:=/{name}"])
    for arm in arms.values():
        arm.wait_until_ready()
    touched, free = arms.values()
    goal, before = START + 0.15, len(free.contact)
    free.go(goal, 1.0)
    touched.push()
    touched.wait_for_stop()
    assert "left_link_7" in event_from_status(touched.events[-1].status[0]).candidates
    # The other one goes on to its goal, and nobody hears of a contact there.
    probe.wait(lambda: np.allclose(free.states[-1].position, goal, atol=0.02), "does not get there")
    assert not any(message.data for message in free.contact[before:])
    assert not free.stopped[-1].data
    assert not free.stops
    assert not free.events
    touched.resume()
