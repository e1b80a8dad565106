"""Joints that follow another joint: their resolution, and their forward dynamics.

**Resolution of mimic joints, including chains, to the independent joints that they follow.**

A mimic joint moves as its leader does, so that its limits of position and speed are limits of the
leader as well.

**Forward dynamics of models with mimic joints: M a = tau - h, with a dense factorization of M.**

M and the bias torque h = C v + g are computed by the composite-rigid-body and Newton-Euler
algorithms, in which each body contributes to the degree of freedom that moves it, so they are exact
for any number of mimic joints. The factorization costs O(nv³), which is negligible for an arm with
a hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rbd_control.dynamics.compiled import inlined
from rbd_control.dynamics.spatial import (
    accumulate6,
    add6,
    add_row,
    add_scaled6,
    dot6,
    inertia_times,
    load6,
    load_inertia,
    store6,
)
from rbd_control.dynamics.urdf import MOVABLE, Joint, Mimic
from rbd_control.errors import ModelError
from rbd_control.wording import listed, quoted


def resolved_mimics(
    joints: Sequence[Joint], positions: dict[str, float]
) -> tuple[dict[str, Mimic], list[str]]:
    """Return the coupling of each moving mimic joint to an independent joint, and remarks.

    A mimic joint whose leader is not in the description counts as independent; a remark names it.
    Joints in ``positions`` are locked, including mimic joints. A mimic joint whose leader does not
    move, or whose multiplier is zero, is fixed at the resulting position.

    Args:
        joints: all joints of the description.
        positions: positions of the locked joints by name [rad or m]. The positions of mimic joints
            that do not move are added in place.

    Returns:
        The coupling of each moving mimic joint by its name, with multiplier and offset to the last
        joint of its chain of leaders; and remarks about unknown leaders.

    Raises:
        ModelError: for joints that follow one another in a circle.
    """
    by_name = {joint.name: joint for joint in joints}
    result, remarks = {}, []
    for joint in joints:
        if joint.mimic is None or joint.kind not in MOVABLE or joint.name in positions:
            continue
        if joint.mimic.leader not in by_name:
            remarks.append(
                f"joint {quoted(joint.name)} mimics {quoted(joint.mimic.leader)}, which is no "
                f"joint of the description; it is treated as an independent joint"
            )
            continue
        followed = _followed(joint, by_name, positions)
        if followed.multiplier == 0.0:
            positions[joint.name] = followed.offset
        else:
            result[joint.name] = followed
    return result, remarks


def with_follower_limits(
    joints: Sequence[Joint], followers: Mapping[str, Mimic]
) -> tuple[list[Joint], list[str]]:
    """Restrict the limits of independent joints to those of the joints that mimic them.

    A position limit p of a mimic joint is the limit (p - offset) / multiplier of its leader, and a
    velocity limit is divided by |multiplier|. A lower limit that equals the upper limit counts as
    not filled in. Position limits that leave the leader no range are ignored, and a remark names
    the joint. Effort limits stay: a mimic joint has no motor of its own.

    Args:
        joints: all joints of the description.
        followers: the coupling of each moving mimic joint, see :func:`resolved_mimics`.

    Returns:
        The joints in their order, with the restricted limits; and remarks about contradictions.
    """
    result, remarks = {joint.name: joint for joint in joints}, []
    for name, mimic in followers.items():
        follower, leader = result[name], result[mimic.leader]
        ratio, offset = mimic.multiplier, mimic.offset
        lower, upper = leader.lower, leader.upper
        if follower.lower < follower.upper and lower < upper:
            ends = sorted((end - offset) / ratio for end in (follower.lower, follower.upper))
            lower, upper = max(lower, ends[0]), min(upper, ends[1])
            if lower >= upper:
                remarks.append(
                    f"the position limits of joint {quoted(name)}, which mimics "
                    f"{quoted(leader.name)}, leave {quoted(leader.name)} no range of its limits "
                    f"{leader.lower:g} to {leader.upper:g}, so they are ignored; correct limits, "
                    f"multiplier or offset"
                )
                lower, upper = leader.lower, leader.upper
        velocity = min(leader.velocity, follower.velocity / abs(ratio))
        result[leader.name] = replace(leader, lower=lower, upper=upper, velocity=velocity)
    return list(result.values()), remarks


def _followed(joint: Joint, by_name: Mapping[str, Joint], positions: Mapping[str, float]) -> Mimic:
    """Return the coupling of a joint to the last leader of its chain.

    If the last leader is fixed or locked, the multiplier is 0 and the offset is the position.
    """
    multiplier, offset, chain = 1.0, 0.0, [joint.name]
    # A fixed joint does not move, whatever joint its own <mimic> names.
    while joint.name not in positions and joint.kind in MOVABLE:
        mimic = joint.mimic
        if mimic is None or mimic.leader not in by_name:
            break
        offset += multiplier * mimic.offset
        multiplier *= mimic.multiplier
        if mimic.leader in chain:
            raise ModelError(
                f"mimic joints follow one another in a circle: "
                f"{listed([*chain, mimic.leader], separator=' -> ')}"
            )
        chain.append(mimic.leader)
        joint = by_name[mimic.leader]
    if joint.name in positions:
        return Mimic(joint.name, 0.0, offset + multiplier * positions[joint.name])
    if joint.kind not in MOVABLE:  # a fixed joint is at zero
        return Mimic(joint.name, 0.0, offset)
    return Mimic(joint.name, multiplier, offset)


@inlined
def solve_with_mimics(model, v, tau, s, x, a):
    """Solve M a = tau - h for the accelerations ``a``; overwrites ``s.inertia`` and ``x``.

    Afterwards ``s.inertia`` holds the composite inertias, and the diagonal of ``x.M`` the pivots D
    of M = L D Lᵀ. The result is not finite where a pivot is zero.

    Args:
        model: ``Constants`` of the model.
        v: joint velocities, (nv,) [rad/s or m/s].
        tau: joint torques, (nv,) [N·m or N].
        s: ``Sweep`` of the state, with the inertia of each single body.
        x: ``Articulated`` workspace; ``force`` holds the bias force ``V x* I V`` of each body
            with twist V, minus the external wrenches on the body.
        a: (nv,) result [rad/s² or m/s²].
    """
    zero = (0.0, 0.0, 0.0)
    falling = (zero, (-model.gravity[0], -model.gravity[1], -model.gravity[2]))
    n = model.parent.shape[0]
    for i in range(n):
        parent = model.parent[i]
        b_parent = falling if parent < 0 else load6(x.rate, parent)
        b_i = add_scaled6(b_parent, v[model.dof[i]], load6(s.Phi_dot, i))
        store6(x.rate, i, b_i)
        store6(x.force, i, add6(load6(x.force, i), inertia_times(load_inertia(s.inertia, i), b_i)))
    for i in range(model.nv):
        a[i] = tau[i]
        for j in range(model.nv):
            x.M[i, j] = 0.0
    for j in range(n - 1, -1, -1):
        Phi_j, dof_j, force_j = load6(s.Phi, j), model.dof[j], load6(x.force, j)
        a[dof_j] -= dot6(Phi_j, force_j)
        F = inertia_times(load_inertia(s.inertia, j), Phi_j)
        x.M[dof_j, dof_j] += dot6(Phi_j, F)
        i = model.parent[j]
        while i >= 0:
            dof_i = model.dof[i]
            M_ij = dot6(load6(s.Phi, i), F)
            x.M[dof_i, dof_j] += M_ij
            x.M[dof_j, dof_i] += M_ij
            i = model.parent[i]
        if model.parent[j] >= 0:
            accumulate6(x.force, model.parent[j], force_j)
            add_row(s.inertia, model.parent[j], j)
    _solve_in_place(x.M, a, model.nv)


@inlined
def _solve_in_place(M, b, n):
    """Solve M y = b for a symmetric M by M = L D Lᵀ, without square roots.

    y replaces ``b``, and D and L the lower triangle of ``M``, which alone is read.
    """
    for j in range(n):
        for k in range(j):
            M[j, j] -= M[j, k] * M[j, k] * M[k, k]
        for i in range(j + 1, n):
            for k in range(j):
                M[i, j] -= M[i, k] * M[j, k] * M[k, k]
            M[i, j] /= M[j, j]
        for k in range(j):
            b[j] -= M[j, k] * b[k]
    for j in range(n - 1, -1, -1):
        b[j] /= M[j, j]
        for i in range(j + 1, n):
            b[j] -= M[i, j] * b[i]
