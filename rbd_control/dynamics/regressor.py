"""The Slotine-Li regressor: torques are linear in the inertial parameters of the bodies.

A body has ten inertial parameters, in this order (about the origin and in the axes of its frame,
which is the frame of the link that its joint moves)::

    m   m c_x  m c_y  m c_z   I_xx  I_xy  I_xz  I_yy  I_yz  I_zz        [kg, kg·m, kg·m²]

(Pinocchio has I_yy before I_xz.) In the axes of the body about its origin, with the true twist
``[w ; u]``, the angular part ``y`` of the reference twist and the rate ``[alpha ; b]`` of the
reference twist, the force that moves the body, ``f_i`` of ``newton_euler.py``, is::

    force    m a + K h                       a = b + y x u        (b of the world: minus gravity)
    moment   h x a + I alpha + w x I y - ½ tr(I) w x y            K = S(alpha) + S(y) S(w)

with ``h = m c``; for ``v_r = v`` these are the equations of Newton and Euler. Their projections on
the joints between root and body are ten columns of ``Y`` for each body, O(Nd) in total.

Each row of ``ModelArrays`` counts as a body: a rotor has ten columns of its own, after the columns
of all bodies. A floating root, which has six rows, has ten columns.
"""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics.batches import (
    Kernels,
    count_states,
    evaluate,
    finite,
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
    add,
    add6,
    cross,
    dot,
    load3,
    load6,
    load_matrix,
    scale6,
    store6,
    sub,
    transform,
    transpose,
)
from rbd_control.dynamics.sweep import (
    move_bodies,
    new_lane_sweep,
    new_sweep,
    place_bodies,
    position_offset,
)

PARAMETERS = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Ixz", "Iyy", "Iyz", "Izz")
"""Names of the ten inertial parameters of a body, in their order."""


@inlined
def in_body(point, R_transpose, m):
    """Return a motion re-expressed about the origin and in the axes of a body.

    The motion ``m`` is given in world axes about the origin of the sweep. ``point`` is the origin
    of the body and ``R_transpose`` its transposed orientation.
    """
    return (
        transform(R_transpose, m[0]),
        transform(R_transpose, add(m[1], cross(m[0], point))),
    )


@inlined
def power_coefficients(motion, velocity, reference, rate):
    """Return ten coefficients of the power of the force that moves a body, in a tuple.

    Their product with the inertial parameters of the body, in the order of :data:`PARAMETERS`, is
    the power of the force along ``motion``; if ``motion`` is the axis of a joint, the torque of the
    joint. All arguments are pairs (angular, linear) of 3-vectors about the origin and in the axes
    of the body, as :func:`in_body` returns them.

    Args:
        motion: the motion.
        velocity: the true twist.
        reference: the reference twist; its linear part is not used.
        rate: rate of the reference twist, from a root that accelerates by minus gravity.
    """
    (e, d), (w, u), (y, _), (alpha, b) = motion, velocity, reference, rate
    a = add(b, cross(y, u))
    # dᵀ K h = hᵀ Kᵀ d and eᵀ (h x a) = hᵀ (a x e).
    h = add(cross(a, e), sub(cross(d, alpha), cross(w, cross(d, y))))
    # eᵀ w x I y = zᵀ I y, symmetric in its two sides.
    z = cross(e, w)
    trace = dot(z, y) * 0.5
    return (
        dot(d, a),
        h[0],
        h[1],
        h[2],
        e[0] * alpha[0] + z[0] * y[0] - trace,
        e[0] * alpha[1] + e[1] * alpha[0] + z[0] * y[1] + z[1] * y[0],
        e[0] * alpha[2] + e[2] * alpha[0] + z[0] * y[2] + z[2] * y[0],
        e[1] * alpha[1] + z[1] * y[1] - trace,
        e[1] * alpha[2] + e[2] * alpha[1] + z[1] * y[2] + z[2] * y[1],
        e[2] * alpha[2] + z[2] * y[2] - trace,
    )


