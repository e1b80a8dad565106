"""Loops of kernels over the states of a batch: one state after another, or in vector lanes.

Each function takes the sweep that computes one state. numba compiles the loop for each sweep and
inlines both, so that a shared loop costs no time and changes no bit of the results. The kernels of
the Slotine-Li torque, the regressor, the momentum terms and the dynamics terms, and those with
external wrenches, contain loops of their own, because their sweeps take other arguments.
"""

from __future__ import annotations

from rbd_control.dynamics.batches import count_states, part
from rbd_control.dynamics.compiled import inlined
from rbd_control.dynamics.lane_states import load_states, store_states
from rbd_control.dynamics.lanes import WIDTH
from rbd_control.dynamics.memory import numbers
from rbd_control.dynamics.sweep import position_offset


@inlined
def sweep_positions(sweep, model, q, s, out):
    """Run ``sweep(model, q, s, out)`` for each state of a batch.

    Args:
        sweep: function that computes one state and writes it to its last argument.
        model: ``Constants`` of the model.
        q: joint positions of all states, (count nq,).
        s: ``Sweep`` as workspace.
        out: results of all states, nv rows each.
    """
    nv, nq = model.nv, model.nv + position_offset(model)
    for k in range(count_states(model, q)):
        sweep(model, part(q, k, nq), s, part(out, k, nv))


@inlined
def sweep_positions_in_lanes(sweep, model, q, s, room, shape, out):
    """Run ``sweep(model, q, s, out)`` for ``WIDTH`` states of a batch at a time.

    Args:
        sweep: function that computes one state and writes it to its last argument.
        model: ``Constants`` of the model.
        q: joint positions of all states, (count nq,).
        s: ``Sweep`` as workspace, in lanes.
        room: workspace in lanes, (nq + k,), where the result of one state has k numbers.
        shape: shape of the result of one state.
        out: results of all states, one after another along the first axis.
    """
    nq, count = model.nv + position_offset(model), count_states(model, q)
    size = 1
    for length in shape:
        size *= length
    q_k, out_k = numbers(room, 0, (nq,)), numbers(room, nq, (size,))
    for k in range(0, count, WIDTH):
        load_states(q, k, count, q_k)
        sweep(model, q_k, s, numbers(out_k, 0, shape))
        store_states(out_k, k, count, out)


@inlined
def sweep_motions(sweep, model, q, v, a, s, x, out):
    """Run ``sweep(model, q, v, a, s, x, out)`` for each state of a batch.

    Args:
        sweep: function that computes one state and writes it to its last argument.
        model: ``Constants`` of the model.
        q: joint positions of all states, (count nq,).
        v, a: velocities, and accelerations or torques, of all states, (count nv,).
        s, x: workspaces of the sweep.
        out: results of all states, (count nv,).
    """
    nv, nq = model.nv, model.nv + position_offset(model)
    for k in range(count_states(model, q)):
        sweep(model, part(q, k, nq), part(v, k, nv), part(a, k, nv), s, x, part(out, k, nv))


@inlined
def sweep_motions_in_lanes(sweep, model, q, v, a, s, x, room, out):
    """Run ``sweep(model, q, v, a, s, x, out)`` for ``WIDTH`` states of a batch at a time.

    Args:
        sweep: function that computes one state and writes it to its last argument.
        model: ``Constants`` of the model.
        q: joint positions of all states, (count nq,).
        v, a: velocities, and accelerations or torques, of all states, (count nv,).
        s, x: workspaces of the sweep, in lanes.
        room: workspace in lanes, (nq + 3 nv,).
        out: results of all states, (count nv,).
    """
    nv, nq, count = model.nv, model.nv + position_offset(model), count_states(model, q)
    q_k, v_k = numbers(room, 0, (nq,)), numbers(room, nq, (nv,))
    a_k, out_k = numbers(room, nq + nv, (nv,)), numbers(room, nq + 2 * nv, (nv,))
    for k in range(0, count, WIDTH):
        load_states(q, k, count, q_k)
        load_states(v, k, count, v_k)
        load_states(a, k, count, a_k)
        sweep(model, q_k, v_k, a_k, s, x, out_k)
        store_states(out_k, k, count, out)
