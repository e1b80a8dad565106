"""The contact guard beside an arm that a position controller or MoveIt moves."""

from __future__ import annotations

from launch import LaunchDescription

from rbd_control.ros.launching import passing_on
from rbd_control.startup import arm_launch
from rbd_control.startup.arm_launch import configuration

ARGUMENTS = {
    **arm_launch.ARGUMENTS,
    **arm_launch.SWITCHES,
    "params_file": (configuration("contact_guard.yaml"), "parameters of the guard"),
    "actions": ("", "actions whose goals are cancelled, separated by commas; empty: params_file's"),
}
"""Arguments with their default and description, as in ``arm.launch.py``."""

FIXED = {
    "detector": "false",
    "controller": "false",
    "guard": "true",
    "hand_guide": "false",
    "prefix": "",
    "joints": "",
}
"""Arguments of ``arm.launch.py`` that are not for the user of this file."""


def generate_launch_description() -> LaunchDescription:
    """Return what ``ros2 launch`` starts."""
    return passing_on("arm.launch.py", ARGUMENTS, FIXED)
