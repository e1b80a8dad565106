"""Process with the simulated arm of the loop: publishes joint states, stamped when they are sent.

The arm keeps its rate on average. On a busy machine it skips periods that it has missed.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import rclpy
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.dynamics import Model
from rbd_control.live.requests import CommandNode
from rbd_control.ros.messages import EVERY_SAMPLE, JointStateWriter, to_array
from rbd_control.ros.threads import take_priority
from rbd_control.ros.transports import without_shared_memory
from rbd_control.simulation import SimulatedArm, SimulationParameters, arm7_urdf
from rbd_control.startup.compilation import rehearse_arm

POSTURE = np.array([0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0])
PUSH_EVERY, PUSH_LASTS = 0.4, 0.15
"""Period and length of the pushes on the last link [s]."""
SWING, KNOT, SWINGS = 0.2, 0.5, 600
"""Amplitude of the swing [rad], time between two points of its trajectory [s], and their number."""


class LoopArm:
    """A simulated arm with seven joints that publishes joint states, and is pushed periodically.

    It also sends the controller one trajectory, a swing of all joints.

    Args:
        rate: joint states per second.

    Attributes:
        stamps: stamp of each published joint state [ns].
    """

    def __init__(self, rate: float) -> None:
        self._model = Model.from_urdf(arm7_urdf())
        parameters = SimulationParameters(
            rate=rate,
            initial_position=tuple(POSTURE),
            coulomb=(0.9, 0.9, 0.7, 0.7, 0.4, 0.3, 0.3),
            viscous=(1.0, 1.0, 0.8, 0.8, 0.5, 0.4, 0.4),
            effort_noise=0.05,
            encoder_resolution=1.2e-5,
            mass_error=0.01,
            seed=3,
        )
        rehearse_arm(SimulatedArm(self._model, parameters))
        self._arm = SimulatedArm(self._model, parameters)
        # The middleware refuses messages on a machine that is too busy; they count as lost.
        self._node = CommandNode("loop_arm", print)
        publisher = self._node.create_publisher(JointState, "joint_states", EVERY_SAMPLE)
        self._writer = JointStateWriter(publisher, self._model.joint_names)
        self._commands = self._node.create_subscription(
            Float64MultiArray, "effort_controller/commands", lambda _: None, QoSProfile(depth=1)
        )
        self._orders = self._node.create_publisher(
            JointTrajectory, "passivity_controller/joint_trajectory", QoSProfile(depth=1)
        )
        self._ordered = False
        self._pushed = 0.0
        self._clock = self._node.get_clock()
        self.stamps = array("q")

    def step(self) -> None:
        """Simulate one period with the newest torque command, and publish a joint state."""
        with self._commands.handle:
            taken = self._commands.handle.take_message(Float64MultiArray, False)
        self._arm.step(np.array(taken[0].data) if taken else None)
        if self._arm.time - self._pushed > PUSH_EVERY and not self._arm.braked:
            self._pushed = self._arm.time
            self._arm.push(self._model.joint_links[-1], (0.0, 30.0, 0.0), duration=PUSH_LASTS)
        reading = self._arm.reading()
        assert reading is not None
        effort = None if self._arm.braked else reading.tau
        now = self._clock.now()
        self.stamps.append(now.nanoseconds)
        self._writer.publish(now.to_msg(), reading.q, reading.v, effort)
        if not self._ordered and not self._arm.braked and self._arm.time > 1.0:
            self._ordered = True
            self._orders.publish(self._trajectory())

    def _trajectory(self) -> JointTrajectory:
        message = JointTrajectory(joint_names=list(self._model.joint_names))
        for k in range(SWINGS + 1):
            due = KNOT * (k + 1)
            # A quarter of the swing for each point, with zero velocity at each point.
            side = SWING * np.sin(0.5 * np.pi * k)
            point = JointTrajectoryPoint(positions=to_array(POSTURE + side))
            point.velocities = to_array(np.zeros(self._model.nv))
            point.time_from_start.sec = int(due)
            point.time_from_start.nanosec = round(1e9 * (due % 1.0))
            message.points.append(point)
        return message


def main(arguments: Sequence[str]) -> None:
    """Run the arm until SIGTERM, then write the stamps to the file of ``--out``."""
    parser = argparse.ArgumentParser(prog="python -m bench.loop.arm", description=__doc__)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--priority", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    with without_shared_memory():
        rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
        arm = LoopArm(given.rate)
    if given.priority:
        take_priority(given.priority)
    period = 1.0 / given.rate
    due = time.perf_counter()
    while not stopped:
        wait = due - time.perf_counter()
        if wait > 0.0:
            time.sleep(wait)
        elif wait < -period:
            due = time.perf_counter()
        due += period
        arm.step()
    np.save(given.out, np.array(arm.stamps, dtype=np.int64))
    rclpy.try_shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
