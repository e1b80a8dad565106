"""Launch actions for several launch files: declared arguments, and included launch files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, GroupAction, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, ThisLaunchFileDir

Described = Mapping[str, tuple[str, str]]
"""Arguments of a launch file, with default and description."""


def declared(arguments: Described) -> list[DeclareLaunchArgument]:
    """Return declarations of arguments."""
    return [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in arguments.items()
    ]


def declared_switches(switches: Described) -> list[DeclareLaunchArgument]:
    """Return declarations of arguments that are true or false."""
    return [
        DeclareLaunchArgument(
            name, default_value=default, choices=["true", "false"], description=description
        )
        for name, (default, description) in switches.items()
    ]


def included(file: str, arguments: Mapping[str, Any]) -> GroupAction:
    """Return the inclusion of another launch file in the same folder.

    A group separates its arguments from the arguments of the including files.

    Args:
        file: name of the launch file.
        arguments: value of each argument, or its substitution.
    """
    source = PythonLaunchDescriptionSource([ThisLaunchFileDir(), f"/{file}"])
    return GroupAction([IncludeLaunchDescription(source, launch_arguments=arguments.items())])


def passing_on(file: str, arguments: Described, fixed: Mapping[str, str]) -> LaunchDescription:
    """Return the description of a launch file that includes another one with some fixed values.

    Args:
        file: name of the included launch file.
        arguments: arguments that are passed on.
        fixed: values of the other arguments.
    """
    chosen = {name: LaunchConfiguration(name) for name in arguments}
    return LaunchDescription([*declared(arguments), included(file, {**chosen, **fixed})])
