"""A recording published on ``joint_states``, and the contact detector that subscribes to it.

The player starts after the detector is active, because compilation can take a minute, and a short
recording would be over by then.
"""

from __future__ import annotations

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, EmitEvent, RegisterEventHandler, Shutdown
from launch.event_handlers import OnProcessStart
from launch.events import matches_action
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import LifecycleNode, Node
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare
from lifecycle_msgs.msg import Transition


def generate_launch_description() -> LaunchDescription:
    """Return what ``ros2 launch`` starts."""
    default_parameters = PathJoinSubstitution(
        [FindPackageShare("rbd_control"), "config", "contact_detector.yaml"]
    )
    detector = LifecycleNode(
        package="rbd_control",
        executable="contact_detector",
        name="contact_detector",
        namespace="",
        parameters=[
            LaunchConfiguration("params_file"),
            {
                "urdf": ParameterValue(LaunchConfiguration("urdf"), value_type=str),
                "autostart": False,
            },
        ],
        output="screen",
        on_exit=stop,
    )
    player = Node(
        package="rbd_control",
        executable="joint_state_player",
        name="joint_state_player",
        parameters=[
            LaunchConfiguration("params_file"),
            {
                "recording": ParameterValue(LaunchConfiguration("recording"), value_type=str),
                "topic": ParameterValue(LaunchConfiguration("topic"), value_type=str),
                "rate": ParameterValue(LaunchConfiguration("rate"), value_type=float),
            },
        ],
        output="screen",
        on_exit=stop,
    )

    def change(transition: int) -> EmitEvent:
        return EmitEvent(
            event=ChangeState(
                lifecycle_node_matcher=matches_action(detector), transition_id=transition
            )
        )

    def when(start: str, goal: str, action: EmitEvent | Node | Shutdown) -> RegisterEventHandler:
        return RegisterEventHandler(
            OnStateTransition(
                target_lifecycle_node=detector,
                start_state=start,
                goal_state=goal,
                entities=[action],
            )
        )

    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "recording", description="a rosbag2 folder, .db3, .mcap or CSV file"
            ),
            DeclareLaunchArgument("urdf", description="path of the recorded robot's URDF"),
            DeclareLaunchArgument(
                "params_file",
                default_value=default_parameters,
                description="parameters of the detector, and of the player if it has a section",
            ),
            DeclareLaunchArgument(
                "topic",
                default_value="/joint_states",
                description="topic of the joint states within the recording",
            ),
            DeclareLaunchArgument(
                "rate", default_value="1.0", description="speed of the playback; 1 is as recorded"
            ),
            RegisterEventHandler(
                OnProcessStart(
                    target_action=detector, on_start=[change(Transition.TRANSITION_CONFIGURE)]
                )
            ),
            when("configuring", "inactive", change(Transition.TRANSITION_ACTIVATE)),
            when("configuring", "unconfigured", Shutdown(reason="the detector cannot start")),
            when("activating", "active", player),
            detector,
        ]
    )


def stop(event: ProcessExited, context: LaunchContext) -> Shutdown | None:
    """Shut down when one node ends; a second shutdown would be an error in launch_ros."""
    return None if context.is_shutdown else Shutdown(reason=f"{event.process_name} ended")
