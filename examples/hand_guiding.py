"""Hand guiding by `~/tool_wrench`: the tool moves along the force of the hand, without a sensor.

An admittance: the velocity of the tool is the force beyond a dead zone times a mobility; the joints
follow by the damped inverse of the Jacobian. The detector needs `tool_frame: tool`, the controller
`contact_reaction: none`. Prints how far the hand has led the tool.
"""

import numpy as np
import rclpy
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control import Robot
from rbd_control.dynamics import frame_jacobian, frame_placement

DEAD, MOBILITY = 4.0, 0.01  # N, m/s per N
PERIOD, AHEAD, DURATION = 0.05, 0.1, 2.0  # between two points, to a point, of the whole [s]
model = Robot.load("arm7").model  # or your arm.yaml
rclpy.init()
node = rclpy.create_node("hand_guiding")
command = node.create_publisher(JointTrajectory, "passivity_controller/joint_trajectory", 1)
now, stamps, places = {}, [-PERIOD], []


def on_state(message):
    """Keep the positions in the order of the model."""
    now["q"] = np.array([message.position[message.name.index(n)] for n in model.joint_names])


def on_wrench(message):
    """Move the target along the force; without messages no point is sent, and the arm stops."""
    stamp = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
    dt = stamp - stamps[-1]
    if "q" not in now or dt < PERIOD:
        return
    stamps.append(stamp)
    f, placement = message.wrench.force, frame_placement(model, now["q"], "tool")
    places.append(placement[:3, 3])
    force = placement[:3, :3] @ [f.x, f.y, f.z]
    size = np.linalg.norm(force)
    if dt > 2.0 * PERIOD or size < DEAD:
        now["target"] = now["q"]
        return
    J = frame_jacobian(model, now["q"], "tool")[3:]
    speed = MOBILITY * (1.0 - DEAD / size) * force
    v = J.T @ np.linalg.solve(J @ J.T + 0.01 * np.eye(3), speed)
    now["target"] = now["target"] + v * dt
    point = JointTrajectoryPoint(positions=now["target"].tolist())
    point.time_from_start.nanosec = round(AHEAD * 1e9)
    command.publish(JointTrajectory(joint_names=model.joint_names, points=[point]))


node.create_subscription(JointState, "joint_states", on_state, 1)
node.create_subscription(WrenchStamped, "contact_detector/tool_wrench", on_wrench, 1)
while not places or stamps[-1] - stamps[1] < DURATION:
    rclpy.spin_once(node)
way = np.linalg.norm(places[-1] - places[0])
print(f"led {1e3 * way:.0f} mm in {DURATION} s")
rclpy.shutdown()
