"""Short robot descriptions, as texts, for tests of the URDF reader."""

from __future__ import annotations

import re
from typing import Any

BODY = (
    '<inertial><origin xyz="0.1 0 0"/><mass value="2"/>'
    '<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.02"/></inertial>'
)


LIMIT = '<limit lower="-1" upper="2" velocity="3" effort="40"/>'


def link(name: str, body: str = BODY) -> str:
    return f'<link name="{name}">{body}</link>'


def inertial(mass: str = "2", ixx: str = "0.01", iyy: str = "0.02", izz: str = "0.02") -> str:
    return (
        f'<inertial><mass value="{mass}"/>'
        f'<inertia ixx="{ixx}" ixy="0" ixz="0" iyy="{iyy}" iyz="0" izz="{izz}"/></inertial>'
    )


def joint(
    name: str,
    parent: str,
    child: str,
    kind: str = "revolute",
    *,
    axis: str = '<axis xyz="0 0 1"/>',
    more: str = LIMIT,
    xyz: str = "0.3 0 0",
) -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{xyz}"/>{axis}{more}</joint>'
    )


def robot(*parts: str) -> str:
    return f'<?xml version="1.0"?><robot name="arm">{"".join(parts)}</robot>'


def arm(forearm: str = BODY, elbow: str = "", *more: str) -> str:
    """Return base - shoulder - upper_arm - elbow - forearm, with parts exchanged or added."""
    return robot(
        link("base", ""),
        link("upper_arm"),
        link("forearm", forearm),
        joint("shoulder", "base", "upper_arm", xyz="0 0 0.5"),
        elbow or joint("elbow", "upper_arm", "forearm"),
        *more,
    )


def elbow(more: str = LIMIT, kind: str = "revolute", **kw: Any) -> str:
    return arm(BODY, joint("elbow", "upper_arm", "forearm", kind, more=more, **kw))


def assert_names(error: Exception, words: tuple[str, ...]) -> None:
    missing = [word for word in words if word not in str(error)]
    assert not missing, f"{missing} not in: {error}"


def with_root_last(text: str) -> str:
    """Return a description that begins with its root link, with this link moved to the end."""
    root = re.search(r"<link .*?</link>", text, re.DOTALL)
    assert root is not None
    return text.replace(root[0], "", 1).replace("</robot>", f"{root[0]}</robot>")
