"""React to contact: a subscriber of the flag, for which silence is no "no contact".

Start an arm first: `ros2 launch rbd_control demo.launch.py`. Prints the first contact and ends after
its release, or after 20 s.
"""

import rclpy
from rclpy.task import Future
from std_msgs.msg import Bool

rclpy.init()
node, released, seen = rclpy.create_node("react_to_contact"), Future(), []


def on_flag(message):
    """Take a verdict: it comes at once when it changes, and otherwise at 50 Hz."""
    silence.reset()
    if message.data and not any(seen):
        print("contact: stop what you are doing")
    elif any(seen) and not message.data:
        print("released")
        released.set_result(True)
    seen.append(message.data)


node.create_subscription(Bool, "contact_detector/contact", on_flag, 10)
silence = node.create_timer(0.5, lambda: print("no verdict: act as in contact"))
rclpy.spin_until_future_complete(node, released, timeout_sec=20.0)
rclpy.shutdown()
