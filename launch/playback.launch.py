"""A recording played onto ``joint_states``, and the contact detector that listens to it."""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, Shutdown
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare


def generate_launch_description() -> LaunchDescription:
    default_parameters = PathJoinSubstitution(
        [FindPackageShare("rbd_control"), "config", "contact_detector.yaml"]
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
                description="parameters of the detector",
            ),
            DeclareLaunchArgument(
                "rate", default_value="1.0", description="speed of the playback; 1 is as recorded"
            ),
            Node(
                package="rbd_control",
                executable="contact_detector",
                name="contact_detector",
                parameters=[
                    LaunchConfiguration("params_file"),
                    {"urdf": ParameterValue(LaunchConfiguration("urdf"), value_type=str)},
                ],
                output="screen",
            ),
            Node(
                package="rbd_control",
                executable="joint_state_player",
                name="joint_state_player",
                parameters=[
                    {
                        "recording": ParameterValue(
                            LaunchConfiguration("recording"), value_type=str
                        ),
                        "rate": ParameterValue(LaunchConfiguration("rate"), value_type=float),
                    }
                ],
                output="screen",
                on_exit=Shutdown(reason="the recording has ended"),
            ),
        ]
    )
