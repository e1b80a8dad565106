"""Links and joints -> moving bodies: the tree is checked, fixed and locked joints disappear."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics.inertia import cross_matrix, pseudo_inertia, spatial_inertia, violation
from rbd_control.dynamics.urdf import MOVABLE, Joint, Link, Robot
from rbd_control.errors import InputError, ModelError
from rbd_control.wording import listed, quoted

Array = NDArray[np.float64]

ROOT_JOINT = "root_joint"
"""What messages call the joint of a floating base."""


@dataclass
class Body:
    """A moving body: its row's subspace, where its joint sits in its parent, its inertia."""

    joint: str
    link: str
    parent: int
    placement: Array
    subspace: Array
    """(6,) motion [omega; u] of the body per unit of joint velocity, body axes."""
    limits: tuple[float, float, float, float]
    """Lower, upper, velocity, effort."""
    pseudo: Array = field(default_factory=lambda: np.zeros((4, 4)))


@dataclass
class Tree:
    """The moving bodies, parents first, and where each link went."""

    bodies: list[Body]
    link_body: dict[str, int]
    link_placement: dict[str, Array]


def merged_tree(robot: Robot, locked: Mapping[str, float], *, floating_base: bool) -> Tree:
    """The moving bodies of ``robot``, depth first in the order of its joints.

    A link behind a fixed or locked joint becomes part of the body it is fixed to, or of the
    world. Links that are part of the world take no part in the dynamics and their inertias are
    not judged. Every other inertia must be that of a mass distribution. A link that heads a
    moving body must have a positive definite one, or no mass at all; a link fixed to it may also
    be a rod or a point mass. Massless bodies are allowed as long as the mass matrix is regular:
    see :func:`_refuse_singular`.

    Raises:
        ModelError: naming the link or the joint at fault.
        InputError: when ``locked`` names no movable joint, or a position is not finite.
    """
    positions = _checked_positions(robot, locked)
    _refuse_unsupported(robot, positions)
    root = _root(robot)
    links = {link.name: link for link in robot.links}
    outward: dict[str, list[Joint]] = {name: [] for name in links}
    for joint in robot.joints:
        outward[joint.parent].append(joint)

    tree = Tree(
        bodies=_floating_rows(root) if floating_base else [], link_body={}, link_placement={}
    )
    _attach(tree, links[root], len(tree.bodies) - 1, np.eye(4), heads=floating_base)
    # A stack rather than recursion: a chain may be longer than Python's call stack.
    pending = outward[root][::-1]
    while pending:
        joint = pending.pop()
        parent = tree.link_body[joint.parent]
        placement = tree.link_placement[joint.parent] @ joint.placement
        moves = joint.kind in MOVABLE and joint.name not in positions
        if moves:
            tree.bodies.append(_body(joint, parent, placement))
            parent, placement = len(tree.bodies) - 1, np.eye(4)
        elif joint.kind in MOVABLE:
            placement = placement @ displacement(_subspace(joint), positions[joint.name])
        _attach(tree, links[joint.child], parent, placement, heads=moves)
        pending.extend(outward[joint.child][::-1])
    if not tree.bodies:
        raise ModelError(f"robot {quoted(robot.name)} has no movable joint that is not locked")
    _refuse_singular(tree.bodies)
    return tree


def displacement(subspace: Array, position: float) -> Array:
    """The (4, 4) placement a joint gives its body at ``position`` [rad or m]."""
    result = np.eye(4)
    result[:3, 3] = subspace[3:] * position
    axis = cross_matrix(subspace[:3])
    result[:3, :3] += math.sin(position) * axis + (1.0 - math.cos(position)) * axis @ axis
    return result


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
        except (TypeError, ValueError):
            positions[name] = math.nan
        if not math.isfinite(positions[name]):
            raise InputError(
                f"locked: position of joint {quoted(name)} is {quoted(position)}; give a number"
            )
    return positions


