"""Launch actions that the launch files share: declared arguments, and included launch files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, GroupAction, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, ThisLaunchFileDir

Described = Mapping[str, tuple[str, str]]
"""Arguments of a launch file: from the name to the pair (default, description)."""


def declared(arguments: Described) -> list[DeclareLaunchArgument]:
    """Return the launch actions that declare arguments of any value."""
    return [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in arguments.items()
    ]


def declared_switches(switches: Described) -> list[DeclareLaunchArgument]:
    """Return the launch actions that declare arguments with the values ``true`` or ``false``."""
    return [
        DeclareLaunchArgument(
            name, default_value=default, choices=["true", "false"], description=description
        )
        for name, (default, description) in switches.items()
    ]


def included(file: str, arguments: Mapping[str, Any]) -> GroupAction:
    """Return the launch action that includes another launch file of the same folder.

    The action is a group, so that the arguments of the included file do not change arguments of the
    same names in the including files.

    Args:
        file: name of the included launch file, in the folder of the launch file that runs.
        arguments: value of each argument of the included file, a text or a substitution.
    """
    source = PythonLaunchDescriptionSource([ThisLaunchFileDir(), f"/{file}"])
    return GroupAction([IncludeLaunchDescription(source, launch_arguments=arguments.items())])


def passing_on(file: str, arguments: Described, fixed: Mapping[str, str]) -> LaunchDescription:
    """Return the description of a launch file that includes another file with some fixed values.

    Args:
        file: name of the included launch file, in the same folder.
        arguments: arguments that the description declares and passes on under the same names.
        fixed: values of arguments of the included file; they have precedence over an argument of
            the same name in ``arguments``.
    """
    chosen = {name: LaunchConfiguration(name) for name in arguments}
    return LaunchDescription([*declared(arguments), included(file, {**chosen, **fixed})])
