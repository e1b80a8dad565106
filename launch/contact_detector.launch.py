"""The contact detector beside a robot that runs already and publishes its joint states."""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
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
                "urdf",
                default_value="",
                description="path of the robot's URDF; empty: the topic robot_description",
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
                description="take the time from /clock",
            ),
            Node(
                package="rbd_control",
                executable="contact_detector",
                name="contact_detector",
                namespace=LaunchConfiguration("namespace"),
                parameters=[
                    LaunchConfiguration("params_file"),
                    {
                        "urdf": ParameterValue(LaunchConfiguration("urdf"), value_type=str),
                        "use_sim_time": ParameterValue(
                            LaunchConfiguration("use_sim_time"), value_type=bool
                        ),
                    },
                ],
                remappings=[("joint_states", LaunchConfiguration("joint_states"))],
                output="screen",
            ),
        ]
    )
