"""Small arms for the state-machine tests: two to four joints of every kind, under gravity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque, mass_matrix

Array = NDArray[np.float64]

Flaw = Literal["none", "no effort", "no speed", "weak"]
"""Possible flaws of the limits in a description: an effort or velocity limit of zero, which means
that it was not filled in, or an effort limit below the gravity torque of its joint."""


class Joint(NamedTuple):
    """A joint and the rod that it moves, which extends along its x axis."""

    kind: Literal["revolute", "continuous", "prismatic"]
    axis: str
    lower: float
    upper: float
    velocity: float
    effort: float
    mass: float
    length: float


JOINTS: dict[str, tuple[Joint, ...]] = {
    "pendulum": (
        Joint("revolute", "0 -1 0", -2.0, 2.0, 2.0, 80.0, 4.0, 0.4),
        Joint("continuous", "0 -1 0", 0.0, 0.0, 3.0, 40.0, 2.0, 0.3),
    ),
    "crane": (
        Joint("continuous", "0 0 1", 0.0, 0.0, 1.5, 60.0, 5.0, 0.1),
        Joint("revolute", "0 -1 0", -1.2, 1.2, 1.5, 150.0, 4.0, 0.4),
        Joint("prismatic", "1 0 0", 0.0, 0.5, 0.5, 150.0, 2.0, 0.2),
    ),
    "elbow": (
        Joint("revolute", "0 0 1", -2.8, 2.8, 2.0, 60.0, 4.0, 0.1),
        Joint("revolute", "0 -1 0", -1.8, 1.8, 2.0, 120.0, 4.0, 0.4),
        Joint("revolute", "0 -1 0", -2.4, 2.4, 2.5, 60.0, 2.0, 0.3),
        Joint("continuous", "1 0 0", 0.0, 0.0, 4.0, 15.0, 1.0, 0.15),
    ),
}

HOME: dict[str, tuple[float, ...]] = {
    "pendulum": (0.5, 0.8),
    "crane": (0.3, 0.4, 0.2),
    "elbow": (0.2, 0.6, 0.7, 0.4),
}
"""A posture well inside the limits, in which every joint that can carries weight [rad or m]."""


@dataclass(frozen=True, eq=False, repr=False)
class Arm:
    """An arm with the description that the controller receives, and with its true properties.

    Attributes:
        model: the described arm.
        flawed: index of the joint whose limit is flawed; -1 for none.
        strength: (n,) largest torque of the motors [N·m or N].
        weight: (n,) largest gravity torque in any posture [N·m or N].
        inertia: (n,) largest inertia M_ii in any posture [kg·m² or kg].
        home: (n,) posture to start from [rad or m].
        continuous: (n,) whether a joint turns without end.
        revolute: (n,) whether a joint turns, with an end or without.
        assumed_speed: (n,) speed limit for plausibility where there is none [rad/s or m/s].
    """

    name: str
    flaw: Flaw
    model: Model
    flawed: int
    strength: Array
    weight: Array
    inertia: Array
    home: Array
    continuous: NDArray[np.bool_]
    revolute: NDArray[np.bool_]
    assumed_speed: Array

    def loaded(self, mass: float) -> Model:
        """Return the arm with a payload at its end [kg]."""
        if mass == 0.0:
            return self.model
        return self.model.with_payload(
            self.model.joint_links[-1], mass, (0.1, 0.0, 0.0), np.zeros((3, 3))
        )

    def __repr__(self) -> str:
        return f"make_arm({self.name!r}, {self.flaw!r}, {max(self.flawed, 0)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # hypothesis would print every field of the model


@cache
def make_arm(name: str, flaw: Flaw = "none", flawed: int = 0) -> Arm:
    """Build the arm ``name`` with a flaw at the joint of index ``flawed``."""
    joints = list(JOINTS[name])
    plain = Model.from_urdf(_urdf(name, joints))
    home = np.array(HOME[name])
    joint, load = joints[flawed], abs(float(gravity_torque(plain, home)[flawed]))
    if flaw == "no effort":
        joints[flawed] = joint._replace(effort=0.0)
    elif flaw == "no speed":
        joints[flawed] = joint._replace(velocity=0.0)
    elif flaw == "weak" and load > 0.0:
        joints[flawed] = joint._replace(effort=0.95 * load)
    model = Model.from_urdf(_urdf(name, joints))
    strength = np.array([x.effort for x in JOINTS[name]])
    if flaw == "weak":
        strength = model.effort_limit.copy()
    return Arm(
        name,
        flaw,
        model,
        -1 if flaw == "none" else flawed,
        strength,
        *_largest_weight_and_inertia(plain),
        home,
        np.array([x.kind == "continuous" for x in joints]),
        np.array([x.kind != "prismatic" for x in joints]),
        np.array([2.0 if x.kind == "prismatic" else 10.0 for x in joints]),
    )


def _largest_weight_and_inertia(model: Model) -> tuple[Array, Array]:
    lower = np.where(np.isfinite(model.lower_limit), model.lower_limit, -np.pi)
    upper = np.where(np.isfinite(model.upper_limit), model.upper_limit, np.pi)
    postures = np.random.default_rng(0).uniform(lower - 0.4, upper + 0.4, (2000, model.nv))
    weight: Array = np.abs(gravity_torque(model, postures)).max(axis=0)
    diagonal = np.diagonal(mass_matrix(model, postures), axis1=1, axis2=2)
    return weight, np.asarray(diagonal.max(axis=0))


def _urdf(name: str, joints: list[Joint]) -> str:
    parts = [f'<robot name="{name}"><link name="base"/>']
    reach = 0.0
    for i, joint in enumerate(joints):
        parent = "base" if i == 0 else f"link{i - 1}"
        limits = f'velocity="{joint.velocity}" effort="{joint.effort}"'
        if joint.kind != "continuous":
            limits += f' lower="{joint.lower}" upper="{joint.upper}"'
        across = joint.mass * (0.2**2 + joint.length**2) / 12.0
        along = joint.mass * 0.2**2 / 6.0
        parts.append(
            f'<link name="link{i}"><inertial><mass value="{joint.mass}"/>'
            f'<origin xyz="{0.5 * joint.length} 0 0"/>'
            f'<inertia ixx="{along}" iyy="{across}" izz="{across}" ixy="0" ixz="0" iyz="0"/>'
            f'</inertial></link><joint name="joint{i}" type="{joint.kind}">'
            f'<parent link="{parent}"/><child link="link{i}"/><origin xyz="{reach} 0 0"/>'
            f'<axis xyz="{joint.axis}"/><limit {limits}/></joint>'
        )
        reach = joint.length
    return "".join([*parts, "</robot>"])
