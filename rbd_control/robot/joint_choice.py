"""Which joints of a description a node works with, when its parameters leave that open.

A description often has more than the arm: the fingers of a hand, a mobile base, a second arm. The
joints that a node works with are those whose effort joint states report; the others are held.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rbd_control.dynamics import Model

FARTHEST = 1e4
"""Position beyond which a reported one is no position of a joint [rad or m]."""

MOST_JOINTS = 1000
"""Most joints that are remembered, as a description has at most."""


def is_one_arm(model: Model) -> bool:
    """Return whether the moving joints of a robot are one chain in which none mimics another."""
    parent = model.arrays.parent[: model.bodies].tolist()
    return not model.mimic_joints and parent == list(range(-1, model.bodies - 1))


@dataclass
class ReportedJoints:
    """What joint states have said of the joints of a robot so far.

    Attributes:
        positions: last position of each joint, by name [rad or m].
        measured: largest set of joints that one message gave a finite effort for.
        loaded: joints that ever had an effort other than exactly zero.
    """

    positions: dict[str, float] = field(default_factory=dict)
    measured: frozenset[str] = frozenset()
    loaded: set[str] = field(default_factory=set)

    def add(
        self, names: Sequence[str], positions: Sequence[float], efforts: Sequence[float]
    ) -> None:
        """Take in a joint state; one whose fields have unlike lengths is left out."""
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
        """Return the joints to work with, in the model's order; empty when none is measured.

        A finger whose effort is exactly zero has none that is measured; merged joint states fill
        in zeros for a gripper.
        """
        arrays, first = model.arrays, model.nv - len(model.joint_names)
        followed = {int(arrays.dof[model.joint_row[name]]) - first for name in model.mimic_joints}
        fingers = {model.joint_names[i] for i in followed}
        return tuple(
            name
            for name in model.joint_names
            if name in self.measured and (name in self.loaded or name not in fingers)
        )


def held_in_words(held: Mapping[str, float], positions: Mapping[str, float]) -> str:
    """Return which joints are held where, and why there.

    Args:
        held: positions of the held joints [rad or m].
        positions: those that joint states report [rad or m].
    """

    def said(names: list[str]) -> str:
        return ", ".join(f"{name} at {held[name]:.4g}" for name in names)

    reported = [name for name in held if name in positions]
    unknown = [name for name in held if name not in positions]
    parts = [f"{said(reported)} as joint states report"] if reported else []
    if unknown:
        parts.append(f"{said(unknown)}, which no joint state has reported")
    return "; ".join(parts)
