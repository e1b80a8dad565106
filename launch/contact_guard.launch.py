"""The contact guard beside an arm that a position controller or MoveIt moves."""

from __future__ import annotations

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution, ThisLaunchFileDir
from launch_ros.substitutions import FindPackageShare

ARGUMENTS = {
    "params_file": (
        PathJoinSubstitution([FindPackageShare("rbd_control"), "config", "contact_guard.yaml"]),
        "parameters of the guard",
    ),
    "actions": ("", "actions to cancel, separated by commas; empty: as in params_file"),
    "namespace": ("", "namespace of the guard's names"),
    "joint_states": ("joint_states", "topic with the measured joint states of the arm"),
    "use_sim_time": ("false", "true: take the time from /clock"),
}
"""Arguments with their default and description, as in ``arm.launch.py``."""


def generate_launch_description() -> LaunchDescription:
    """Return what ``ros2 launch`` starts."""
    chosen = {name: LaunchConfiguration(name) for name in ARGUMENTS}
    switches = {"detector": "false", "controller": "false", "guard": "true"}
    return LaunchDescription(
        [
            *(
                DeclareLaunchArgument(name, default_value=default, description=description)
                for name, (default, description) in ARGUMENTS.items()
            ),
            IncludeLaunchDescription(
                PythonLaunchDescriptionSource([ThisLaunchFileDir(), "/arm.launch.py"]),
                launch_arguments={**chosen, **switches}.items(),
            ),
        ]
    )
