"""Recursive Newton-Euler: inverse dynamics, and the Slotine-Li torque in the same O(N) pass.

The body-level factor ``B`` (EW21 eq. 10) lets one recursion serve both. With the reference
velocity ``v_r`` and acceleration ``a_r`` carried outward beside the true velocity ``v``::

    w_i = w_p + Phi_i v_r                       (reference twist)
    b_i = b_p + Phi_i a_r + Phi_dot_i v_r       (its rate; the root falls upward with -gamma)
    f_i = I_i b_i + B(v_i, I_i) w_i - wrench_i
    tau_i = Phi_iᵀ sum of f_k over the subtree

sums to ``M a_r + C v_r + g`` with the Christoffel-consistent C (EW21 Remark 2; Niemeyer & Slotine).
For ``v_r = v`` the second term is ``v x* I v`` and the recursion is the ordinary RNEA.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rbd_control.dynamics.arguments import external_wrenches, state
from rbd_control.dynamics.batches import over_states
from rbd_control.dynamics.compiled import compiled
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.spatial import (
    add6,
    add_row,
    coriolis_force,
    dot6,
    inertia_times,
    load6,
    load_inertia,
    scale6,
    store6,
)
from rbd_control.dynamics.sweep import (
    move_bodies,
    new_sweep,
    place_bodies,
    place_inertias,
    subtract_wrenches,
)


@compiled
def _newton_euler(model, bodies, points, q, v, v_r, a_r, wrenches, tau):
    n = model.parent.shape[0]
    s = new_sweep(n)
    reference, rate, force = np.empty((n, 6)), np.empty((n, 6)), np.empty((n, 6))
    zero = (0.0, 0.0, 0.0)
    still = (zero, zero)
    falling = (zero, (-model.gravity[0], -model.gravity[1], -model.gravity[2]))
    for b in range(q.shape[0]):
        place_bodies(model, q[b], s)
        move_bodies(model, v[b], s)
        place_inertias(model, s)
        for i in range(n):
            parent, dof = model.parent[i], model.dof[i]
            Phi_i = load6(s.Phi, i)
            w_i = add6(
                still if parent < 0 else load6(reference, parent), scale6(v_r[b, dof], Phi_i)
            )
            b_i = add6(
                add6(falling if parent < 0 else load6(rate, parent), scale6(a_r[b, dof], Phi_i)),
                scale6(v_r[b, dof], load6(s.Phi_dot, i)),
            )
            store6(reference, i, w_i)
            store6(rate, i, b_i)
            inertia = load_inertia(s.inertia, i)
            bias = coriolis_force(load6(s.velocity, i), inertia, w_i)
            store6(force, i, add6(inertia_times(inertia, b_i), bias))
        subtract_wrenches(s, bodies, points, wrenches[b], force)
        tau[b] = 0.0
        for i in range(n - 1, -1, -1):
            tau[b, model.dof[i]] += dot6(load6(s.Phi, i), load6(force, i))
            if model.parent[i] >= 0:
                add_row(force, model.parent[i], i)


def inverse_dynamics(
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    a: np.ndarray,
    wrenches: Mapping[str, Any] | None = None,
) -> np.ndarray:
    """The torque of a motion: tau = M a + C v + g - sum of J_kᵀ wrench_k.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        a: joint accelerations, (..., nv) [rad/s² or m/s²].
        wrenches: what the environment applies, ``{link: [moment ; force]}`` [N·m, N],
            world-aligned at the link's origin.

    Returns:
        (..., nv) [N·m or N].

    Raises:
        InputError: for an unknown link or arguments of the wrong shape or not finite.

    Source: recursive Newton-Euler, Featherstone (2008) chapter 5.
    """
    (batch, velocities, accelerations), shape = state(model, q, v=v, a=a)
    tau = np.empty(velocities.shape)
    bodies, points, values = external_wrenches(model, wrenches, shape)
    shared = (model.arrays, bodies, points)
    motion = (batch, velocities, velocities, accelerations)
    over_states(_newton_euler, shared, *motion, values, tau)
    return tau.reshape(*shape, model.nv)


def slotine_li_torque(
    model: Model, q: np.ndarray, v: np.ndarray, v_r: np.ndarray, a_r: np.ndarray
) -> np.ndarray:
    """The model part of the Slotine-Li law, tau = M a_r + C(q, v) v_r + g, in one O(N) pass.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        v_r: reference velocities, (..., nv) [rad/s or m/s].
        a_r: reference accelerations, (..., nv) [rad/s² or m/s²].

    Returns:
        (..., nv) [N·m or N].

    Raises:
        InputError: for arguments of the wrong shape or not finite.

    Source: Niemeyer & Slotine (1991); EW21 Remark 2.
    """
    (batch, *vectors), shape = state(model, q, v=v, v_r=v_r, a_r=a_r)
    tau = np.empty(vectors[0].shape)
    bodies, points, values = external_wrenches(model, None, shape)
    over_states(_newton_euler, (model.arrays, bodies, points), batch, *vectors, values, tau)
    return tau.reshape(*shape, model.nv)
