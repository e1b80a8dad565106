"""A recording published on ``joint_states``, and the contact detector that subscribes to it.

The player starts after the detector is active, because compilation can take a minute, and a short
recording would be over by then.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    OpaqueFunction,
    RegisterEventHandler,
)
from launch.event_handlers import OnProcessStart
from launch.events import matches_action
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, Node
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from launch_ros.parameter_descriptions import ParameterValue
from lifecycle_msgs.msg import Transition

from rbd_control.errors import RbdControlError, RecordingError
from rbd_control.files.input_files import is_absent
from rbd_control.playback.recorded_joints import joints_to_play
from rbd_control.robot.robot import robot_parameters
from rbd_control.ros.launching import declared, declared_switches, file_description, included, stop
from rbd_control.startup import arm_launch
from rbd_control.startup.arm_launch import (
    configuration,
    listed_names,
    node_parameters,
    require_sections,
)

SHARED = ("namespace", "joint_states", "robot_description", "frame_prefix")
"""Arguments that this file takes of those which launch files share."""

ARGUMENTS = {
    "params_file": (
        configuration("contact_detector.yaml"),
        "parameters of the detector, and of the player if it has a section",
    ),
    "topic": ("/joint_states", "topic of the joint states within the recording"),
    "rate": ("1.0", "speed of the playback; 1 is as recorded"),
    "joints": (
        "",
        "joints of the arm, separated by commas; empty: params_file's, else those of the "
        "description whose effort was recorded",
    ),
    "urdf": ("", "path of the recorded robot's URDF; empty: params_file's"),
    **{name: arm_launch.ARGUMENTS[name] for name in SHARED},
}
"""Arguments with their default and description."""

RECORDING = "a rosbag2 folder, or file .db3, .mcap, .bag (ROS 1) or .csv"
"""Description of ``recording``, the only argument without a default."""

SWITCHES = {name: arm_launch.SWITCHES[name] for name in ("publish_robot_state", "rviz")}
"""Arguments that are true or false."""


def generate_launch_description() -> LaunchDescription:
    """Return what ``ros2 launch`` starts."""
    loop = DeclareLaunchArgument(
        "loop",
        default_value="",
        choices=["", "true", "false"],
        description="start again at the end of the recording; empty: params_file's",
    )
    recording = DeclareLaunchArgument("recording", description=RECORDING)
    arguments = [recording, *declared(ARGUMENTS), *declared_switches(SWITCHES), loop]
    return file_description(arguments, OpaqueFunction(function=playback))


def playback(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Return detector and player, tied together."""
    names = ("recording", *ARGUMENTS, *SWITCHES, "loop")
    given = {name: LaunchConfiguration(name).perform(context) for name in names}
    if is_absent(given["recording"]):
        raise RecordingError(f"recording: {given['recording']}: there is no such file or folder")
    require_sections(given["params_file"], given["namespace"], ["contact_detector"])
    detector, player = _detector(given), _player(given)
    passed = {name: given[name] for name in (*SHARED, *SWITCHES)}
    passed["urdf"] = str(_parameters("contact_detector", given).get("urdf", ""))
    return [
        included("robot_state.launch.py", passed),
        RegisterEventHandler(
            OnProcessStart(
                target_action=detector,
                on_start=[_change(detector, Transition.TRANSITION_CONFIGURE)],
            )
        ),
        _when(
            detector, "configuring", "inactive", _change(detector, Transition.TRANSITION_ACTIVATE)
        ),
        _when(
            detector,
            "configuring",
            "unconfigured",
            OpaqueFunction(function=_end_without_detector),
        ),
        _when(detector, "activating", "active", player),
        detector,
    ]


def _end_without_detector(_context: LaunchContext) -> None:
    """End the launch with exit code 1."""
    raise RbdControlError("the detector cannot start")


def _detector(given: dict[str, str]) -> LifecycleNode:
    parameters = _parameters("contact_detector", given)
    parameters["autostart"] = False
    if not parameters.get("joints"):
        parameters |= _recorded_joints(given, parameters)
    if given["frame_prefix"]:
        parameters["frame_prefix"] = given["frame_prefix"]
    return LifecycleNode(**_started("contact_detector", parameters, given))


def _recorded_joints(given: dict[str, str], parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameter ``joints``, where the description has more joints than were recorded.

    The node tells which joints it holds, and where.
    """
    arm = robot_parameters(parameters)
    # What cannot be read is refused by the nodes, which tell the reason.
    with suppress(RbdControlError):
        joints = joints_to_play(given["recording"], given["topic"], arm)
        return {"joints": list(joints)} if joints else {}
    return {}


def _player(given: dict[str, str]) -> Node:
    parameters = _parameters("joint_state_player", given)
    parameters |= {
        "recording": given["recording"],
        "topic": given["topic"],
        "rate": float(given["rate"]),
    }
    if given["loop"]:
        parameters["loop"] = given["loop"] == "true"
    return Node(**_started("joint_state_player", parameters, given))


def _started(name: str, parameters: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    """Return the arguments of the action that starts a node; the launch stops when it ends."""
    return {
        "package": "rbd_control",
        "executable": name,
        "name": name,
        "namespace": given["namespace"],
        "parameters": [_typed(parameters)],
        "remappings": _remappings(given),
        "output": "screen",
        "on_exit": stop,
    }


def _parameters(node: str, given: dict[str, str]) -> dict[str, Any]:
    file, namespace = given["params_file"], given["namespace"]
    if node != "contact_detector":
        return node_parameters(file, namespace, node)
    joints = listed_names(given["joints"])
    return node_parameters(file, namespace, node, joints=joints, urdf=given["urdf"])


def _typed(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters whose texts launch does not read as YAML."""
    return {
        name: ParameterValue(value, value_type=str) if isinstance(value, str) else value
        for name, value in parameters.items()
    }


def _remappings(given: dict[str, str]) -> list[tuple[str, str]]:
    return [(topic, given[topic]) for topic in ("joint_states", "robot_description")]


def _change(node: LifecycleNode, transition: int) -> EmitEvent:
    return EmitEvent(
        event=ChangeState(lifecycle_node_matcher=matches_action(node), transition_id=transition)
    )


def _when(
    node: LifecycleNode, start: str, goal: str, action: EmitEvent | Node | OpaqueFunction
) -> RegisterEventHandler:
    """Return the handler that takes an action when a node goes from one state to another."""
    return RegisterEventHandler(
        OnStateTransition(
            target_lifecycle_node=node, start_state=start, goal_state=goal, entities=[action]
        )
    )
