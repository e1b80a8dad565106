"""The ROS 2 nodes: the only part of the package that imports rclpy."""

import sys

from rbd_control.startup.executables import prepare

# `python -m rbd_control.nodes.<node>` imports this first, and the node's imports take seconds.
if any(
    option == "-m" and module.startswith("rbd_control.nodes.")
    for option, module in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
):
    prepare()
