"""Robots to test on: published URDFs, random trees, and their twins in Pinocchio."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.speed.mechanisms import TALOS_GRIPPERS
from rbd_control.simulation import arm7_urdf

RECORDINGS = Path(__file__).resolve().parent / "data"
"""Folder of the recordings that ship with the tests; its README.md describes them."""

REAL_PANDA = RECORDINGS / "real_panda" / "panda_exciting_trajectory.db3"
"""24 s of a real Panda without hand at 30 Hz, without contact."""

_PUBLISHED = {
    "panda": "panda_description/urdf/panda.urdf",
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "ur10": "ur_description/urdf/ur10_robot.urdf",
    "tiago": "tiago_description/robots/tiago.urdf",
    "tiago_no_hand": "tiago_description/robots/tiago_no_hand.urdf",
    "tiago_pro": "tiago_pro_description/robots/tiago_pro.urdf",
    "talos": "talos_data/robots/talos_full_v2.urdf",
    "go2": "go2_description/urdf/go2.urdf",
}

ROBOTS = ("panda", "ur5", "tiago", "talos")

LOCKED: dict[str, dict[str, float]] = {
    "panda": {"panda_finger_joint2": 0.01},
    "talos": dict.fromkeys(TALOS_GRIPPERS, 0.0),
}
"""The mimic joints of each robot, with a position to lock them at."""


def urdf_path(name: str) -> Path:
    """Path of a published URDF; skips the test where the package that ships it is absent."""
    try:
        package = distribution("example-robot-data")
    except PackageNotFoundError:
        pytest.skip("example-robot-data is not installed")
    root = "cmeel.prefix/share/example-robot-data/robots"
    return Path(str(package.locate_file(f"{root}/{_PUBLISHED[name]}")))


def two_joint_urdf(prefix: str = "") -> str:
    """Return the URDF of an arm with joints shoulder and elbow that turn about parallel axes.

    Args:
        prefix: text before the names of the joints.
    """
    return f"""<robot name="two">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0.3 0 0"/><mass value="4"/>
    <inertia ixx="0.01" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="lower"><inertial><origin xyz="0.25 0 0"/><mass value="3"/>
    <inertia ixx="0.01" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="{prefix}shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="100" velocity="3"/></joint>
  <joint name="{prefix}elbow" type="revolute"><parent link="upper"/><child link="lower"/>
    <origin xyz="0.5 0 0"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" effort="100" velocity="3"/></joint>
