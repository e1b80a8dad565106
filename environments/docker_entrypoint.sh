#!/bin/bash
# Source ROS 2 and the package, then run what was asked for.
set -e
. "/opt/ros/$ROS_DISTRO/setup.bash"
. /opt/rbd_control/local_setup.bash
exec "$@"
