"""The contact detector beside a running robot that publishes its joint states."""

from __future__ import annotations

from launch import LaunchDescription

from rbd_control.ros.launching import passing_on
from rbd_control.startup import arm_launch
from rbd_control.startup.arm_launch import configuration

ARGUMENTS = {
    **arm_launch.ARGUMENTS,
    **arm_launch.SWITCHES,
    "params_file": (configuration("contact_detector.yaml"), "parameters of the detector"),
}
"""Arguments with their default and description; all are those of ``arm.launch.py``."""

FIXED = {
    "detector": "true",
    "controller": "false",
    "guard": "false",
    "hand_guide": "false",
    "prefix": "",
    "joints": "",
    "actions": "",
}
"""Arguments of ``arm.launch.py`` that are not for the user of this file."""


def generate_launch_description() -> LaunchDescription:
    """Return what ``ros2 launch`` starts."""
    return passing_on("arm.launch.py", ARGUMENTS, FIXED)
