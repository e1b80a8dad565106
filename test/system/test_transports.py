"""The nodes use no shared memory, and still exchange messages with processes that do."""

from __future__ import annotations

import subprocess
import sys

from sensor_msgs.msg import JointState

from rbd_control.ros.transports import (
    thread_names,
    uses_shared_memory,
)

from .bringup import BringUp
from .probe import Probe

DEFAULT_DISCOVERY = True
"""Whether participants announce themselves as seldom as those of users."""


ORDINARY = """
import rclpy
from rclpy.node import Node
from sensor_msgs.msg import JointState
rclpy.init()
node, heard = Node("ordinary"), []
publisher = node.create_publisher(JointState, "/ordinary", 10)
node.create_subscription(JointState, "/joint_states", heard.append, 10)
while True:
    rclpy.spin_once(node, timeout_sec=0.1)
    if heard:
        publisher.publish(heard[-1])
"""
"""A program that starts ROS without this package, as ``ros2 topic echo`` does."""


def test_processes_with_shared_memory_send_and_receive(bring_up: BringUp, probe: Probe) -> None:
    """A stopped subscriber then holds no lock that a node waits for in ``publish``.

    A driver and the tools of ROS 2 start with the middleware's own transports.
    """
    arm = bring_up.start("simulated_arm", {"urdf": "arm7"}, is_forked=False)
    heard = probe.listen(JointState, "/ordinary")
    with subprocess.Popen([sys.executable, "-c", ORDINARY], env=bring_up.environment) as ordinary:
        try:
            probe.wait(lambda: bool(heard), "no joint state comes back from an ordinary process")
            assert any("dds.shm" in name for name in thread_names(ordinary.pid))
        finally:
            ordinary.kill()
    found = thread_names(arm.pid)
    assert any("dds.udp" in name for name in found)
    assert not any("dds.shm" in name for name in found), found
    assert not uses_shared_memory()
