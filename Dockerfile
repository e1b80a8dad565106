# rbd_control on ROS 2 Jazzy.
#
#   docker build -t rbd_control .
#   docker run --rm rbd_control                       # the demo
#   docker run --rm --network host --ipc host rbd_control \
#       ros2 launch rbd_control contact_detector.launch.py joint_states:=/franka/joint_states
#
# `--network host --ipc host` lets DDS find the robot's nodes. This file was checked with hadolint; no
# image was built of it.

FROM ros:jazzy-ros-base AS dependencies
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /ws
COPY package.xml src/rbd_control/package.xml
# rosdep chooses the versions of the distribution, which change with its security updates.
RUN apt-get update \
    && rosdep update --rosdistro "$ROS_DISTRO" \
    && rosdep install -y --from-paths src --ignore-src --dependency-types exec \
    && apt-get install -y --no-install-recommends python3-pip \
    && python3 -m pip install --no-cache-dir --break-system-packages rosbags xacrodoc \
    && rm -rf /var/lib/apt/lists/* /root/.ros

FROM dependencies AS build
COPY . src/rbd_control
RUN . "/opt/ros/$ROS_DISTRO/setup.bash" \
    && colcon build --merge-install --packages-select rbd_control

FROM dependencies AS runtime
# The user owns the installed package, because compiled code is stored beside its sources.
RUN useradd --uid 1001 --create-home --shell /bin/bash rbd
COPY --from=build --chown=1001:1001 /ws/install /opt/rbd_control
COPY environments/docker_entrypoint.sh /entrypoint.sh
USER 1001
ENV HOME=/home/rbd
WORKDIR /home/rbd
# The code is for the processor of this machine; on one of another kind the first start compiles.
RUN /entrypoint.sh ros2 run rbd_control rbd-control warmup
ENTRYPOINT ["/entrypoint.sh"]
CMD ["ros2", "run", "rbd_control", "rbd-control", "demo", "--report", "report"]
