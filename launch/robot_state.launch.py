"""robot_state_publisher and RViz beside the nodes; the other launch files include this one."""

from __future__ import annotations

from typing import Any

from launch import LaunchContext, LaunchDescription
from launch.actions import OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from rbd_control.ros.launching import declared, declared_switches, file_description
from rbd_control.startup.arm_launch import (
    ARGUMENTS,
    SWITCHES,
    configuration,
    published_description,
    require_package,
    root_link,
)

NAMES = ("urdf", "namespace", "joint_states", "robot_description", "frame_prefix")
"""Arguments that this file takes of those which launch files share."""


def generate_launch_description() -> LaunchDescription:
    """Return what ``ros2 launch`` starts."""
    # The other launch files pass all switches on.
    switches = {**SWITCHES, "publish_robot_state": ("true", "start robot_state_publisher")}
    arguments = declared({name: ARGUMENTS[name] for name in NAMES}) + declared_switches(switches)
    return file_description(arguments, OpaqueFunction(function=nodes))


def nodes(context: LaunchContext) -> list[Node]:
    """Return the nodes that are switched on."""
    given = {name: LaunchConfiguration(name).perform(context) for name in (*NAMES, *SWITCHES)}
    return [
        *([_state_publisher(given)] if given["publish_robot_state"] == "true" else []),
        *([_rviz(given)] if given["rviz"] == "true" else []),
    ]


def _state_publisher(given: dict[str, str]) -> Node:
    require_package("robot_state_publisher", "publish_robot_state")
    text = published_description(given["urdf"])
    return Node(
        package="robot_state_publisher",
        executable="robot_state_publisher",
        namespace=given["namespace"],
        parameters=[
            {
                # Launch would read a text as YAML.
                "robot_description": ParameterValue(text, value_type=str),
                "frame_prefix": ParameterValue(given["frame_prefix"], value_type=str),
                **_time(given),
            }
        ],
        remappings=_remappings(given, "joint_states", "robot_description"),
        output="screen",
    )


def _rviz(given: dict[str, str]) -> Node:
    require_package("rviz2", "rviz")
    arguments = ["-d", configuration("rviz/contacts.rviz")]
    if given["urdf"]:
        root = root_link(published_description(given["urdf"]))
        arguments += ["-f", given["frame_prefix"] + root]
    return Node(
        package="rviz2",
        executable="rviz2",
        namespace=given["namespace"],
        arguments=arguments,
        parameters=[_time(given)] if _time(given) else [],
        remappings=_remappings(given, "robot_description"),
        output="screen",
    )


def _time(given: dict[str, str]) -> dict[str, Any]:
    return {"use_sim_time": True} if given["use_sim_time"] == "true" else {}


def _remappings(given: dict[str, str], *topics: str) -> list[tuple[str, str]]:
    return [(topic, given[topic]) for topic in topics]
