"""The outward sweep with which every algorithm begins, and its workspace.

The sweep proceeds from the root to the tips and computes, for each body ``i`` of the model, in
world axes about the root's origin (the world's origin if the base is fixed):

- ``R[i], p[i]``: orientation and position of the body frame,
- ``Phi[i]``: the motion subspace of its joint, ``[s ; p x s]`` revolute, ``[0 ; s]`` prismatic,
  times ``ratio[i]``, for the axis s,
- ``velocity[i]``: its spatial velocity, ``v_i = v_p(i) + Phi_i v`` (eq. 5 of EW21: Echeandia &
  Wensing 2021), for the parent p(i); the six rows of a floating root have the same velocity,
- ``Phi_dot[i] = v_i x Phi_i``, the rate of ``Phi_i`` (EW21 Algorithm 1, line 4),
- ``inertia[i]`` and ``momentum[i] = I_i v_i`` of the body, to which the inward sweeps add the
  inertia and momentum of the subtree.

Bodies are numbered by row, degrees of freedom by ``dof[i]``. The two numbers differ for models with
mimic joints or with rotors of geared motors, which move ``ratio`` times as fast as the joint that
they follow. All sums are over rows; each row contributes to the entry of its degree of freedom.

All quantities are expressed in one inertial frame at one instant. Its origin is the origin of a
floating root, so that a base far from the world's origin loses no precision.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rbd_control.dynamics.compiled import inlined
from rbd_control.dynamics.memory import lane_scratch, numbers, scratch
from rbd_control.dynamics.model_arrays import FLOATING, PRISMATIC
from rbd_control.dynamics.small_systems import cos_sin
from rbd_control.dynamics.spatial import (
    accumulate6,
    add,
    add_scaled,
    add_scaled6,
    add_scaled_matrix,
    add_transform,
    cross,
    cross_motion,
    inertia_times,
    load3,
    load6,
    load_inertia,
    load_matrix,
    multiply,
    place_inertia,
    quaternion_rotation,
    scale,
    scale6,
    store3,
    store6,
    store_inertia,
    store_matrix,
    transform,
)


class Sweep(NamedTuple):
    """Workspace of a sweep over n bodies; the docstring of the module describes the arrays."""

    memory: np.ndarray  # the memory of all the other arrays
    R: np.ndarray  # (n, 3, 3)
    p: np.ndarray  # (n, 3)
    Phi: np.ndarray  # (n, 6)
    velocity: np.ndarray  # (n, 6)
    Phi_dot: np.ndarray  # (n, 6)
    inertia: np.ndarray  # (n, 10)
    momentum: np.ndarray  # (n, 6)


@njit(inline="always")
def new_sweep(n):
    """Return a :class:`Sweep` for ``n`` bodies and rotors, uninitialised, in a kernel only.

    Make it once in the kernel and use it for many states.
    """
    return _sweep_in(scratch(46 * n), n)


@njit(inline="always")
def new_lane_sweep(n):
    """Return a workspace as :func:`new_sweep` does, whose entries are lanes, not floats."""
    return _sweep_in(lane_scratch(46 * n), n)


@inlined
def _sweep_in(memory, n):
    return Sweep(
        memory,
        numbers(memory, 0, (n, 3, 3)),
        numbers(memory, 9 * n, (n, 3)),
        numbers(memory, 12 * n, (n, 6)),
        numbers(memory, 18 * n, (n, 6)),
        numbers(memory, 24 * n, (n, 6)),
        numbers(memory, 30 * n, (n, 10)),
        numbers(memory, 40 * n, (n, 6)),
    )


@inlined
def position_offset(model):
    """Return nq - nv: 1 for a floating base, because a quaternion has four numbers, otherwise 0."""
    return 1 if model.dof.shape[0] > 0 and model.joint_type[0] == FLOATING else 0


@inlined
def place_bodies(model, q, s):
    """Write R, p and Phi of all bodies for the positions ``q``, (nq,), to the sweep ``s``."""
    zero = (0.0, 0.0, 0.0)
    extra = position_offset(model)
    for i in range(model.parent.shape[0]):
        joint_type = model.joint_type[i]
        if joint_type == FLOATING:
            # Six rows for one body: its twist in root axes, angular first, about its own origin.
            R_i = quaternion_rotation(q[3], q[4], q[5], q[6])
            e = transform(R_i, load3(model.axis, i))
            store_matrix(s.R, i, R_i)
            store3(s.p, i, zero)
            store6(s.Phi, i, (e, zero) if i < 3 else (zero, e))
            continue
        ratio = model.ratio[i]
        q_i = ratio * q[model.dof[i] + extra]
        hop = load_matrix(model.along, i)
        if joint_type != PRISMATIC:
            cosine, sine = cos_sin(q_i)
            hop = add_scaled_matrix(hop, cosine, load_matrix(model.cosine, i))
            hop = add_scaled_matrix(hop, sine, load_matrix(model.sine, i))
        p_i, e = load3(model.translation, i), load3(model.axis, i)
        parent = model.parent[i]
        if parent >= 0:
            R_parent = load_matrix(s.R, parent)
            hop = multiply(R_parent, hop)
            p_i = add_transform(load3(s.p, parent), R_parent, p_i)
            e = transform(R_parent, e)
        store_matrix(s.R, i, hop)
        if joint_type == PRISMATIC:
            store3(s.p, i, add_scaled(p_i, q_i, e))
            store6(s.Phi, i, (zero, scale(ratio, e)))
        else:
            store3(s.p, i, p_i)
            e = scale(ratio, e)
            store6(s.Phi, i, (e, cross(p_i, e)))


@inlined
def move_bodies(model, v, s):
    """Write velocity and Phi_dot of all bodies for the joint velocities ``v``, (nv,), to ``s``.

    Call it after :func:`place_bodies`.
    """
    zero = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    n = model.parent.shape[0]
    root = 0
    if n > 0 and model.joint_type[0] == FLOATING:
        # The six columns of the root's joint are fixed in the root, so each moves with the whole
        # twist of the root, not with the part of it summed so far.
        twist = zero
        for i in range(6):
            twist = add_scaled6(twist, v[i], load6(s.Phi, i))
        for i in range(6):
            store6(s.velocity, i, twist)
            store6(s.Phi_dot, i, cross_motion(twist, load6(s.Phi, i)))
        root = 6
    for i in range(root, n):
        parent = model.parent[i]
        v_parent = zero if parent < 0 else load6(s.velocity, parent)
        Phi_i = load6(s.Phi, i)
        store6(s.velocity, i, add_scaled6(v_parent, v[model.dof[i]], Phi_i))
        # v_i x Phi_i, and Phi_i x Phi_i = 0.
        store6(s.Phi_dot, i, cross_motion(v_parent, Phi_i))


@inlined
def place_inertias(model, s):
    """Write the inertia of each single body to ``s``, after :func:`place_bodies`."""
    for i in range(model.parent.shape[0]):
        inertia = place_inertia(
            model.mass[i],
            load3(model.first_moment, i),
            load_matrix(model.second_moment, i),
            load_matrix(s.R, i),
            load3(s.p, i),
        )
        store_inertia(s.inertia, i, inertia)


@inlined
def compute_momenta(model, s):
    """Write the spatial momentum of each body by itself, inertia times velocity, to ``s``.

    Call it after :func:`move_bodies` and :func:`place_inertias`.
    """
    for i in range(model.parent.shape[0]):
        momentum = inertia_times(load_inertia(s.inertia, i), load6(s.velocity, i))
        store6(s.momentum, i, momentum)


@inlined
def subtract_wrenches(s, bodies, points, wrenches, force):
    """Subtract external wrenches from the forces that the bodies need for their motion.

    Args:
        s: :class:`Sweep` after :func:`place_bodies`.
        bodies: row of the body on which each wrench acts, (k,).
        points: points at which the wrenches act, in the frames of the bodies, (k, 3) [m].
        wrenches: ``[moment ; force]`` in world axes about these points, (k, 6) [N·m, N].
        force: forces of all bodies, world axes about the origin of the sweep, (n, 6); changed in
            place.
    """
    for k in range(bodies.shape[0]):
        body = bodies[k]
        moment, pull = load6(wrenches, k)
        arm = add(load3(s.p, body), transform(load_matrix(s.R, body), load3(points, k)))
        about_origin = (add(moment, cross(arm, pull)), pull)
        accumulate6(force, body, scale6(-1.0, about_origin))