@inlined
def regressor_sweep(model, q, v, v_r, a_r, s, reference, rate, Y):
    """Write the regressor of one state to ``Y``, (nv, 10 bodies).

    ``q`` is (nq,), ``v``, ``v_r`` and ``a_r`` are (nv,). The ``Sweep`` ``s``, ``reference`` (n, 6)
    and ``rate`` (n, 6) are workspace.
    """
    place_bodies(model, q, s)
    move_bodies(model, v, s)
    Y[:] = 0.0
    zero = (0.0, 0.0, 0.0)
    falling = (zero, (-model.gravity[0], -model.gravity[1], -model.gravity[2]))
    first = 5 if position_offset(model) > 0 else 0
    for k in range(model.parent.shape[0]):
        parent, dof = model.parent[k], model.dof[k]
        Phi_k = load6(s.Phi, k)
        w_parent = (zero, zero) if parent < 0 else load6(reference, parent)
        b_parent = falling if parent < 0 else load6(rate, parent)
        w_k = add6(w_parent, scale6(v_r[dof], Phi_k))
        b_k = add6(add6(b_parent, scale6(a_r[dof], Phi_k)), scale6(v_r[dof], load6(s.Phi_dot, k)))
        store6(reference, k, w_k)
        store6(rate, k, b_k)
        if k < first:
            continue
        point, RT = load3(s.p, k), transpose(load_matrix(s.R, k))
        velocity = in_body(point, RT, load6(s.velocity, k))
        w_body, b_body = in_body(point, RT, w_k), in_body(point, RT, b_k)
        column = 10 * (k - first)
        i = k
        while i >= 0:
            Phi_i = in_body(point, RT, load6(s.Phi, i))
            row = power_coefficients(Phi_i, velocity, w_body, b_body)
            for j in range(10):
                Y[model.dof[i], column + j] += row[j]
            i = model.parent[i]


@inlined
def _columns(model):
    """Return the number of columns of Y."""
    return 10 * (model.parent.shape[0] - 5 * position_offset(model))


@compiled
def _regressors(packed, q, v, v_r, a_r, Y):
    model = unpacked(packed)
    if not (rows_fit(model, q, v) and rows_fit(model, q, v_r) and rows_fit(model, q, a_r)):
        return False
    if not (rows_fit(model, q, Y) and Y.shape[1] == _columns(model)):
        return False
    if not (places(model, q) and finite(v) and finite(v_r) and finite(a_r)):
        return False
    n, nv, nq = model.parent.shape[0], model.nv, model.nv + position_offset(model)
    s, memory = new_sweep(n), scratch(12 * n)
    w, b = numbers(memory, 0, (n, 6)), numbers(memory, 6 * n, (n, 6))
    for k in range(count_states(model, q)):
        v_k, v_r_k, a_r_k = part(v, k, nv), part(v_r, k, nv), part(a_r, k, nv)
        regressor_sweep(model, part(q, k, nq), v_k, v_r_k, a_r_k, s, w, b, part(Y, k, nv))
    keep(memory)
    return True


@compiled
def _regressors_in_lanes(packed, q, v, v_r, a_r, Y):
    model = unpacked(packed)
    if not (places(model, q) and finite(v) and finite(v_r) and finite(a_r)):
        return False
    n, nv, nq = model.parent.shape[0], model.nv, model.nv + position_offset(model)
    count, columns = count_states(model, q), _columns(model)
    s, memory = new_lane_sweep(n), lane_scratch(12 * n)
    w, b = numbers(memory, 0, (n, 6)), numbers(memory, 6 * n, (n, 6))
    room = lane_scratch(nq + 3 * nv + nv * columns)
    q_k, v_k = numbers(room, 0, (nq,)), numbers(room, nq, (nv,))
    v_r_k, a_r_k = numbers(room, nq + nv, (nv,)), numbers(room, nq + 2 * nv, (nv,))
    Y_k = numbers(room, nq + 3 * nv, (nv * columns,))
    for k in range(0, count, WIDTH):
        load_states(q, k, count, q_k)
        load_states(v, k, count, v_k)
        load_states(v_r, k, count, v_r_k)
        load_states(a_r, k, count, a_r_k)
        Y_matrix = numbers(Y_k, 0, (nv, columns))
        regressor_sweep(model, q_k, v_k, v_r_k, a_r_k, s, w, b, Y_matrix)
        store_states(Y_k, k, count, Y)
    keep(room)
    keep(memory)
    return True


