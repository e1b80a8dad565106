"""The contact detector beside a running robot that publishes its joint states."""

from __future__ import annotations

from typing import Any

import yaml
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare


def generate_launch_description() -> LaunchDescription:
    """Return what ``ros2 launch`` starts."""
    default_parameters = PathJoinSubstitution(
        [FindPackageShare("rbd_control"), "config", "contact_detector.yaml"]
    )
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "urdf",
                default_value="",
                description="path of the robot's URDF; empty: what params_file says, else the "
                "topic robot_description",
            ),
            DeclareLaunchArgument(
                "params_file",
                default_value=default_parameters,
                description="parameters of the detector",
            ),
            DeclareLaunchArgument(
                "joint_states",
                default_value="joint_states",
                description="topic with the robot's measured joint states",
            ),
            DeclareLaunchArgument(
                "namespace", default_value="", description="namespace of the detector's names"
            ),
            DeclareLaunchArgument(
                "use_sim_time",
                default_value="false",
                choices=["true", "false"],
                description="true: take the time from /clock",
            ),
            OpaqueFunction(function=detector),
        ]
    )


def detector(context: LaunchContext) -> list[Node]:
    """Return the node; arguments that were given override the values of the file."""
    given: dict[str, Any] = {}
    urdf = LaunchConfiguration("urdf").perform(context)
    if urdf:
        given["urdf"] = urdf
    if LaunchConfiguration("use_sim_time").perform(context) == "true":
        given["use_sim_time"] = True
    namespace = LaunchConfiguration("namespace").perform(context)
    params_file = LaunchConfiguration("params_file").perform(context)
    # Later values override earlier ones. An empty value would be an error.
    parameters = [root_section(params_file) if namespace else {}, params_file, given]
    return [
        Node(
            package="rbd_control",
            executable="contact_detector",
            name="contact_detector",
            namespace=namespace,
            parameters=[item for item in parameters if item],
            remappings=[("joint_states", LaunchConfiguration("joint_states"))],
            output="screen",
        )
    ]


def root_section(params_file: str) -> dict[str, Any]:
    """Return the section of the file that has the detector's name without a namespace.

    ROS 2 applies such a section only to a node outside any namespace, and otherwise silently
    ignores it.
    """
    with open(params_file, encoding="utf-8") as file:
        section = (yaml.safe_load(file) or {}).get("contact_detector", {})
    parameters: dict[str, Any] = section.get("ros__parameters", {})
    return parameters
