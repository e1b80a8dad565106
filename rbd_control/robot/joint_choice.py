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
"""Joints whose effort is known, or a function that chooses them from the joints of a model."""

Reported = Mapping[str, float] | Callable[[Model], Mapping[str, float]]
"""Positions of joints in joint states [rad or m], or a function that returns those of a model."""

FARTHEST = 1e4
"""Largest plausible joint position [rad or m]."""

MOST_JOINTS = 1000
"""Maximum number of stored joints, which is the limit for descriptions."""


def is_one_arm(model: Model) -> bool:
    """Return whether the moving joints of a robot are one chain in which none mimics another."""
    parent = model.arrays.parent[: model.bodies].tolist()
    return not model.mimic_joints and parent == list(range(-1, model.bodies - 1))


@dataclass
class ReportedJoints:
    """Positions and efforts received in joint states so far.

    Attributes:
        positions: last position of each joint, by name [rad or m].
        measured: largest set of joints with finite effort in one message.
        loaded: joints that have had an effort other than exactly zero.
    """

    positions: dict[str, float] = field(default_factory=dict)
    measured: frozenset[str] = frozenset()
    loaded: set[str] = field(default_factory=set)

    def add(
        self, names: Sequence[str], positions: Sequence[float], efforts: Sequence[float]
    ) -> None:
        """Add a joint state.

        A message whose positions do not fit its names is ignored. Efforts that do not fit the
        names, and those of more than ``MOST_JOINTS`` joints, are ignored without the positions.
        Positions that are NaN or beyond ``FARTHEST``, and efforts that are not finite, are left
        out. ``measured`` is replaced by a larger set only.

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
        """Return the joints to use, in the model's order; empty if no effort is measured.

        The effort of a finger with exactly zero effort counts as not measured, because merged
        joint states contain zeros for a gripper.
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

    Args:
        held: positions of the fixed joints [rad or m].
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