def _new_matrix(model: Model) -> tuple[np.ndarray]:
    return (np.empty((model.nv, 10 * _bodies(model).size)),)


_REGRESSOR = Kernels(_regressors, _regressors_in_lanes, _new_matrix, ("v", "v_r", "a_r"))


def regressor(
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    v_r: np.ndarray,
    a_r: np.ndarray,
    *,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return Y with ``Y pi = M a_r + C(q, v) v_r + g`` and the Christoffel-consistent C.

    ``pi`` are the parameters that :func:`inertial_parameters` lists. With ``v_r = v`` and
    ``a_r = a`` Y is the regressor of inverse dynamics. Y does not depend on ``pi``.

    Args:
        model: the robot; its masses and inertias are not used.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        v_r: reference velocities, (..., nv) [rad/s or m/s].
        a_r: reference accelerations, (..., nv) [rad/s² or m/s²].
        out: C-contiguous float64 array for the result, (..., nv, 10 bodies); overlaps no argument.

    Returns:
        (..., nv, 10 bodies), ten columns per body [torque per unit of parameter]. Rotors count as
        bodies and follow after all others.

    Raises:
        InputError: for arguments of the wrong shape or not finite.

    Source: Slotine & Li, *On the Adaptive Control of Robot Manipulators*, IJRR 1987; the factor B
    of eq. (10) of EW21 (Echeandia & Wensing 2021). O(Nd).
    """
    results = None if out is None else (out,)
    return evaluate(_REGRESSOR, model, results, q, v, v_r, a_r)[0]


def inertial_parameters(model: Model) -> np.ndarray:
    """Return the inertial parameters pi of the model, ten for each body and rotor.

    Returns:
        (10 bodies,), per body ``m, m c (3), I_xx I_xy I_xz I_yy I_yz I_zz`` about the origin and
        in the axes of its frame [kg, kg·m, kg·m²], in the order of the columns of
        :func:`regressor`: bodies, then rotors.
    """
    bodies = _bodies(model)
    second = model.arrays.second_moment[bodies]
    trace = np.trace(second, axis1=1, axis2=2)
    inertia = trace[:, None, None] * np.eye(3) - second
    rows, columns = np.triu_indices(3)
    first = model.arrays.first_moment[bodies]
    return np.column_stack([model.arrays.mass[bodies], first, inertia[:, rows, columns]]).ravel()


def inertial_parameter_names(model: Model) -> tuple[str, ...]:
    """Return the names of the :func:`inertial_parameters`, such as ``"forearm Ixx"``.

    They are in the order of the parameters. A body has the name of the link that its joint moves, a
    floating root the name of the root link, and a rotor a name such as ``"rotor of joint_2"``.
    """
    root = (next(iter(model.link_body)),) if model.floating_base else ()
    names = [*root, *model.body_links]
    offset = model.nv - len(model.joint_names)
    for dof in model.arrays.dof[model.bodies :]:
        names.append(f"rotor of {model.joint_names[dof - offset]}")
    return tuple(f"{name} {parameter}" for name in names for parameter in PARAMETERS)


def _bodies(model: Model) -> np.ndarray:
    """Return the rows of bodies and rotors; of a floating root's six rows only the last."""
    return np.arange(5 if model.floating_base else 0, model.arrays.mass.size)
