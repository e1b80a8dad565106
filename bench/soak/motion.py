"""Motions and pushes of the soak, and the criterion by which a push must be found.

A push is staged so that at the posture where it begins it loads at least one joint with
:data:`LEAST_RATIO` times the detector's threshold of that joint. This is also more than the
threshold plus twice the joint's Coulomb friction, the most by which friction of unknown direction
can hide a torque.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.dynamics import Model, frame_jacobian
from rbd_control.nodes.messages import to_array

Array = NDArray[np.float64]

POSTURE = np.array([0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0])
"""Centre of all motions [rad]."""

REACH = 0.4
"""Largest distance of a joint from the centre [rad]."""

SPEED = 0.5
"""Mean speed of the joint with the longest way [rad/s]."""

POINTS = 8
"""Points of a motion, at each of which the arm comes to rest."""

LEAST_RATIO, MOST_RATIO = 2.0, 4.0
"""Joint torque of a push over the threshold, at the joint where that is largest."""

MOST_FORCE = 60.0
"""Largest force of a push; where more would be needed, another link is pushed [N]."""

_TRIES = 100


@dataclass(frozen=True)
class Push:
    """A push at the origin of a link.

    Attributes:
        link: the link.
        force: world axes [N].
        ratio: largest joint torque over the threshold of that joint.
    """

    link: str
    force: tuple[float, float, float]
    ratio: float


def make_push(random: Random, model: Model, q: Array, thresholds: Array) -> Push | None:
    """Return a push that must be found at posture ``q``; None where no link can be pushed so."""
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
    """Return a motion through several postures, beginning at ``q``."""
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
