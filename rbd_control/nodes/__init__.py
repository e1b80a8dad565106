"""The ROS 2 nodes, one file each, with what belongs to one node."""

import sys

from rbd_control.startup.executables import prepare

# `python -m rbd_control.nodes.<node>` imports this package first. The imports of the node itself
# take seconds, in which a signal must already be able to end the process.
if any(
    option == "-m" and module.startswith("rbd_control.nodes.")
    for option, module in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
):
    prepare()
