"""Nodes in the process of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import rclpy
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from rbd_control.ros.processes import environment as changed_environment
from rbd_control.ros.processes import reserved_domain
from rbd_control.ros.transports import without_shared_memory


@contextmanager
def ros_here(*parameters: str) -> Iterator[None]:
    """Run ROS in this process, in a domain of its own, with parameters as ``name:=value``.

    Its nodes meet no other process.
    """
    given = [word for parameter in parameters for word in ("-p", parameter)]
    here = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    with changed_environment(here), reserved_domain() as domain:
        try:
            with without_shared_memory():
                rclpy.init(
                    args=["--ros-args", *given] if given else [],
                    domain_id=domain,
                    signal_handler_options=SignalHandlerOptions.NO,
                )
                # The first node of a context creates what all its nodes send through.
                first = Node("first", start_parameter_services=False, enable_rosout=False)
            yield
            first.destroy_node()
        finally:
            rclpy.try_shutdown()
