"""A launch file of the package under test."""

from __future__ import annotations

from typing import Any

from launch import LaunchDescription
from launch.actions import (
    IncludeLaunchDescription,
    SetEnvironmentVariable,
    SetLaunchConfiguration,
)
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_testing.actions import ReadyToTest
from system.probe import Probe

from rbd_control.ros.processes import environment as changed_environment
from rbd_control.ros.processes import free_domain
from rbd_control.share import share_directory


def launched(file: str, **arguments: str) -> tuple[LaunchDescription, dict[str, Any]]:
    """Return the result of a test description: the file in its own ROS domain, and ``domain``."""
    domain = free_domain()
    environment = {
        "ROS_DOMAIN_ID": str(domain),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "ROS_PYTHON_CHECK_FIELDS": "1",
    }
    source = PythonLaunchDescriptionSource(str(share_directory() / "launch" / file))
    return (
        LaunchDescription(
            [
                *(SetEnvironmentVariable(name, value) for name, value in environment.items()),
                # Python with numba in it takes a second of processor time to end, and longer on a
                # busy machine than the five seconds it would be given.
                SetLaunchConfiguration("sigterm_timeout", "30"),
                IncludeLaunchDescription(source, launch_arguments=arguments.items()),
                ReadyToTest(),
            ]
        ),
        {"domain": domain},
    )


def probe_beside_launch(domain: int) -> Probe:
    """Return a probe with the transports of ROS 2's own tools.

    ``launch_ros`` may have started a node with shared memory in this process, and a probe without
    shared memory refuses to be in one process with it.
    """
    with changed_environment({"FASTDDS_BUILTIN_TRANSPORTS": "DEFAULT"}):
        return Probe(domain)
