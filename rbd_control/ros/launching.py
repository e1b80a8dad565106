"""Launch actions that the launch files share: arguments, included files, and ends of processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    DeclareLaunchArgument,
    GroupAction,
    IncludeLaunchDescription,
    OpaqueFunction,
    Shutdown,
)
from launch.events.process import ProcessExited
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.logging import get_logger
from launch.substitutions import LaunchConfiguration, ThisLaunchFileDir

from rbd_control.errors import ParameterError

OF_LAUNCH = {"launch-prefix", "launch-prefix-filter", "sigterm_timeout", "sigkill_timeout"}
"""Arguments that no launch file declares, because launch itself reads them."""

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


def file_description(
    arguments: Sequence[DeclareLaunchArgument], action: LaunchDescriptionEntity
) -> LaunchDescription:
    """Return the description of a launch file: its arguments, a check of their names, an action."""
    names = [each.name for each in arguments]
    check = OpaqueFunction(function=check_names, args=[names])
    return LaunchDescription([check, *arguments, action])


def check_names(context: LaunchContext, names: Sequence[str]) -> None:
    """Check the names of arguments on the command line, because launch ignores unknown ones.

    Args:
        context: before the arguments are declared.
        names: names of the arguments of the launch file.

    Raises:
        ParameterError: for a name that resembles one of an argument. Others are logged.
    """
    given = {text.partition(":=")[0] for text in context.argv}
    # A file that includes this file has arguments of its own.
    if given != set(context.launch_configurations):
        return
    for name in sorted(given - OF_LAUNCH - set(names)):
        near = get_close_matches(name, names, n=1, cutoff=0.8)
        if near:
            raise ParameterError(f"no argument {name!r}; did you mean {near[0]!r}?")
        get_logger("launch").warning(f"no argument {name!r}: it is ignored; see --show-args")


def ended(event: ProcessExited, context: LaunchContext) -> None:
    """Let the launch return exit code 1 if a node fails; the other nodes run on."""
    if event.returncode and not context.is_shutdown:
        failure = f"{event.process_name} ended with exit code {event.returncode}"
        # Launch returns 1 after an error in its loop. One in this handler would end all nodes.
        context.asyncio_loop.call_exception_handler({"message": failure})


def stop(event: ProcessExited, context: LaunchContext) -> Shutdown | None:
    """Shut down once, as :func:`ended`: launch_ros allows one shutdown."""
    ended(event, context)
    return None if context.is_shutdown else Shutdown(reason=f"{event.process_name} ended")


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
    return file_description(declared(arguments), included(file, {**chosen, **fixed}))