def _refuse_unsupported(robot: Robot, positions: Mapping[str, float]) -> None:
    for joint in robot.joints:
        if joint.kind in ("floating", "planar"):
            raise ModelError(
                f"joint {quoted(joint.name)} is {joint.kind}; joints may be "
                f"{', '.join(MOVABLE)} or fixed. A root that moves freely is "
                f"floating_base=True, not a joint"
            )
        if joint.mimics and joint.kind in MOVABLE and joint.name not in positions:
            raise ModelError(
                f"joint {quoted(joint.name)} mimics {quoted(joint.mimics)}; mimic joints are not "
                f"supported. Lock it: locked={{{quoted(joint.name)}: 0.0}}"
            )


def _root(robot: Robot) -> str:
    """The one link that is nobody's child, once it is known that all others hang from it."""
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
    # Every link has at most one parent, so what does not lead to a root leads into a loop.
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
            f"{len(roots)} links hang from nothing: {listed(map(quoted, roots))}; "
            f"a robot has one root"
        )
    return roots[0]


def _floating_rows(root: str) -> list[Body]:
    free = (-math.inf, math.inf, math.inf, math.inf)
    return [Body(ROOT_JOINT, root, i - 1, np.eye(4), np.eye(6)[i], free) for i in range(6)]


def _subspace(joint: Joint) -> Array:
    subspace = np.zeros(6)
    part = slice(3, 6) if joint.kind == "prismatic" else slice(0, 3)
    subspace[part] = joint.axis
    return subspace


def _body(joint: Joint, parent: int, placement: Array) -> Body:
    limits = (joint.lower, joint.upper, joint.velocity, joint.effort)
    return Body(joint.name, joint.child, parent, placement, _subspace(joint), limits)


def _attach(tree: Tree, link: Link, body: int, placement: Array, *, heads: bool) -> None:
    tree.link_body[link.name] = body
    tree.link_placement[link.name] = placement
    if body < 0:
        return
    wrong = violation(link.inertia, definite=heads and link.mass > 0.0)
    if wrong:
        raise ModelError(f"link {quoted(link.name)}: {wrong}")
    pseudo = pseudo_inertia(link.mass, link.com, link.inertia)
    tree.bodies[body].pseudo += placement @ pseudo @ placement.T


def _refuse_singular(bodies: list[Body]) -> None:
    """Refuse bodies whose acceleration no force resists, so that M(q) is singular.

    M = L^T D L with D the articulated-body inertia seen by each joint when all joints further out
    are free (Featherstone, Rigid Body Dynamics Algorithms, 2008, chapters 6 and 7), so M is
    regular exactly where each D is positive. It is computed at one configuration that is nothing
    special, which decides for almost all; the model may still be singular at special ones, such
    as a wrist of massless links when its axes line up.
    """
    composite = [spatial_inertia(body.pseudo) for body in bodies]
    articulated = [inertia.copy() for inertia in composite]
    for i in reversed(range(len(bodies))):
        body = bodies[i]
        s = body.subspace
        force = articulated[i] @ s
        own = s @ force
        # What roundoff is measured by: the inertia of all that the joint carries.
        block = slice(0, 3) if s[:3].any() else slice(3, 6)
        if not own > 1e-12 * np.trace(composite[i][block, block]):
            raise ModelError(
                f"joint {quoted(body.joint)}: link {quoted(body.link)} and what it carries have no "
                f"inertia about it, so the mass matrix is singular; give the link a mass and an "
                f"inertia, or lock the joint"
            )
        if body.parent < 0:
            continue
        # Nothing special: not a multiple of a right angle, no two alike.
        position = 0.0 if body.joint == ROOT_JOINT else 0.7 + math.sin(1.3 * i)
        transform = _motion_transform(body.placement @ displacement(s, position))
        articulated[i] -= np.outer(force, force) / own
        articulated[body.parent] += transform.T @ articulated[i] @ transform
        composite[body.parent] += transform.T @ composite[i] @ transform


def _motion_transform(placement: Array) -> Array:
    """The (6, 6) map of motions from the outer frame to the one at ``placement`` in it."""
    rotation = placement[:3, :3].T
    result = np.zeros((6, 6))
    result[:3, :3] = result[3:, 3:] = rotation
    result[3:, :3] = -rotation @ cross_matrix(placement[:3, 3])
    return result
