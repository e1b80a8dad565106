"""Hand guiding by `~/tool_wrench`: the tool moves along the force of the hand, without a sensor.

An admittance: the velocity of the tool is the force beyond a dead zone times a mobility, the joints
follow by the damped inverse of the Jacobian, and single-point trajectories stream to the controller.
The detector needs `tool_frame: tool`, the controller `contact_reaction: none`. Prints how far the
hand has led the tool in 4 s, along its force and across it.
"""

import time

import numpy as np
import rclpy
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.dynamics import Model, frame_jacobian, frame_placement
from rbd_control.simulation import arm7_urdf

DEAD, MOBILITY, AHEAD = 4.0, 0.01, 0.2  # N, m/s per N, s
model = Model.from_urdf(arm7_urdf())
rclpy.init()
node = rclpy.create_node("hand_guiding")
command = node.create_publisher(JointTrajectory, "passivity_controller/joint_trajectory", 10)
last, pushes = {}, []


def on_wrench(message):
    """Keep the force in the axes of the tool [N]."""
    force = message.wrench.force
    last["force"] = np.array([force.x, force.y, force.z])


def lead():
    """Send a point a little ahead, where the tool moves along the force."""
    if len(last) < 2 or np.linalg.norm(last["force"]) < DEAD:
        return
    force = frame_placement(model, last["q"], "tool")[:3, :3] @ last["force"]
    pushes.append(force)
    speed = MOBILITY * force * (1.0 - DEAD / np.linalg.norm(force))
    J = frame_jacobian(model, last["q"], "tool")[3:]
    v = J.T @ np.linalg.solve(J @ J.T + 0.01 * np.eye(3), speed)
    point = JointTrajectoryPoint(positions=(last["q"] + v * AHEAD).tolist())
    point.time_from_start.nanosec = round(AHEAD * 1e9)
    command.publish(JointTrajectory(joint_names=model.joint_names, points=[point]))


def on_state(message):
    """Keep the positions in the order of the model."""
    last["q"] = np.array([message.position[message.name.index(n)] for n in model.joint_names])


node.create_subscription(WrenchStamped, "contact_detector/tool_wrench", on_wrench, 1)
node.create_subscription(JointState, "joint_states", on_state, 1)
while len(last) < 2:
    rclpy.spin_once(node, timeout_sec=1.0)
start, end = frame_placement(model, last["q"], "tool")[:3, 3], time.monotonic() + 4.0
node.create_timer(0.05, lead)
while time.monotonic() < end:
    rclpy.spin_once(node, timeout_sec=0.1)
way = frame_placement(model, last["q"], "tool")[:3, 3] - start
along = np.mean(pushes, axis=0) / np.linalg.norm(np.mean(pushes, axis=0)) if pushes else np.zeros(3)
across = np.linalg.norm(way - (way @ along) * along)
print(f"{1e3 * way @ along:.0f} mm along the force, {1e3 * across:.0f} mm across it")
rclpy.shutdown()
