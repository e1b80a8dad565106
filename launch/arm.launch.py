"""The nodes of one arm: detector and controller, or the guard for an arm without torque interface.

Start this file once for each arm of a cell, with its namespace and, if the arms share one
description, the prefix of its joints and links.
"""

from __future__ import annotations

from typing import Any

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from rbd_control.startup.arm_launch import node_parameters, parameter_file

ARGUMENTS = {
    "namespace": ("", "namespace of the arm's nodes and topics"),
    "prefix": (
        "",
        "prefix of the arm's joints and links; it is added to the names in params_file",
    ),
    "params_file": ("", "parameters of the arm, as calibrate writes them; empty: the defaults"),
    "joints": ("", "joints without prefix, separated by commas; empty: as in params_file"),
    "actions": (
        "",
        "actions that the guard cancels, separated by commas; empty: as in params_file",
    ),
    "urdf": ("", "path of the URDF; empty: as in params_file, else the topic robot_description"),
    "joint_states": ("joint_states", "topic with the measured joint states of the arm"),
    "robot_description": ("robot_description", "topic with the description of the arm"),
}
"""Arguments with their default and description."""

SWITCHES = {
    "detector": ("true", "start the contact detector"),
    "controller": ("true", "start the passivity controller, which sends torque"),
    "guard": ("false", "start the contact guard, which stops an arm without torque interface"),
    "one_process": (
        "true",
        "run detector and controller in one process, if both are started: the reaction begins with "
        "the torque for the joint state in which the contact is detected",
    ),
    "use_sim_time": ("false", "take the time from /clock"),
}
"""Arguments that are true or false."""

NODES = {
    "detector": "contact_detector",
    "controller": "passivity_controller",
    "guard": "contact_guard",
}
"""Executable, and name of the node, by the argument that switches it on."""


def generate_launch_description() -> LaunchDescription:
    """Return what ``ros2 launch`` starts."""
    arguments = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in ARGUMENTS.items()
    ]
    switches = [
        DeclareLaunchArgument(
            name, default_value=default, choices=["true", "false"], description=description
        )
        for name, (default, description) in SWITCHES.items()
    ]
    return LaunchDescription([*arguments, *switches, OpaqueFunction(function=arm)])


def arm(context: LaunchContext) -> list[Node]:
    """Return the nodes that are switched on."""
    given = {name: LaunchConfiguration(name).perform(context) for name in (*ARGUMENTS, *SWITCHES)}
    chosen = [what for what in NODES if given[what] == "true"]
    together = {"detector", "controller"}
    result = []
    if given["one_process"] == "true" and together <= set(chosen):
        result.append(_both(given))
        chosen = [what for what in chosen if what not in together]
    return result + [_node(NODES[what], given) for what in chosen]


def _both(given: dict[str, str]) -> Node:
    """Return detector and controller in one process, each with its own section of parameters."""
    nodes = (NODES["detector"], NODES["controller"])
    parameters = {node: _parameters(node, given) for node in nodes}
    return Node(
        package="rbd_control",
        executable="contact_aware_controller",
        namespace=given["namespace"],
        parameters=[parameter_file(given["namespace"], parameters)],
        remappings=_remappings(given),
        output="screen",
    )


def _parameters(executable: str, given: dict[str, str]) -> dict[str, Any]:
    """Return the parameters of one node."""
    parameters: dict[str, Any] = node_parameters(
        given["params_file"],
        given["namespace"],
        executable,
        given["prefix"],
        _listed(given["joints"]),
    )
    if given["actions"] and executable == "contact_guard":
        parameters["actions"] = _listed(given["actions"])
    if given["urdf"]:
        parameters["urdf"] = given["urdf"]
    if given["use_sim_time"] == "true":
        parameters["use_sim_time"] = True
    return parameters


def _remappings(given: dict[str, str]) -> list[tuple[str, str]]:
    return [(topic, given[topic]) for topic in ("joint_states", "robot_description")]


def _node(executable: str, given: dict[str, str]) -> Node:
    typed = {
        # Launch would read a text as YAML.
        name: ParameterValue(value, value_type=str) if isinstance(value, str) else value
        for name, value in _parameters(executable, given).items()
    }
    return Node(
        package="rbd_control",
        executable=executable,
        name=executable,
        namespace=given["namespace"],
        parameters=[typed] if typed else [],
        remappings=_remappings(given),
        output="screen",
    )


def _listed(text: str) -> list[str]:
    """Return the names of a text that separates them by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]
