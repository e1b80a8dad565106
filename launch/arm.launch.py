"""The nodes of one arm: detector and controller, or the guard for an arm without torque interface.

Start this file once for each arm of a cell, with its namespace and, if the arms share one
description, the prefix of its joints and links.
"""

from __future__ import annotations

from typing import Any

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import GroupAction, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from rbd_control.errors import ParameterError
from rbd_control.ros.launching import declared, declared_switches, ended, file_description, included
from rbd_control.startup import arm_launch
from rbd_control.startup.arm_launch import (
    listed_names,
    node_parameters,
    parameter_file,
    require_sections,
)
from rbd_control.wording import listed

ARGUMENTS = {
    **arm_launch.ARGUMENTS,
    "prefix": (
        "",
        "text before the names of the arm's joints and links; it is put before the names in "
        "params_file",
    ),
    "joints": ("", "joints of the arm without prefix, separated by commas; empty: params_file's"),
    "commands": (
        "effort_controller/commands",
        "topic on which passivity_controller sends torque, such as "
        "forward_effort_controller/commands for a UR",
    ),
    "actions": (
        "",
        "actions that the guard cancels, separated by commas; empty: as in params_file",
    ),
}
"""Arguments with their default and description."""

SWITCHES = {
    "detector": ("true", "start the contact detector"),
    "controller": ("true", "start the passivity controller, which sends torque"),
    "guard": ("false", "start the contact guard, which stops an arm without torque interface"),
    "hand_guide": ("false", "start the hand guide, which lets a hand lead the arm"),
    "one_process": (
        "true",
        "run detector and controller in one process, if both are started: the reaction begins with "
        "the torque for the joint state in which the contact is detected",
    ),
    **arm_launch.SWITCHES,
}
"""Arguments that are true or false."""

NODES = {
    "detector": "contact_detector",
    "controller": "passivity_controller",
    "guard": "contact_guard",
    "hand_guide": "hand_guide",
}
"""Executable, and name of the node, by the argument that switches it on."""

IN_FRAMES = ("contact_detector", "passivity_controller", "hand_guide")
"""Nodes with the parameter ``frame_prefix``."""


def generate_launch_description() -> LaunchDescription:
    """Return what ``ros2 launch`` starts."""
    arguments = [*declared(ARGUMENTS), *declared_switches(SWITCHES)]
    return file_description(arguments, OpaqueFunction(function=arm))


def arm(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Return the nodes that are switched on."""
    given = {name: LaunchConfiguration(name).perform(context) for name in (*ARGUMENTS, *SWITCHES)}
    chosen = [what for what in NODES if given[what] == "true"]
    if not chosen and "true" not in (given["publish_robot_state"], given["rviz"]):
        raise ParameterError(f"nothing to start: set one of {listed(NODES)} to true")
    nodes = [NODES[what] for what in chosen]
    require_sections(given["params_file"], given["namespace"], nodes)
    together = {"detector", "controller"}
    # The nodes keep their own: another node of the file may have another description.
    shown = {**given, "urdf": given["urdf"] or _described(nodes, given)}
    result: list[LaunchDescriptionEntity] = [_robot_state(shown)]
    if given["one_process"] == "true" and together <= set(chosen):
        result.append(_both(given))
        chosen = [what for what in chosen if what not in together]
    return result + [_node(NODES[what], given) for what in chosen]


def _robot_state(given: dict[str, str]) -> GroupAction:
    """Return robot_state_publisher and RViz, where they are switched on."""
    names = (*arm_launch.ARGUMENTS, *arm_launch.SWITCHES)
    return included(
        "robot_state.launch.py", {name: given[name] for name in names if name != "params_file"}
    )


def _described(nodes: list[str], given: dict[str, str]) -> str:
    """Return the URDF that the parameter file names for the first node that has one."""
    found = (_parameters(node, given).get("urdf", "") for node in nodes)
    return next((str(urdf) for urdf in found if urdf), "")


def _both(given: dict[str, str]) -> Node:
    """Return detector and controller in one process, each with its own section of parameters."""
    parameters = {node: _parameters(node, given) for node in IN_FRAMES[:2]}
    return Node(
        package="rbd_control",
        executable="contact_aware_controller",
        namespace=given["namespace"],
        parameters=[parameter_file(given["namespace"], parameters)],
        remappings=_remappings(given),
        output="screen",
        on_exit=ended,
    )


def _parameters(executable: str, given: dict[str, str]) -> dict[str, Any]:
    """Return the parameters of one node."""
    parameters: dict[str, Any] = node_parameters(
        given["params_file"],
        given["namespace"],
        executable,
        given["prefix"],
        listed_names(given["joints"]),
        given["urdf"],
    )
    if given["actions"] and executable == "contact_guard":
        parameters["actions"] = listed_names(given["actions"])
    if given["frame_prefix"] and executable in IN_FRAMES:
        parameters["frame_prefix"] = given["frame_prefix"]
    if given["use_sim_time"] == "true":
        parameters["use_sim_time"] = True
    return parameters


def _remappings(given: dict[str, str]) -> list[tuple[str, str]]:
    same = [(topic, given[topic]) for topic in ("joint_states", "robot_description")]
    return [*same, ("effort_controller/commands", given["commands"])]


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
        on_exit=ended,
    )
