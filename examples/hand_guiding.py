"""Hand guiding by `~/tool_wrench`: the tool moves along the force of the hand, without a sensor.

An admittance: the velocity of the tool is the force beyond a dead zone times a mobility; the joints
follow by the damped inverse of the Jacobian. Without a wrench the arm stops. The detector needs
`tool_frame: tool`, the controller `contact_reaction: none`. Prints how far the hand led the tool.
"""

import numpy as np
import rclpy
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control import Robot
from rbd_control.dynamics import frame_jacobian, frame_placement

DEAD, MOBILITY, AHEAD = 4.0, 0.01, 0.2  # N, m/s per N, s
model = Robot.load("arm7").model  # or your arm.yaml
rclpy.init()
node = rclpy.create_node("hand_guiding")
command = node.create_publisher(JointTrajectory, "passivity_controller/joint_trajectory", 1)
last, pushes = {}, [np.zeros(3)]


def on_wrench(message):
    """Keep the force in the axes of the tool [N]."""
    last["force"] = np.array([getattr(message.wrench.force, axis) for axis in "xyz"])


def lead():
    """Send a point a little ahead, where the tool moves along the force; an old one stops it."""
    force = last.pop("force", np.zeros(3))
    if np.linalg.norm(force) < DEAD:
        return
    pushes.append(frame_placement(model, last["q"], "tool")[:3, :3] @ force)
    speed = MOBILITY * pushes[-1] * (1.0 - DEAD / np.linalg.norm(force))
    J = frame_jacobian(model, last["q"], "tool")[3:]
    v = J.T @ np.linalg.solve(J @ J.T + 0.01 * np.eye(3), speed)
    point = JointTrajectoryPoint(positions=(last["q"] + v * AHEAD).tolist())
    point.time_from_start.nanosec = round(AHEAD * 1e9)
    command.publish(JointTrajectory(joint_names=model.joint_names, points=[point]))


def on_state(message):
    """Keep the positions in the order of the model, and the time."""
    last["q"] = np.array([message.position[message.name.index(n)] for n in model.joint_names])
    last["time"] = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec


node.create_subscription(WrenchStamped, "contact_detector/tool_wrench", on_wrench, 1)
node.create_subscription(JointState, "joint_states", on_state, 1)
while len(last) < 3:
    rclpy.spin_once(node)
start, end = frame_placement(model, last["q"], "tool")[:3, 3], last["time"] + 2.0
node.create_timer(0.05, lead)
while last["time"] < end:
    rclpy.spin_once(node)
way, push = frame_placement(model, last["q"], "tool")[:3, 3] - start, np.sum(pushes, axis=0)
print(f"led {1e3 * way @ push / np.linalg.norm(push):.0f} mm along the force")
rclpy.shutdown()
