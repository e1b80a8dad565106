"""The demo: simulated arm, controller and detector, and the scenario that moves and pushes the arm.

Each is a process of its own. `rbd-control demo` plays the same scenario and scores the detector.
"""

from __future__ import annotations

from collections.abc import Callable

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from rbd_control.ros.launching import (
    declared,
    declared_switches,
    ended,
    file_description,
    included,
    stop,
)
from rbd_control.startup import arm_launch
from rbd_control.startup.arm_launch import configuration, node_parameters, require_sections

NODES = ("simulated_arm", "passivity_controller", "contact_detector")

SHARED = ("namespace", "joint_states", "robot_description", "frame_prefix")
"""Arguments that this file takes of those which launch files share."""

ARGUMENTS = {
    "params_file": (configuration("demo.yaml"), "parameters of the nodes"),
    **{name: arm_launch.ARGUMENTS[name] for name in SHARED},
}
"""Arguments with their default and description."""

SWITCHES = {
    "scenario": ("true", "move and push the arm as `rbd-control demo` does; false: the arm holds"),
    **{name: arm_launch.SWITCHES[name] for name in ("publish_robot_state", "rviz")},
}
"""Arguments that are true or false."""

COMMANDS = ("effort_controller/commands", "simulated_arm/commands")
"""Remapping of the torque topic: under its usual name, the driver of a real arm in the same ROS
domain would receive the torque."""


def generate_launch_description() -> LaunchDescription:
    """Return what ``ros2 launch`` starts."""
    loop = DeclareLaunchArgument(
        "loop",
        default_value="",
        choices=["", "true", "false"],
        description="begin the scenario again when it is over; empty: params_file's",
    )
    arguments = [*declared(ARGUMENTS), *declared_switches(SWITCHES), loop]
    return file_description(arguments, OpaqueFunction(function=demo))


def demo(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Return the nodes, and robot_state_publisher and RViz where they are switched on."""
    names = (*ARGUMENTS, *SWITCHES, "loop")
    given = {name: LaunchConfiguration(name).perform(context) for name in names}
    require_sections(given["params_file"], given["namespace"], NODES)
    arm = node_parameters(given["params_file"], given["namespace"], "simulated_arm")
    passed = {name: given[name] for name in (*SHARED, "publish_robot_state", "rviz")}
    passed["urdf"] = str(arm.get("urdf", ""))
    # An arm keeps the last torque it was given, so none of the three runs alone.
    nodes = [_node(name, given, stop) for name in NODES]
    scenario = [_node("demo_scenario", given, ended)] if given["scenario"] == "true" else []
    return [included("robot_state.launch.py", passed), *nodes, *scenario]


def _node(name: str, given: dict[str, str], on_exit: Callable[..., Shutdown | None]) -> Node:
    parameters = node_parameters(given["params_file"], given["namespace"], name)
    if name == "demo_scenario":
        if given["loop"]:
            parameters["loop"] = given["loop"] == "true"
    elif name != "simulated_arm" and given["frame_prefix"]:
        parameters["frame_prefix"] = given["frame_prefix"]
    return Node(
        package="rbd_control",
        executable=name,
        name=name,
        namespace=given["namespace"],
        parameters=[
            {
                # Launch would read a text as YAML.
                key: ParameterValue(value, value_type=str) if isinstance(value, str) else value
                for key, value in parameters.items()
            }
        ]
        if parameters
        else [],
        remappings=[
            *((topic, given[topic]) for topic in ("joint_states", "robot_description")),
            COMMANDS,
        ],
        output="screen",
        on_exit=on_exit,
    )
