"""A launch file of the package under test."""

from __future__ import annotations

import os

from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription, SetLaunchConfiguration
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_testing.actions import ReadyToTest

from rbd_control.share import share_directory

DOMAIN = int(os.environ["ROS_DOMAIN_ID"])


def launched(file: str, **arguments: str) -> LaunchDescription:
    """Return the test description of a launch file with these arguments."""
    source = PythonLaunchDescriptionSource(str(share_directory() / "launch" / file))
    return LaunchDescription(
        [
            # Python with numba in it takes a second of processor time to end, and longer on a
            # busy machine than the five seconds it would be given.
            SetLaunchConfiguration("sigterm_timeout", "30"),
            IncludeLaunchDescription(source, launch_arguments=arguments.items()),
            ReadyToTest(),
        ]
    )
