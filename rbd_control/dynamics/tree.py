"""Conversion of links and joints to moving bodies, with checks; fixed joints are merged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics.bodies import ROOT_JOINT, Body, displacement
from rbd_control.dynamics.inertia import pseudo_inertia, violation
from rbd_control.dynamics.mimics import resolved_mimics, with_follower_limits
from rbd_control.dynamics.regularity import carrying_nothing
from rbd_control.dynamics.urdf import MOVABLE, Joint, Link, Robot
from rbd_control.errors import InputError, ModelError
from rbd_control.wording import listed, quoted

Array = NDArray[np.float64]


@dataclass
class Tree:
    """The moving bodies, parents first, and the body of each link.

    Attributes:
        root: name of the link without parent joint.
        bodies: the moving bodies.
        link_body: row of the body that each link is part of, -1 for the world.
        link_placement: (4, 4) placement of each link in the frame of its body, or of the world.
        doubts: description of the error for each link whose inertia no rigid body can have.
        remarks: other errors of the description that do not prevent its use.
    """

    root: str
    bodies: list[Body]
    link_body: dict[str, int]
    link_placement: dict[str, Array]
    doubts: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def merged_tree(robot: Robot, locked: Mapping[str, float], *, floating_base: bool) -> Tree:
    """Return the moving bodies of ``robot``, depth first in the order of its joints.

    A link behind a fixed or locked joint becomes part of the body that carries it, or of the world.
    Links that are part of the world do not affect the dynamics, and their inertias are not checked.
    For every other link, ``doubts`` has an entry if no mass distribution has its inertia. The
    inertia of the link that a joint moves must also be positive definite if this link has mass;
    links that are fixed to it may be rods or point masses. Massless bodies are allowed;
    :mod:`~rbd_control.dynamics.regularity` reports which of them make the mass matrix singular.

    Raises:
        ModelError: naming the invalid link or joint.
        InputError: if ``locked``, positions of joints by name [rad or m], names an unknown or fixed
            joint, or has a position that is not finite.
    """
    positions = _checked_positions(robot, locked)
    _refuse_unsupported(robot)
    root = _root(robot)
    followers, remarks = resolved_mimics(robot.joints, positions)
    joints, contradictions = with_follower_limits(robot.joints, followers)
    links = {link.name: link for link in robot.links}
    outward: dict[str, list[Joint]] = {name: [] for name in links}
    for joint in joints:
        outward[joint.parent].append(joint)

    tree = Tree(
        root=root,
        bodies=_floating_rows(root) if floating_base else [],
        link_body={},
        link_placement={},
        remarks=remarks + contradictions,
    )
    dofs: dict[str, int] = {}
    _attach(tree, links[root], len(tree.bodies) - 1, np.eye(4), heads=floating_base)
    # A stack rather than recursion: a chain may be longer than Python's call stack.
    pending = outward[root][::-1]
    while pending:
        joint = pending.pop()
        parent = tree.link_body[joint.parent]
        placement = tree.link_placement[joint.parent] @ joint.placement
        follower = followers.get(joint.name)
        moves = joint.kind in MOVABLE and joint.name not in positions
        if moves:
            if follower:
                # The position of a mimic joint equals its offset where the leader is at zero.
                placement = placement @ displacement(_subspace(joint), follower.offset)
            else:
                dofs[joint.name] = len(dofs) + (6 if floating_base else 0)
            tree.bodies.append(_body(joint, parent, placement))
            parent, placement = len(tree.bodies) - 1, np.eye(4)
        elif joint.kind in MOVABLE:
            placement = placement @ displacement(_subspace(joint), positions[joint.name])
        _attach(tree, links[joint.child], parent, placement, heads=moves)
        pending.extend(outward[joint.child][::-1])
    # A leader may come after its followers, so the degrees of freedom are not known earlier.
    for body in tree.bodies[6 if floating_base else 0 :]:
        follower = followers.get(body.joint)
        body.dof = dofs[follower.leader if follower else body.joint]
        if follower:
            body.ratio, body.leads = follower.multiplier, False
    if not tree.bodies:
        raise ModelError(f"robot {quoted(robot.name)} has no movable joint that is not locked")
    tree.remarks += carrying_nothing(tree.bodies)
    return tree


def _checked_positions(robot: Robot, locked: Mapping[str, float]) -> dict[str, float]:
    movable = [joint.name for joint in robot.joints if joint.kind in MOVABLE]
    positions = {}
    for name, position in locked.items():
        if name not in movable:
            raise InputError(
                f"locked: no movable joint {quoted(name)}; movable joints are {listed(movable)}"
            )
        try:
            positions[name] = float(position)
        except (TypeError, ValueError, OverflowError):
            positions[name] = math.nan
        if not math.isfinite(positions[name]):
            raise InputError(
                f"locked: position of joint {quoted(name)} is {quoted(position)}; give a number"
            )
    return positions


def _refuse_unsupported(robot: Robot) -> None:
    for joint in robot.joints:
        if joint.kind in ("floating", "planar"):
            raise ModelError(
                f"joint {quoted(joint.name)} is {joint.kind}; joints may be "
                f"{', '.join(MOVABLE)} or fixed. A root that moves freely is "
                f"floating_base=True, not a joint"
            )


def _root(robot: Robot) -> str:
    """Return the name of the root link after checking that all other links descend from it."""
    parents: dict[str, Joint] = {}
    names = [link.name for link in robot.links]
    known = set(names)
    for joint in robot.joints:
        for role, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in known:
                raise ModelError(
                    f"joint {quoted(joint.name)}: no link {quoted(link)}, its {role}; links are "
                    f"{listed(names)}"
                )
        if joint.child in parents:
            raise ModelError(
                f"link {quoted(joint.child)} is the child of two joints, "
                f"{quoted(parents[joint.child].name)} and {quoted(joint.name)}; a URDF is a tree"
            )
        parents[joint.child] = joint
    # Every link has at most one parent, so a chain of parents without a root is a loop.
    safe: set[str] = set()
    for name in names:
        path: list[str] = []
        on_path: set[str] = set()
        while name in parents and name not in safe:
            if name in on_path:
                loop = [*path[path.index(name) :], name]
                raise ModelError(f"links form a loop: {listed(loop, separator=' <- ')}")
            path.append(name)
            on_path.add(name)
            name = parents[name].parent
        safe.update(path)
    roots = [name for name in names if name not in parents]
    if len(roots) > 1:
        raise ModelError(
            f"{len(roots)} links have no parent joint: {listed(map(quoted, roots))}; "
            f"a robot has one root"
        )
    return roots[0]


def _floating_rows(root: str) -> list[Body]:
    free = (-math.inf, math.inf, math.inf, math.inf)
    return [Body(ROOT_JOINT, root, i - 1, np.eye(4), np.eye(6)[i], free, i) for i in range(6)]


def _subspace(joint: Joint) -> Array:
    subspace = np.zeros(6)
    part = slice(3, 6) if joint.kind == "prismatic" else slice(0, 3)
    subspace[part] = joint.axis
    return subspace


def _body(joint: Joint, parent: int, placement: Array) -> Body:
    limits = (joint.lower, joint.upper, joint.velocity, joint.effort)
    return Body(joint.name, joint.child, parent, placement, _subspace(joint), limits, dof=-1)


def _attach(tree: Tree, link: Link, body: int, placement: Array, *, heads: bool) -> None:
    tree.link_body[link.name] = body
    tree.link_placement[link.name] = placement
    if body < 0:
        return
    wrong = violation(link.inertia, definite=heads and link.mass > 0.0)
    if wrong:
        tree.doubts[link.name] = wrong
    pseudo = pseudo_inertia(link.mass, link.com, link.inertia)
    tree.bodies[body].pseudo += placement @ pseudo @ placement.T
