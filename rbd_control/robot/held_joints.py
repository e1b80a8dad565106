"""Held joints that carry the moving joints: which they are, and whether they stay in place.

The model holds a joint that a node does not move at one position. If such a joint carries moving
joints, such as a torso that tilts, the gravity torque of the model is wrong once it moves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf, pi, remainder
from typing import Any, NamedTuple

import numpy as np

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.robot.joint_choice import FARTHEST, joints_above

TOLERANCE = 0.01
"""Largest distance of a joint from its held position that counts as standing there [rad or m]."""

WEIGHT = 10
"""Amount by which a report beyond ``TOLERANCE`` raises the score of a joint; others lower it by 1.

The score is never below zero.
"""

LIMIT = 20
"""Score from which a joint counts as moved.

Two successive reports beyond ``TOLERANCE`` reach it; one report, which may be a wrong number, does
not. If several publishers contradict each other, the third such report reaches it if every second
report is beyond ``TOLERANCE`` (5 reports), and the eleventh if every tenth report is (101 reports).
With fewer the score does not grow.
"""

RETURN_TOLERANCE = 0.5 * TOLERANCE
"""Largest distance from the held position at which a moved joint counts as back [rad or m].

It is smaller than ``TOLERANCE``, so that the noise of a joint between them changes nothing.
"""

RETURN_TIME = 0.5
"""Time for which all reports of a moved joint must be within ``RETURN_TOLERANCE`` [s]."""

RETURN_REPORTS = 10
"""Minimum number of reports in this time; with fewer it is longer."""

MOST_NAMES = 64
"""Maximum number of lists of joint names whose places are stored."""

_SWING = 0.5
"""Displacement of a joint with which its effect on the gravity torque is computed [rad or m]."""

_LEAST_EFFECT = 5e-3
"""Smallest change of the gravity torque that counts, relative to the largest of all joints.

