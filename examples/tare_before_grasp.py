"""Tare the detector before a grasp, so that model errors do not hide a weak touch.

The service `~/tare` is refused with a reason while the residual is not steady; this script asks
again. Start an arm first: `ros2 launch rbd_control demo.launch.py scenario:=false`. Prints the
largest residual before and after the tare. A tare belongs to a posture and a load: `~/reset`
clears it.
"""

import sys
import time

import rclpy
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

rclpy.init()
node = rclpy.create_node("tare_before_grasp")
torques = []


def call(service):
    """Call a service of the detector and return its answer."""
    client = node.create_client(Trigger, f"contact_detector/{service}")
    answer = client.call_async(Trigger.Request()) if client.wait_for_service(10.0) else None
    if answer is not None:
        rclpy.spin_until_future_complete(node, answer, timeout_sec=5.0)
    if answer is None or not answer.done():
        sys.exit(f"contact_detector/{service} does not answer")
    return answer.result()


def residual():
    """Return the largest mean residual of the next 200 samples [N·m]."""
    torques.clear()
    while len(torques) < 200:
        rclpy.spin_once(node, timeout_sec=1.0)
    return max(abs(sum(joint) / len(joint)) for joint in zip(*torques, strict=True))


def on_residual(message):
    """Keep the residual of a sample."""
    torques.append(list(message.effort))


node.create_subscription(JointState, "contact_detector/external_joint_torques", on_residual, 100)
print(f"before: {residual():.3f} N·m")
for _ in range(20):
    answer = call("tare")
    if answer.success:
        break
    print(answer.message)
    time.sleep(0.5)
print(f"after: {residual():.3f} N·m")
call("reset")  # after the grasp
rclpy.shutdown()
