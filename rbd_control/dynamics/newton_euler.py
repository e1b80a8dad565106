"""Recursive Newton-Euler: inverse dynamics, and the Slotine-Li torque in the same O(N) pass.

With the body-level factor ``B`` (eq. 10 of EW21: Echeandia & Wensing 2021), one recursion computes
both. The outward sweep propagates the reference velocity ``v_r`` and acceleration ``a_r`` along
with the velocity ``v``::

    w_i = w_p + Phi_i v_r                       (reference twist; zero for the world)
    b_i = b_p + Phi_i a_r + Phi_dot_i v_r       (its rate; minus gravity for the world)
    f_i = I_i b_i + B(v_i, I_i) w_i - wrench_i
    tau_i = Phi_iᵀ sum of f_k over the subtree

``Phi_i`` is the motion subspace of joint i, ``I_i`` the inertia and ``v_i`` the twist of body i.

The result is ``M a_r + C v_r + g`` with the Christoffel-consistent C (EW21 Remark 2; Niemeyer &
Slotine). For ``v_r = v`` the second term is ``v x* I v``, and the recursion is the ordinary RNEA.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from rbd_control.dynamics.batches import (
    Kernels,
    count_states,
    evaluate,
    evaluate_checked,
    finite,
    new_vector,
    part,
    places,
    rows_fit,
)
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.lane_states import load_states, store_states
from rbd_control.dynamics.lanes import WIDTH
from rbd_control.dynamics.memory import keep, lane_scratch, numbers, scratch
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.spatial import (
    accumulate6,
    add_coriolis_force,
    add_scaled6,
    dot6,
    inertia_times,
    load6,
    load_inertia,
    store6,
)
from rbd_control.dynamics.state_loops import sweep_motions, sweep_motions_in_lanes
from rbd_control.dynamics.sweep import (
    move_bodies,
    new_lane_sweep,
    new_sweep,
    place_bodies,
    place_inertias,
    position_offset,
    subtract_wrenches,
)


class Forces(NamedTuple):
    """Workspace of the recursion beside a ``Sweep``, one row per body or rotor."""

    memory: np.ndarray  # the memory of all the other arrays
    reference: np.ndarray  # (n, 6) w_i
    rate: np.ndarray  # (n, 6) b_i
    force: np.ndarray  # (n, 6) f_i


@njit(inline="always")
def new_forces(n):
    """Return a :class:`Forces` workspace for ``n`` bodies and rotors, in a kernel only."""
    return _forces_in(scratch(18 * n), n)


@njit(inline="always")
def new_lane_forces(n):
    """Return a workspace as :func:`new_forces` does, whose entries are lanes, not floats."""
    return _forces_in(lane_scratch(18 * n), n)


@inlined
def _forces_in(memory, n):
    return Forces(
        memory,
        numbers(memory, 0, (n, 6)),
        numbers(memory, 6 * n, (n, 6)),
        numbers(memory, 12 * n, (n, 6)),
    )


@inlined
def refer_bodies(model, v_r, s, reference):
    """Write the twists for the reference velocities ``v_r`` (nv,) to ``reference`` (n, 6).

    ``s`` is the ``Sweep`` after ``place_bodies``.
    """
    zero = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    for i in range(model.parent.shape[0]):
        parent = model.parent[i]
        w_parent = zero if parent < 0 else load6(reference, parent)
        store6(reference, i, add_scaled6(w_parent, v_r[model.dof[i]], load6(s.Phi, i)))


@inlined
def force_bodies(model, v_r, a_r, s, reference, f):
    """Write b_i and f_i of all bodies, without external wrenches, to ``f.rate`` and ``f.force``.

    Args:
        model: ``Constants`` of the model.
        v_r, a_r: reference velocities and accelerations, (nv,).
        s: ``Sweep`` with placements, velocities and inertias of the bodies.
        reference: reference twists, (n, 6).
        f: :class:`Forces` workspace.
    """
    zero = (0.0, 0.0, 0.0)
    falling = (zero, (-model.gravity[0], -model.gravity[1], -model.gravity[2]))
    for i in range(model.parent.shape[0]):
        parent, dof = model.parent[i], model.dof[i]
        b_parent = falling if parent < 0 else load6(f.rate, parent)
        b_i = add_scaled6(b_parent, v_r[dof], load6(s.Phi_dot, i))
        b_i = add_scaled6(b_i, a_r[dof], load6(s.Phi, i))
        store6(f.rate, i, b_i)
        inertia = load_inertia(s.inertia, i)
        inertial = inertia_times(inertia, b_i)
        force = add_coriolis_force(inertial, load6(s.velocity, i), inertia, load6(reference, i))
        store6(f.force, i, force)


@inlined
def gather_torques(model, s, force, tau):
    """Write the joint torques that balance the forces on the bodies to ``tau``, (nv,).

    ``force`` (n, 6), in world axes about the origin of the sweep ``s``, is summed over subtrees in
    place.
    """
    tau[:] = 0.0
    for i in range(model.parent.shape[0] - 1, -1, -1):
        force_i = load6(force, i)
        tau[model.dof[i]] += dot6(load6(s.Phi, i), force_i)
        if model.parent[i] >= 0:
            accumulate6(force, model.parent[i], force_i)


@inlined
def forces_of_motion(model, q, v, a, s, f):
    """Write the force that each body needs for its motion against gravity to ``f.force``, (n, 6).

    This is the outward sweep of recursive Newton-Euler for positions ``q`` (nq,), velocities ``v``
    and accelerations ``a`` (nv,). It fills all fields of the ``Sweep`` ``s`` but ``momentum``.
    """
    place_bodies(model, q, s)
    move_bodies(model, v, s)
    place_inertias(model, s)
    force_bodies(model, v, a, s, s.velocity, f)


@inlined
def newton_euler_sweep(model, q, v, a, s, f, tau):
    """Write the inverse dynamics of one state to ``tau``; ``s`` and ``f`` are workspace."""
    forces_of_motion(model, q, v, a, s, f)
    gather_torques(model, s, f.force, tau)


@inlined
def slotine_li_sweep(model, q, v, v_r, a_r, s, f, tau):
    """Write ``M a_r + C(q, v) v_r + g`` of one state to ``tau``; ``s`` and ``f`` are workspace."""
    place_bodies(model, q, s)
    move_bodies(model, v, s)
    place_inertias(model, s)
    refer_bodies(model, v_r, s, f.reference)
    force_bodies(model, v_r, a_r, s, f.reference, f)
    gather_torques(model, s, f.force, tau)


@compiled
def _inverse_dynamics(packed, q, v, a, tau):
    model = unpacked(packed)
    if not (rows_fit(model, q, v) and rows_fit(model, q, a) and rows_fit(model, q, tau)):
        return False
    if not (places(model, q) and finite(v) and finite(a)):
        return False
    n = model.parent.shape[0]
    s, f = new_sweep(n), new_forces(n)
    sweep_motions(newton_euler_sweep, model, q, v, a, s, f, tau)
    return True


@compiled
def _inverse_dynamics_pushed(packed, bodies, points, wrenches, q, v, a, tau):
    model = unpacked(packed)
    n, nv, nq = model.parent.shape[0], model.nv, model.nv + position_offset(model)
    s, f = new_sweep(n), new_forces(n)
    pushes = bodies.shape[0]
    for k in range(count_states(model, q)):
        forces_of_motion(model, part(q, k, nq), part(v, k, nv), part(a, k, nv), s, f)
        subtract_wrenches(s, bodies, points, part(wrenches, k, pushes), f.force)
        gather_torques(model, s, f.force, part(tau, k, nv))
    return True


@compiled
def _slotine_li_torques(packed, q, v, v_r, a_r, tau):
    model = unpacked(packed)
    if not (rows_fit(model, q, v) and rows_fit(model, q, v_r) and rows_fit(model, q, a_r)):
        return False
    if not (rows_fit(model, q, tau) and places(model, q) and finite(v)):
        return False
    if not (finite(v_r) and finite(a_r)):
        return False
    n, nv, nq = model.parent.shape[0], model.nv, model.nv + position_offset(model)
    s, f = new_sweep(n), new_forces(n)
    for k in range(count_states(model, q)):
        slotine_li_sweep(
            model,
            part(q, k, nq),
            part(v, k, nv),
            part(v_r, k, nv),
            part(a_r, k, nv),
            s,
            f,
            part(tau, k, nv),
        )
    return True


@compiled
def _inverse_dynamics_in_lanes(packed, q, v, a, tau):
    model = unpacked(packed)
    if not (places(model, q) and finite(v) and finite(a)):
        return False
    n = model.parent.shape[0]
    s, f = new_lane_sweep(n), new_lane_forces(n)
    room = lane_scratch(4 * model.nv + position_offset(model))
    sweep_motions_in_lanes(newton_euler_sweep, model, q, v, a, s, f, room, tau)
    keep(room)
    return True


@compiled
def _slotine_li_torques_in_lanes(packed, q, v, v_r, a_r, tau):
    model = unpacked(packed)
    if not (places(model, q) and finite(v) and finite(v_r) and finite(a_r)):
        return False
    n, nv, nq = model.parent.shape[0], model.nv, model.nv + position_offset(model)
    count = count_states(model, q)
    s, f, room = new_lane_sweep(n), new_lane_forces(n), lane_scratch(nq + 4 * nv)
    q_k, v_k = numbers(room, 0, (nq,)), numbers(room, nq, (nv,))
    v_r_k, a_r_k = numbers(room, nq + nv, (nv,)), numbers(room, nq + 2 * nv, (nv,))
    tau_k = numbers(room, nq + 3 * nv, (nv,))
    for k in range(0, count, WIDTH):
        load_states(q, k, count, q_k)
        load_states(v, k, count, v_k)
        load_states(v_r, k, count, v_r_k)
        load_states(a_r, k, count, a_r_k)
        slotine_li_sweep(model, q_k, v_k, v_r_k, a_r_k, s, f, tau_k)
        store_states(tau_k, k, count, tau)
    keep(room)
    return True


_INVERSE_DYNAMICS = Kernels(_inverse_dynamics, _inverse_dynamics_in_lanes, new_vector, ("v", "a"))
_PUSHED = Kernels(_inverse_dynamics_pushed, new_results=new_vector)
_SLOTINE_LI_TORQUE = Kernels(
    _slotine_li_torques, _slotine_li_torques_in_lanes, new_vector, ("v", "v_r", "a_r")
)


def inverse_dynamics(
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    a: np.ndarray,
    wrenches: Mapping[str, Any] | None = None,
    *,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return the torque of a motion: tau = M a + C v + g - sum of J_kᵀ wrench_k.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        a: joint accelerations, (..., nv) [rad/s² or m/s²].
        wrenches: wrenches that the environment applies, ``{link: [moment ; force]}``, (..., 6) each
            [N·m, N], world-aligned at the link's origin. J_k is the Jacobian of link k.
        out: C-contiguous float64 array for the result, (..., nv); must not overlap an argument.

    Returns:
        (..., nv) [N·m or N].

    Raises:
        InputError: for an unknown link or arguments of the wrong shape or not finite.

    Source: recursive Newton-Euler, Featherstone (2008) chapter 5.
    """
    results = None if out is None else (out,)
    if not wrenches:
        return evaluate(_INVERSE_DYNAMICS, model, results, q, v, a)[0]
    return evaluate_checked(_PUSHED, model, results, q, {"v": v, "a": a}, wrenches)[0]


def slotine_li_torque(
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    v_r: np.ndarray,
    a_r: np.ndarray,
    *,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return the model part of the Slotine-Li law, tau = M a_r + C(q, v) v_r + g, in one O(N) pass.

    C is the Christoffel-consistent Coriolis matrix. The feedback term of the control law, a gain
    times ``v - v_r``, is not included.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        v_r: reference velocities, (..., nv) [rad/s or m/s].
        a_r: reference accelerations, (..., nv) [rad/s² or m/s²].
        out: C-contiguous float64 array for the result, (..., nv); must not overlap an argument.

    Returns:
        (..., nv) [N·m or N].

    Raises:
        InputError: for arguments of the wrong shape or not finite.

    Source: Niemeyer & Slotine (1991); EW21 Remark 2.
    """
    results = None if out is None else (out,)
    return evaluate(_SLOTINE_LI_TORQUE, model, results, q, v, v_r, a_r)[0]