Axes in a description are inexact: a base that turns by ``_SWING`` about an axis 0.01 rad beside the
vertical changes the direction of gravity by 0.005 rad.
"""


class SupportingJoint(NamedTuple):
    """A held joint whose motion makes the model of the arm wrong.

    Attributes:
        name: name of the joint.
        position: position at which the model holds it [rad or m].
        is_continuous: whether it turns without limits, so that whole turns do not count.
    """

    name: str
    position: float
    is_continuous: bool


def supporting_joints(
    model: Model, moving: Collection[str], held: Mapping[str, float]
) -> tuple[SupportingJoint, ...]:
    """Return the held joints that carry joints of the arm and whose motion makes its model wrong.

    These are held joints between joints of the arm, and those below the arm whose motion changes
    its gravity torque. A vertical lift, and a base that turns about the vertical, do not change it.

    Args:
        model: the whole robot, with a fixed base, in which all joints move.
        moving: names of the joints of the arm.
        held: positions of the others by name [rad or m].
    """
    names = model.joint_names
    leader = {body: names[int(model.arrays.dof[row])] for body, row in model.joint_row.items()}
    carrying = frozenset[str]().union(
        *(joints_above(model, body) for body in leader if leader[body] in moving)
    )
    found = []
    for i, name in enumerate(names):
        is_within = name in held and name in carrying
        if is_within and (
            not joints_above(model, name).isdisjoint(moving)
            or _changes_weight(model, i, [names.index(each) for each in moving], held)
        ):
            is_endless = model.lower_limit[i] == -inf and not model.prismatic[i]
            found.append(SupportingJoint(name, held[name], bool(is_endless)))
    return tuple(found)


def _changes_weight(
    model: Model, joint: int, arm: Sequence[int], held: Mapping[str, float]
) -> bool:
    """Return whether the motion of a joint changes the gravity torque of the joints of the arm."""
    q = np.zeros((3, model.nq))
    for name, position in held.items():
        q[:, model.joint_index(name)] = position
    # No posture is singled out: in each, other joints carry no weight.
    q[:, arm] = np.linspace([-0.9, 0.1, 0.4], [0.3, 0.7, -1.1], len(arm)).T
    moved = q.copy()
    moved[:, joint] += _SWING
    g, after = gravity_torque(model, q)[:, arm], gravity_torque(model, moved)[:, arm]
    largest = max(np.abs(g).max(), np.abs(after).max())
    return bool(np.abs(after - g).max() > _LEAST_EFFECT * largest)


class HeldJoints:
    """Compares reported positions of held joints with the positions at which the model holds them.

    A joint has moved once its score reaches :data:`LIMIT`. It is back once it has been reported
    within :data:`RETURN_TOLERANCE` for :data:`RETURN_TIME` without exception, in at least
    :data:`RETURN_REPORTS` reports. Therefore neither noise at the tolerance nor a second publisher
    that contradicts the first makes the result alternate.

    Args:
        joints: the joints, see :func:`supporting_joints`.

    Attributes:
        moved: a sentence with the first joint that is not where the model holds it, its position
            when this was found, and the remedy; empty while all joints are in place or silent.
    """

    def __init__(self, joints: Sequence[SupportingJoint]) -> None:
        self._joints = {joint.name: joint for joint in joints}
        self._places: dict[Sequence[str], tuple[tuple[int, SupportingJoint], ...]] = {}
        self._scores: dict[str, int] = {}
        """Scores above zero of joints that have not moved."""
        self._returning: dict[str, tuple[float, int]] = {}
        """Time of the first of the successive reports near the held position [s], their number."""
        self._sentences: dict[str, str] = {}
        self.moved = ""

    def look(self, names: Sequence[str], positions: Any, now: float) -> None:
        """Look at the held joints in one joint state; it may contain none of them.

        A message with another number of positions than names is ignored, and so are positions that
        are NaN or beyond ``FARTHEST``.

        Args:
            names: names of its joints, a tuple.
            positions: positions in the order of ``names`` [rad or m].
            now: time of receipt on the steady clock [s].
        """
        places = self._places.get(names)
        if places is None:
            places = self._learn(names)
        if not places or len(positions) != len(names):
            return
        for place, joint in places:
            position = float(positions[place])
            off = abs(position - joint.position)
            if off > TOLERANCE or self._scores or self._sentences:
                self._judge(joint, position, off, now)

    def _judge(self, joint: SupportingJoint, position: float, off: float, now: float) -> None:
        """Decide whether a joint has moved or is back, and set :attr:`moved`.

        Args:
            joint: the joint.
            position: its reported position [rad or m].
            off: distance of this position from the held position [rad or m].
            now: time of receipt on the steady clock [s].
        """
        name = joint.name
        if joint.is_continuous and off < inf:
            off = abs(remainder(off, 2.0 * pi))
        if not off <= FARTHEST:  # also for NaN
            return
        if name in self._sentences:
            if self._is_back(name, off, now):
                del self._sentences[name]
        elif self._has_moved(name, off):
            self._sentences[name] = (
                f"held joint {name} is at {position:.4g} instead of {joint.position:.4g} and "
                f"carries the arm, so the model is wrong; move it back or configure the node "
                f"again, or name it in joints"
            )
        self.moved = next(iter(self._sentences.values()), "")

    def _has_moved(self, name: str, off: float) -> bool:
        """Update the score of a joint, and return whether it has reached :data:`LIMIT`."""
        score = self._scores.pop(name, 0) + (WEIGHT if off > TOLERANCE else -1)
        if 0 < score < LIMIT:
            self._scores[name] = score
        return score >= LIMIT

    def _is_back(self, name: str, off: float, now: float) -> bool:
        """Count the successive reports of a moved joint near its held position.

        Returns:
            Whether they are enough and have lasted long enough.
        """
        since, count = self._returning.pop(name, (now, 0))
        if off > RETURN_TOLERANCE:
            return False
        if count + 1 >= RETURN_REPORTS and now - since >= RETURN_TIME:
            return True
        self._returning[name] = (since, count + 1)
        return False

    def _learn(self, names: Sequence[str]) -> tuple[tuple[int, SupportingJoint], ...]:
        """Store and return the places of the held joints in a list of names."""
        places = tuple(
            (i, self._joints[name]) for i, name in enumerate(names) if name in self._joints
        )
        if len(self._places) >= MOST_NAMES:
            self._places.clear()
        self._places[names] = places
        return places
