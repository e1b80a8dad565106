"""The arm of the package, and a small arm with a continuous and a prismatic joint."""

from __future__ import annotations

from functools import cache

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.simulation import arm7_urdf

_JOINTS = (
    ("continuous", "0 0 1", 'velocity="1.5" effort="60"', 5.0, 0.1),
    ("revolute", "0 -1 0", 'velocity="1.5" effort="150" lower="-1.2" upper="1.2"', 4.0, 0.4),
    ("prismatic", "1 0 0", 'velocity="0.5" effort="150" lower="0" upper="0.5"', 2.0, 0.2),
)
"""Type, axis, limits, mass [kg] and length [m] of each joint and its rod."""

HOMES = {"arm7": (0.0, 0.5, 0.0, -1.2, 0.0, 0.9, 0.0), "crane": (0.3, 0.4, 0.2)}
"""Positions well inside of the limits by name of the arm [rad or m]."""


@cache
def model(name: str) -> Model:
    """Return the arm ``name``, which is a key of :data:`HOMES`."""
    return Model.from_urdf(arm7_urdf() if name == "arm7" else crane_urdf())


def home(name: str) -> np.ndarray:
    """Return the positions of :data:`HOMES`, (nv,) [rad or m]."""
    return np.array(HOMES[name])


def crane_urdf() -> str:
    """Return the description of the small arm."""
    parts, reach = ['<robot name="crane"><link name="base"/>'], 0.0
    for k, (kind, axis, limits, mass, length) in enumerate(_JOINTS):
        across, along = mass * (0.04 + length**2) / 12.0, mass * 0.04 / 6.0
        parts.append(
            f'<link name="link{k}"><inertial><mass value="{mass}"/>'
            f'<origin xyz="{0.5 * length} 0 0"/><inertia ixx="{along}" iyy="{across}" '
            f'izz="{across}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
            f'<joint name="joint{k}" type="{kind}"><parent link="{f"link{k - 1}" if k else "base"}"'
            f'/><child link="link{k}"/><origin xyz="{reach} 0 0"/><axis xyz="{axis}"/>'
            f"<limit {limits}/></joint>"
        )
        reach = length
    return "".join([*parts, "</robot>"])
