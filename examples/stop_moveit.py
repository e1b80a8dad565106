"""Stop MoveIt on contact: cancel all goals of the arm's controller, and publish MoveIt's stop.

Start an arm, its detector and MoveIt first. Prints the number of goals that are being cancelled and
ends. The node `contact_guard` does the same for a robot: it also latches the stop, repeats requests
that were not answered, and stops when the detector is silent.
"""

import sys

import rclpy
from action_msgs.srv import CancelGoal
from rclpy.task import Future
from std_msgs.msg import Bool, String

action = sys.argv[1] if len(sys.argv) > 1 else "joint_trajectory_controller/follow_joint_trajectory"
rclpy.init()
node, contact = rclpy.create_node("stop_moveit"), Future()
cancel = node.create_client(CancelGoal, f"{action}/_action/cancel_goal")
event = node.create_publisher(String, "trajectory_execution_event", 1)


def on_flag(message):
    """Send both orders with the first raised flag."""
    if message.data and not contact.done():
        answer = cancel.call_async(CancelGoal.Request())  # no goal and no time: all goals
        event.publish(String(data="stop"))
        contact.set_result(answer)


if not cancel.wait_for_service(timeout_sec=10.0):
    sys.exit(f"there is no action {action}")
node.create_subscription(Bool, "contact_detector/contact", on_flag, 100)
rclpy.spin_until_future_complete(node, contact, timeout_sec=20.0)
if not contact.done():
    sys.exit("no contact within 20 s")
rclpy.spin_until_future_complete(node, contact.result(), timeout_sec=2.0)
answer = contact.result().result()
print("not answered" if answer is None else f"goals being cancelled: {len(answer.goals_canceling)}")
rclpy.shutdown()
