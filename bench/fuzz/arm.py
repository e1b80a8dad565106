"""The arm of the fuzzed nodes, with plausible messages from which fuzzed inputs are made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random

import numpy as np
from builtin_interfaces.msg import Time
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.simulation import arm7_urdf

POSTURE = (0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0)
"""Posture in which the simulated arm starts [rad]."""


@dataclass(frozen=True)
class Arm:
    """Names, limits, description and a state at rest of an arm.

    Attributes:
        joints: joint names in the order of the commands.
        links: links on which a push can act.
        torque_limit: largest torque of each joint [N·m].
        posture: joint positions at rest [rad].
        weight: joint torques that carry the arm in this posture [N·m].
        urdf: description as text.
    """

    joints: tuple[str, ...]
    links: tuple[str, ...]
    torque_limit: tuple[float, ...]
    posture: tuple[float, ...]
    weight: tuple[float, ...]
    urdf: str

    def joint_state(self, random: Random) -> JointState:
        """Return a plausible joint state near the posture, without a stamp."""
        message = JointState(name=list(self.joints))
        message.position = [q + random.gauss(0.0, 1e-3) for q in self.posture]
        message.velocity = [random.gauss(0.0, 1e-2) for _ in self.joints]
        message.effort = [tau + random.gauss(0.0, 0.1) for tau in self.weight]
        return message

    def trajectory(self, random: Random, points: int = 4) -> JointTrajectory:
        """Return a slow trajectory near the posture that stops at each of its points."""
        message = JointTrajectory(joint_names=list(self.joints))
        for k in range(points):
            message.points.append(
                trajectory_point(
                    [q + random.uniform(-0.2, 0.2) for q in self.posture], 0.8 * (k + 1)
                )
            )
        return message


def trajectory_point(positions: list[float], due: float) -> JointTrajectoryPoint:
    """Return a trajectory point with zero velocity.

    Args:
        positions: joint positions [rad].
        due: time from the start [s].
    """
    point = JointTrajectoryPoint(positions=positions, velocities=[0.0] * len(positions))
    point.time_from_start.sec = int(due)
    point.time_from_start.nanosec = round(1e9 * (due % 1.0))
    return point


def time_message(seconds: int, nanoseconds: int) -> Time:
    """Return a time message; any 32-bit numbers are accepted, also invalid nanoseconds."""
    return Time(sec=seconds, nanosec=nanoseconds)


@cache
def the_arm() -> Arm:
    """Return the arm that ships with the package."""
    urdf = arm7_urdf()
    model = Model.from_urdf(urdf)
    return Arm(
        joints=tuple(model.joint_names),
        links=tuple(model.link_names),
        torque_limit=tuple(float(limit) for limit in model.effort_limit),
        posture=POSTURE,
        weight=tuple(float(g) for g in gravity_torque(model, np.array(POSTURE))),
        urdf=urdf,
    )