</robot>
"""


def two_arms() -> str:
    """Return the description of two arms beside each other, ``left_`` and without prefix."""
    arm = arm7_urdf()
    links = arm[arm.index("<link") : arm.rindex("</robot>")]
    root = re.findall(r'<link name="(\w+)"', links)[0]
    left = re.sub(r'((?:name|link)=")', r"\1left_", links)
    base = (
        f'<joint name="left_base" type="fixed"><parent link="{root}"/>'
        f'<child link="left_{root}"/></joint>'
    )
    return f"{arm[: arm.index('<link')]}{links}{left}{base}</robot>"


def panda_arm_urdf() -> str:
    """URDF of the Panda without hand, to which the recordings of Pandas belong."""
    from bench.contacts.arms import arm

    urdf_path("panda")
    return arm("panda").urdf


def random_tree_urdf(
    seed: int,
    n: int,
    *,
    branching: float = 0.3,
    prismatic: float = 0.2,
    continuous: float = 0.0,
    fixed: float = 0.2,
) -> str:
    """Return the URDF of a random tree with ``n`` movable joints.

    ``branching`` is the probability that the parent of a link is a random earlier link instead of
    the last one, ``prismatic`` and ``continuous`` are the probabilities of these joint types, and
    ``fixed`` is the probability that a fixed link with inertia follows a movable one. Axes and
    origins have random directions; inertias are those of real mass distributions.
    """
    rng = np.random.default_rng(seed)
    links = [_link("link0", rng)]
    joints: list[str] = []
    for i in range(n):
        last = len(links) - 1
        parent = int(rng.integers(last + 1)) if rng.random() < branching else last
        draw = rng.random()
        kind = "revolute"
        if draw < prismatic:
            kind = "prismatic"
        elif draw < prismatic + continuous:
            kind = "continuous"
        joints.append(_joint(f"joint{i}", kind, f"link{parent}", f"link{len(links)}", rng))
        links.append(_link(f"link{len(links)}", rng))
        if rng.random() < fixed:
            joints.append(
                _joint(f"fix{i}", "fixed", f"link{len(links) - 1}", f"link{len(links)}", rng)
            )
            links.append(_link(f"link{len(links)}", rng))
    return f'<robot name="tree{seed}">\n' + "\n".join(links + joints) + "\n</robot>"


def _numbers(values: Sequence[float] | np.ndarray) -> str:
    return " ".join(repr(float(v)) for v in values)


def _origin(rng: np.random.Generator, reach: float) -> str:
    xyz, rpy = rng.uniform(-reach, reach, 3), rng.uniform(-1.5, 1.5, 3)
    return f'<origin xyz="{_numbers(xyz)}" rpy="{_numbers(rpy)}"/>'


def _link(name: str, rng: np.random.Generator) -> str:
    mass = rng.uniform(0.5, 5.0)
    # The second moment of a real body is positive definite; 0.02 to 0.1 m are its half-axes.
    half_axes = rng.uniform(0.02, 0.1, 3)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    second_moment = mass * turn @ np.diag(half_axes**2) @ turn.T
    inertia = np.trace(second_moment) * np.eye(3) - second_moment
    entries = " ".join(
        f'i{a}{b}="{float(inertia[i, j])!r}"'
        for i, a in enumerate("xyz")
        for j, b in enumerate("xyz")
        if i <= j
    )
    return (
        f'<link name="{name}"><inertial>{_origin(rng, 0.2)}<mass value="{mass!r}"/>'
        f"<inertia {entries}/></inertial></link>"
    )


def _joint(name: str, kind: str, parent: str, child: str, rng: np.random.Generator) -> str:
    axis = rng.normal(size=3)
    limit = '<limit lower="-2.5" upper="2.5" velocity="3.0" effort="80.0"/>'
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f"{_origin(rng, 0.5)}"
        + (f'<axis xyz="{_numbers(axis / np.linalg.norm(axis))}"/>' if kind != "fixed" else "")
        + (limit if kind in ("revolute", "prismatic") else "")
        + "</joint>"
    )


class PinocchioTwin:
    """The same robot in Pinocchio, with the maps between its order of joints and ours.

    ``rows`` (nv,) are Pinocchio's rows of v in the order of ``joint_names``, after the six of a
    floating base, whose linear part Pinocchio puts first.
    """

    def __init__(
        self,
        source: str | Path,
        joint_names: Sequence[str],
        *,
        locked: Mapping[str, float] | None = None,
        floating_base: bool = False,
    ) -> None:
        pin: Any = pytest.importorskip("pinocchio")
        text = source if isinstance(source, str) else source.read_text(encoding="utf-8")
        if floating_base:
            model = pin.buildModelFromXML(text, pin.JointModelFreeFlyer())
        else:
            model = pin.buildModelFromXML(text)
        if locked:
            ids = [model.getJointId(name) for name in locked]
            q = pin.neutral(model)
            for i, position in zip(ids, locked.values(), strict=True):
                _put(q, model.joints[i], position)
            model = pin.buildReducedModel(model, ids, q)
        self.model = model
        self.data = model.createData()
        self._joints = [model.joints[model.getJointId(name)] for name in joint_names]
        root = [3, 4, 5, 0, 1, 2] if floating_base else []
        self._root_q = 7 if floating_base else 0
        self.rows = np.array(root + [joint.idx_v for joint in self._joints])

    def q(self, q: np.ndarray) -> np.ndarray:
        """Our q (nq,) as Pinocchio's, which holds a continuous joint as cosine and sine."""
        result = np.zeros(self.model.nq)
        result[: self._root_q] = q[: self._root_q]
        for joint, angle in zip(self._joints, q[self._root_q :], strict=True):
            _put(result, joint, angle)
        return result

    def v(self, v: np.ndarray) -> np.ndarray:
        """Our v, a or tau (nv,) in Pinocchio's order."""
        result = np.zeros(self.model.nv)
        result[self.rows] = v
        return result


def _put(q: np.ndarray, joint: Any, position: float) -> None:
    if joint.nq == 1:
        q[joint.idx_q] = position
    else:
        q[joint.idx_q : joint.idx_q + 2] = np.cos(position), np.sin(position)
