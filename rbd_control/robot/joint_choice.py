"""Choice of the joints of a description if the parameters do not name them.

A description often contains more than the arm: the fingers of a hand, a mobile base, a second arm.
A node uses the joints whose effort is in the joint states, and treats the others as fixed. If each
of several drivers publishes efforts of its own joints, the arm is the largest of these sets,
provided that it carries all the others at its end; otherwise the parameters must name the joints.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from rbd_control.dynamics import Model
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

        If several messages have efforts of different joints, these are the joints of the largest
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
