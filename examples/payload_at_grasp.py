"""Announce the payload when the gripper closes, so that its weight is no contact.

One message on the topic `payload` reaches detector and controller. Start an arm first:
`ros2 launch rbd_control demo.launch.py scenario:=false`. The simulated arm picks up 1 kg by a
parameter, in place of your gripper. Prints the flag and the largest residual with empty hand, with
an unannounced load and with an announced one.
"""

import sys

import rclpy
from geometry_msgs.msg import InertiaStamped
from rclpy.parameter import Parameter
from rclpy.parameter_client import AsyncParameterClient
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

rclpy.init()
node = rclpy.create_node("payload_at_grasp")
latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
payload = node.create_publisher(InertiaStamped, "payload", latched)
arm = AsyncParameterClient(node, "simulated_arm")
flags, torques = [], []
node.create_subscription(Bool, "contact_detector/contact", lambda m: flags.append(m.data), 10)
topic = "contact_detector/external_joint_torques"
node.create_subscription(JointState, topic, lambda m: torques.append(m.effort), 1000)


def lift(mass):
    """Let the simulated gripper close around a mass [kg]."""
    done = arm.set_parameters([Parameter("payload_mass", value=float(mass))])
    rclpy.spin_until_future_complete(node, done, timeout_sec=5.0)


def announce(mass):
    """Tell detector and controller the mass [kg], at the link of the last joint."""
    message = InertiaStamped()
    message.inertia.m = float(mass)
    payload.publish(message)


def show(what):
    """Print the verdict after the next 250 samples."""
    flags.clear(), torques.clear()
    while len(torques) < 250 or not flags:
        rclpy.spin_once(node)
    print(f"{what}: contact {flags[-1]}, {max(map(abs, torques[-1])):.1f} N·m")


if not arm.wait_for_services(10.0):
    sys.exit("there is no simulated arm")
for what, lifted, announced in (("empty", 0, 0), ("unannounced", 1, 0), ("announced", 1, 1)):
    lift(lifted)
    announce(announced)
    show(what)
announce(0)
lift(0)
rclpy.shutdown()
