"""The hand guide beside an arm that takes positions, velocities or torques, and its detector."""

from __future__ import annotations

from launch import LaunchDescription

from rbd_control.ros.launching import passing_on
from rbd_control.startup import arm_launch

ARGUMENTS = {**arm_launch.ARGUMENTS, **arm_launch.SWITCHES}
"""Arguments with their default and description, as in ``arm.launch.py``."""

FIXED = {
    "detector": "true",
    "controller": "false",
    "guard": "false",
    "hand_guide": "true",
    "prefix": "",
    "joints": "",
    "actions": "",
}
"""Arguments of ``arm.launch.py`` that are not for the user of this file."""


def generate_launch_description() -> LaunchDescription:
    """Return what ``ros2 launch`` starts."""
    return passing_on("arm.launch.py", ARGUMENTS, FIXED)
