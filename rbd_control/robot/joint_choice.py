"""Choice of the joints of a description if the parameters do not name them.

A description often contains more than the arm: the fingers of a hand, a mobile base, a second arm.
A node uses the joints whose effort is in the joint states, and treats the others as fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from rbd_control.dynamics import Model

Measured = Sequence[str] | Callable[[Model], Sequence[str]]
"""Names of joints whose effort is measured, or a function that selects them for a model."""

Reported = Mapping[str, float] | Callable[[Model], Mapping[str, float]]
"""Positions by joint name in joint states [rad or m], or a function that gives them for a model."""

FARTHEST = 1e4
"""Largest plausible joint position [rad or m]; positions beyond it are ignored."""

MOST_JOINTS = 1000
"""Maximum number of stored joints; a description can have as many."""


def is_one_arm(model: Model) -> bool:
    """Return whether the moving joints of a robot form one serial chain without mimic joints."""
    parent = model.arrays.parent[: model.bodies].tolist()
    return not model.mimic_joints and parent == list(range(-1, model.bodies - 1))


@dataclass
class ReportedJoints:
    """Which joints have been received in joint states, at which position, and with which effort.

    Attributes:
        positions: last position of each joint, by name [rad or m].
        measured: largest set of joints with finite effort in one message.
        loaded: joints whose effort has been finite and other than exactly zero in some message.
    """

    positions: dict[str, float] = field(default_factory=dict)
    measured: frozenset[str] = frozenset()
    loaded: set[str] = field(default_factory=set)

    def add(
        self, names: Sequence[str], positions: Sequence[float], efforts: Sequence[float]
    ) -> None:
        """Add a joint state.

        A message with another number of positions than names is ignored. If only the efforts have
        another number, or there are more than ``MOST_JOINTS`` names, the positions are used and
        the efforts ignored. Positions that are NaN or beyond ``FARTHEST``, and efforts that are not
        finite, are left out; so are new joints once ``MOST_JOINTS`` positions are stored.
        ``measured`` is replaced by a larger set only.

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
        if len(efforts) != len(names):
            return
        pairs = list(zip(names, efforts, strict=True))
        if len(names) > MOST_JOINTS:
            return
        self.loaded.update(
            name
            for name, effort in pairs
            if effort and math.isfinite(effort) and name in self.positions
        )
        found = frozenset(name for name, effort in pairs if math.isfinite(effort))
        if len(found) > len(self.measured):
            self.measured = found

    def chosen(self, model: Model) -> tuple[str, ...]:
        """Return the joints of the model with measured effort, in its order; empty without any.

        If a joint that other joints mimic, such as a finger of a gripper, has had no effort other
        than exactly zero, its effort counts as not measured: merged joint states contain zeros for
        a gripper.
        """
        arrays, first = model.arrays, model.nv - len(model.joint_names)
        followed = {int(arrays.dof[model.joint_row[name]]) - first for name in model.mimic_joints}
        fingers = {model.joint_names[i] for i in followed}
        return tuple(
            name
            for name in model.joint_names
            if name in self.measured and (name in self.loaded or name not in fingers)
        )


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
