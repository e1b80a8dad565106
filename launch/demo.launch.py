"""The simulated arm, its controller and the contact detector, each a process of its own."""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, Shutdown
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare


def generate_launch_description() -> LaunchDescription:
    """Return what ``ros2 launch`` starts."""
    default_parameters = PathJoinSubstitution(
        [FindPackageShare("rbd_control"), "config", "demo.yaml"]
    )
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "params_file",
                default_value=default_parameters,
                description="parameters of the three nodes",
            ),
            *(
                Node(
                    package="rbd_control",
                    executable=name,
                    name=name,
                    parameters=[LaunchConfiguration("params_file")],
                    output="screen",
                    # An arm may keep the last torque, so the three nodes end together.
                    on_exit=Shutdown(reason=f"{name} ended"),
                )
                for name in ("simulated_arm", "passivity_controller", "contact_detector")
            ),
        ]
    )
