"""Mechanisms of the benchmark: published robots, and the mechanisms of EW21's figures in all sizes.

EW21 is Echeandia & Wensing 2021. It does not describe its links. As in ``bench/tables/ew21.py``
they are cylinders of 1 kg and 1 m; the axis of each hinge is rotated by 60 degrees from the
previous axis. Bipeds and quadrupeds are a free body with two and four such chains. Their size is
the number of joints; the free body adds six degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import distribution
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from bench.speed.quantities import Quantity, States
from bench.tables.cylinders import INERTIA, LENGTH, MASS
from rbd_control.dynamics import Model, Rotor, with_rotors

FAMILIES = ("chain", "binary tree", "biped", "quadruped")
SIZES = (5, 10, 20, 50, 100)
PUBLISHED_SIZE = 20
"""Number of joints for which EW21 prints times."""
STATE_COUNT = 512
ROTOR = Rotor(gear_ratio=100.0, inertia=1e-4)


_BESIDE_THE_DYNAMICS = ("visual", "collision", "dynamics", "mimic", "safety_controller")
"""Elements of links and joints that other libraries use differently, or warn about."""


@dataclass(frozen=True)
class Mechanism:
    """A robot of the benchmark.

    Attributes:
        name: name in the tables.
        urdf: description as text.
        floating: whether the root is a free body.
        locked: positions of joints that do not move [rad or m].
        family: one of :data:`FAMILIES`; empty for a published robot.
        joints: number of joints of a member of a family; 0 for a published robot.
        parents: index of the parent of each link of a member of a family, -1 for the root.
    """

    name: str
    urdf: str = field(repr=False)
    floating: bool = False
    locked: Mapping[str, float] = field(default_factory=dict, repr=False)
    family: str = ""
    joints: int = 0
    parents: Sequence[int] = ()

    @cached_property
    def model(self) -> Model:
        """Model of this package."""
        return Model.from_urdf(self.urdf, locked=self.locked, floating_base=self.floating)

    @cached_property
    def geared(self) -> Model:
        """Model of this package with a geared rotor at each joint."""
        return with_rotors(self.model, dict.fromkeys(self.model.joint_names, ROTOR))

    @cached_property
    def bare_urdf(self) -> str:
        """The URDF with its links and joints only; locked joints are fixed, mimics move freely."""
        robot = ElementTree.fromstring(self.urdf)
        for parent in list(robot):
            if parent.tag not in ("link", "joint"):
                robot.remove(parent)
            for child in list(parent):
                if child.tag in _BESIDE_THE_DYNAMICS:
                    parent.remove(child)
            if parent.tag == "joint" and parent.get("name") in self.locked:
                parent.set("type", "fixed")
        return ElementTree.tostring(robot, encoding="unicode")

    @property
    def label(self) -> str:
        """Name and number of joints, with ``6 +`` for a free body, such as ``Panda, 7 joints``."""
        return f"{self.name}, {'6 + ' if self.floating else ''}{len(self.model.joint_names)} joints"

    @property
    def featured(self) -> bool:
        """Whether every function is frozen (compiled for this mechanism).

        This holds for robots and for members of a family with :data:`PUBLISHED_SIZE` joints. For
        other sizes only the functions of the figures are frozen.
        """
        return self.joints in (0, PUBLISHED_SIZE)

    @property
    def quantities(self) -> list[Quantity]:
        """Quantities that are timed; GDAHJ is for serial chains of revolute joints only."""
        arrays = self.model.arrays
        serial = np.array_equal(arrays.parent, np.arange(self.model.nv) - 1)
        chain = serial and not self.floating and not arrays.joint_type.any()
        return [quantity for quantity in Quantity if chain or quantity is not Quantity.GDAHJ]

    @cached_property
    def states(self) -> States:
        """:data:`STATE_COUNT` random states, which are equal in every run."""
        rng = np.random.default_rng(4)
        q = rng.uniform(-1.0, 1.0, (STATE_COUNT, self.model.nq))
        if self.floating:
            q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
        return States(q, *rng.uniform(-1.0, 1.0, (3, STATE_COUNT, self.model.nv)))


# --- Robots --------------------------------------------------------------------------------------

_FINGERS = ("panda_finger_joint1", "panda_finger_joint2")
TALOS_GRIPPERS = tuple(
    f"gripper_{side}_{name}_joint"
    for side in ("left", "right")
    for name in (
        "inner_double",
        "fingertip_1",
        "fingertip_2",
        "inner_single",
        "fingertip_3",
        "motor_single",
    )
)


def robots() -> list[Mechanism]:
    """Return Panda, UR5, Tiago and Talos of ``example-robot-data``, with mimic joints locked."""
    return [
        _robot("Panda", "panda_description/urdf/panda.urdf", _FINGERS),
        _robot("UR5", "ur_description/urdf/ur5_robot.urdf"),
        _robot("Tiago", "tiago_description/robots/tiago.urdf"),
        _robot("Talos", "talos_data/robots/talos_full_v2.urdf", TALOS_GRIPPERS, floating=True),
    ]


def _robot(
    name: str, path: str, locked: Sequence[str] = (), *, floating: bool = False
) -> Mechanism:
    root = "cmeel.prefix/share/example-robot-data/robots"
    file = Path(str(distribution("example-robot-data").locate_file(f"{root}/{path}")))
    return Mechanism(name, file.read_text(encoding="utf-8"), floating, dict.fromkeys(locked, 0.0))


# --- Families ------------------------------------------------------------------------------------


def parents_of(family: str, n: int) -> list[int]:
    """Return the index of the parent of each of ``n`` links, -1 for the root."""
    if family == "binary tree":
        return [(i + 1) // 2 - 1 for i in range(n)]
    legs = {"chain": 1, "biped": 2, "quadruped": 4}[family]
    return [max(i - legs, -1) for i in range(n)]


def member(family: str, n: int) -> Mechanism:
    """Return the mechanism of one of :data:`FAMILIES` with ``n`` joints."""
    parents = parents_of(family, n)
    floating = family in ("biped", "quadruped")
    return Mechanism(
        f"{family} {n}", _urdf(parents, floating), floating, {}, family, n, tuple(parents)
    )


def _urdf(parents: Sequence[int], floating: bool) -> str:
    ixx, iyy, izz = INERTIA.tolist()
    body = (
        f'<inertial><origin xyz="{LENGTH / 2.0} 0 0"/><mass value="{MASS}"/>'
        f'<inertia ixx="{ixx!r}" iyy="{iyy!r}" izz="{izz!r}" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    parts = [f'<robot name="tree"><link name="root">{body if floating else ""}</link>']
    for i, parent in enumerate(parents):
        reach = LENGTH if parent >= 0 else 0.0
        parts.append(
            f'<link name="link{i}">{body}</link><joint name="joint{i}" type="revolute">'
            f'<parent link="{f"link{parent}" if parent >= 0 else "root"}"/>'
            f'<child link="link{i}"/><axis xyz="0 0 1"/>'
            f'<origin xyz="{reach} 0 0" rpy="{math.pi / 3.0!r} 0 0"/>'
            '<limit lower="-3" upper="3" velocity="10" effort="100"/></joint>'
        )
    return "".join([*parts, "</robot>"])


def all_mechanisms() -> list[Mechanism]:
    """Return the robots, then every family in every size."""
    return [*robots(), *(member(family, n) for family in FAMILIES for n in SIZES)]
