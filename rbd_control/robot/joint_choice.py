"""Which joints are the arm's, and which of the held joints carry it.

**Choice of the joints of a description if the parameters do not name them.**

A description often contains more than the arm: the fingers of a hand, a mobile base, a second arm.
A node uses the joints whose effort is in the joint states, and treats the others as fixed. If each
of several drivers publishes efforts of its own joints, the arm is the largest of these sets,
provided that it carries all the others at its end; otherwise the parameters must name the joints.

**Held joints that carry the moving joints: which they are, and whether they stay in place.**

The model holds a joint that a node does not move at one position. If such a joint carries moving
joints, such as a torso that tilts, the gravity torque of the model is wrong once it moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import inf, pi, remainder
from typing import Any, NamedTuple

import numpy as np

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError
from rbd_control.wording import listed

Measured = Sequence[str] | Callable[[Model], Sequence[str]]
"""Names of joints whose effort is measured, or a function that selects them for a model."""

Reported = Mapping[str, float] | Callable[[Model], Mapping[str, float]]
"""Positions by joint name in joint states [rad or m], or a function that gives them for a model."""

FARTHEST = 1e4
"""Largest plausible joint position [rad or m]; positions beyond it are ignored."""

MOST_JOINTS = 1000
"""Maximum number of stored joints; a description can have as many."""

MOST_SETS = 20
"""Maximum number of stored sets of joints with effort; the largest sets are kept."""

SHOWN = 40
"""Longest list of the joints of one set in a message [characters]."""


def is_one_arm(model: Model) -> bool:
    """Return whether the moving joints of a robot form one serial chain without mimic joints."""
    parent = model.arrays.parent[: model.bodies].tolist()
    return not model.mimic_joints and parent == list(range(-1, model.bodies - 1))


def joints_above(model: Model, joint: str) -> frozenset[str]:
    """Return the joints between the root and a joint; for a mimic joint, the joint that it mimics.

    Args:
        model: a robot with a fixed base.
        joint: name of a moving joint, which may mimic another.
    """
    arrays, names = model.arrays, model.joint_names
    above, row = set(), int(arrays.parent[model.joint_row[joint]])
    while row >= 0:
        above.add(names[int(arrays.dof[row])])
        row = int(arrays.parent[row])
    return frozenset(above)


@dataclass
class ReportedJoints:
    """Which joints have been received in joint states, at which position, and with which effort.

    Attributes:
        positions: last position of each joint, by name [rad or m].
        measured: sets of joints with finite effort in one message, the largest first; none of them
            is part of another.
        loaded: joints whose effort has been finite and other than exactly zero in some message.
    """

    positions: dict[str, float] = field(default_factory=dict)
    measured: list[frozenset[str]] = field(default_factory=list)
    loaded: set[str] = field(default_factory=set)

    def add(
        self, names: Sequence[str], positions: Sequence[float], efforts: Sequence[float]
    ) -> None:
        """Add a joint state.

        A message with another number of positions than names is ignored; for the efforts see
        :meth:`add_efforts`. Positions that are NaN or beyond ``FARTHEST`` are left out; so are new
        joints once ``MOST_JOINTS`` positions are stored.

        Args:
            names: names of the joints.
            positions: positions in the order of ``names`` [rad or m].
            efforts: efforts in the same order, in any unit.
        """
        if len(positions) != len(names):
            return
        for name, position in zip(names, positions, strict=True):
            known = name in self.positions or len(self.positions) < MOST_JOINTS
            if known and abs(position) <= FARTHEST:  # False for NaN
                self.positions[name] = position
        self.add_efforts(names, efforts)

    def add_efforts(self, names: Sequence[str], efforts: Sequence[float]) -> None:
        """Add the efforts of a joint state.

        They are ignored if their number differs from the number of names, or if there are more than
        ``MOST_JOINTS`` names. Efforts that are not finite are left out; so are new joints once
        ``MOST_JOINTS`` names are in ``loaded``.

        Args:
            names: names of the joints.
            efforts: efforts in the order of ``names``, in any unit.
        """
        if len(efforts) != len(names) or len(names) > MOST_JOINTS:
            return
        pairs = list(zip(names, efforts, strict=True))
        for name, effort in pairs:
            if effort and math.isfinite(effort) and len(self.loaded) < MOST_JOINTS:
                self.loaded.add(name)
        self._add_set(frozenset(name for name, effort in pairs if math.isfinite(effort)))

    def renamed(self, names: Mapping[str, str]) -> ReportedJoints:
        """Return the same with other names; joints that are not among the keys keep their names.

        Args:
            names: new names by present name.
        """
        result = ReportedJoints({names.get(name, name): q for name, q in self.positions.items()})
        result.loaded = {names.get(name, name) for name in self.loaded}
        for each in self.measured:
            result._add_set(frozenset(names.get(name, name) for name in each))
        return result

    def chosen(self, model: Model) -> tuple[str, ...]:
        """Return the joints of the model with measured effort, in its order; empty without any.

        If a joint that other joints mimic, such as a finger of a gripper, has had no effort other
        than exactly zero, its effort counts as not measured: merged joint states contain zeros for
        a gripper.

        Sets of at least two joints that together form one serial chain are one arm, whose joint
        states come in parts.

        If several messages have efforts of other joints, these are the joints of the largest
        set. Each other set must be smaller, and either all its joints descend from every joint of
        the largest set, such as a hand at the end of the arm, or all its efforts are exactly zero.

        Raises:
            InputError: if another set does not meet these conditions, such as a second arm, or the
                arm itself beside a hand with as many joints.
        """
        sets = self._sets_of(model)
        if not sets:
            return ()
        arm = sets[0]
        for other in sets[1:]:
            rest = other - arm
            is_carried = all(arm <= joints_above(model, name) for name in rest)
            if len(other) >= len(arm) or not (is_carried or self.loaded.isdisjoint(rest)):
                raise InputError(
                    f"efforts come from {_in_words(model, arm)} and from "
                    f"{_in_words(model, other)}; name the joints of the arm in the parameter joints"
                )
        return tuple(name for name in model.joint_names if name in arm)

    def _add_set(self, found: frozenset[str]) -> None:
        """Add a set of joints with effort, unless it is empty or part of another set."""
        if found and not any(found <= each for each in self.measured):
            sets = [each for each in self.measured if not each <= found]
            self.measured = sorted([*sets, found], key=len, reverse=True)[:MOST_SETS]

    def _sets_of(self, model: Model) -> list[frozenset[str]]:
        """Return the sets of joints of a model with measured effort, the largest first."""
        arrays = model.arrays
        rows = [model.joint_row[name] for name in model.mimic_joints]
        fingers = {model.joint_names[int(arrays.dof[row])] for row in rows}
        counted = frozenset(model.joint_names) - (fingers - self.loaded)
        result = ReportedJoints()
        for each in self.measured:
            result._add_set(each & counted)
        above = {name: joints_above(model, name) for name in counted} if result.measured[1:] else {}
        for a, b in combinations(result.measured, 2):
            union = a | b
            is_chain = all(x in above[y] or y in above[x] for x, y in combinations(union, 2))
            if is_chain and min(len(a - b), len(b - a)) > 1:
                result._add_set(union)
        return result.measured


def _in_words(model: Model, joints: Collection[str]) -> str:
    """Return the names of joints in the order of the model, shortened."""
    return listed((name for name in model.joint_names if name in joints), SHOWN)


def held_in_words(held: Mapping[str, float], reported: Collection[str]) -> str:
    """Return a text with the fixed joints, their positions and the source of the positions.

    It is empty without fixed joints.

    Args:
        held: positions of the fixed joints by name [rad or m].
        reported: joints whose position is known from joint states.
    """

    def said(names: list[str]) -> str:
        return ", ".join(f"{name} at {held[name]:.4g}" for name in names)

    known = [name for name in held if name in reported]
    unknown = [name for name in held if name not in reported]
    parts = [f"{said(known)} as joint states report"] if known else []
    if unknown:
        parts.append(f"{said(unknown)}, which no joint state has reported")
    return "; ".join(parts)


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
