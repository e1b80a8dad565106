"""Motions and pushes of the soak, and the criterion for pushes that must be detected.

In the posture in which it begins, a push loads at least one joint with :data:`LEAST_RATIO` times
the detector's threshold for that joint. This is more than the threshold plus twice the joint's
Coulomb friction, which is the largest torque that friction of unknown direction can hide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.dynamics import Model, frame_jacobian
from rbd_control.ros.messages import to_array

Array = NDArray[np.float64]

POSTURE = np.array([0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0])
"""Centre of all motions [rad]."""

REACH = 0.4
"""Largest distance of a joint from the centre [rad]."""

SPEED = 0.5
"""Mean speed of the joint that moves farthest [rad/s]."""

POINTS = 8
"""Number of points of a motion; the arm stops at each point."""

LEAST_RATIO, MOST_RATIO = 2.0, 4.0
"""Bounds of the largest ratio of a push's joint torque to the threshold of the joint."""

MOST_FORCE = 60.0
"""Largest force of a push [N]; if a larger force would be needed, another link is pushed."""

_TRIES = 100


@dataclass(frozen=True)
class Push:
    """A force at the origin of a link.

    Attributes:
        link: name of the link.
        force: force in world axes, (3,) [N].
        ratio: largest ratio of a joint torque to the threshold of that joint.
    """

    link: str
    force: tuple[float, float, float]
    ratio: float


def make_push(random: Random, model: Model, q: Array, thresholds: Array) -> Push | None:
    """Return a random push that the detector must detect; None if no such push is found.

    Args:
        random: source of link, direction and size.
        model: the arm.
        q: present joint positions, (nv,) [rad].
        thresholds: contact thresholds of the detector, (nv,) [N·m].
    """
    links = [*model.joint_links[1:], "tool"]
    for _ in range(_TRIES):
        link = random.choice(links)
        direction = np.array([random.gauss(0.0, 1.0) for _ in range(3)])
        direction /= np.linalg.norm(direction)
        # The Jacobian is world-aligned with the angular rows first.
        torque = frame_jacobian(model, q, link)[3:].T @ direction
        each_newton = float((np.abs(torque) / thresholds).max())
        ratio = random.uniform(LEAST_RATIO, MOST_RATIO)
        size = ratio / max(each_newton, 1e-9)
        if size <= MOST_FORCE:
            x, y, z = (float(part) for part in size * direction)
            return Push(link, (x, y, z), ratio)
    return None


def make_motion(random: Random, joints: Sequence[str], q: Array) -> JointTrajectory:
    """Return a trajectory message through :data:`POINTS` random postures near :data:`POSTURE`.

    Args:
        random: source of the postures.
        joints: names of the joints.
        q: present joint positions, from which the motion starts, (nv,) [rad].
    """
    message = JointTrajectory(joint_names=list(joints))
    due, last = 0.0, q
    for _ in range(POINTS):
        goal = POSTURE + np.array([random.uniform(-REACH, REACH) for _ in joints])
        due += max(float(np.abs(goal - last).max()) / SPEED, 0.5)
        point = JointTrajectoryPoint(positions=to_array(goal))
        point.velocities = to_array(np.zeros(len(joints)))
        point.time_from_start.sec = int(due)
        point.time_from_start.nanosec = round(1e9 * (due % 1.0))
        message.points.append(point)
        last = goal
    return message
