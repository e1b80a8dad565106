"""React to contact: a subscriber of the flag, for which silence is no "no contact".

Start an arm first: `ros2 launch rbd_control demo.launch.py`. Prints each change of the verdict and
ends with the release of the first contact, or after 20 s.
"""

import rclpy
from rclpy.task import Future
from std_msgs.msg import Bool

rclpy.init()
node, released, told = rclpy.create_node("react_to_contact"), Future(), []


def tell(text):
    """Print a change; here your robot reacts."""
    if told[-1:] != [text]:
        print(text, flush=True)
        told.append(text)


def on_flag(message):
    """Take a verdict: it comes at once when it changes, and otherwise at 50 Hz."""
    silence.reset()
    tell("contact" if message.data else "free")
    if told[-2:] == ["contact", "free"]:
        released.set_result(True)


node.create_subscription(Bool, "contact_detector/contact", on_flag, 10)
silence = node.create_timer(0.5, lambda: tell("no verdict: act as in contact"))
rclpy.spin_until_future_complete(node, released, timeout_sec=20.0)
rclpy.shutdown()
