"""A modified Newton-Euler recursion, and the Coriolis matrix by N calls of it, in O(N²).

De Luca & Ferrajoli, *A Modified Newton-Euler Method for Dynamic Computations in Robot Fault
Detection and Control*, ICRA 2009. EW21 section 3 compares its Algorithm 1 with this method.

Newton-Euler contains products of two velocities. The modified recursion takes an auxiliary velocity
``v_a`` beside ``v`` and uses it for one factor of each product, so that the torque is linear in
``v_a``. For body ``i`` with parent ``p``, let ``w`` and ``w_a`` be the angular velocities, ``z``
the joint axis, ``r`` the vector from the origin of ``p`` to the origin of ``i``, ``c`` the vector
from the origin of ``i`` to its centre of mass, and ``I`` the inertia about the centre of mass::

    outward  w_i     = w_p + v_i z        w_a,i = w_a,p + v_a,i z
             alpha_i = alpha_p + a_i z + w_a,p x v_i z
             b_i     = b_p + alpha_p x r + w_p x (w_a,p x r),  b_0 = -gravity
    force    F_i     = m (b_i + alpha_i x c + w_i x (w_a,i x c))
             N_i     = I alpha_i + w_a,i x I w_i
    inward   tau_i   = zᵀ (moment about the joint of all F_k and N_k of the subtree)

    tau = M a + C(q, v) v_a + g

A prismatic joint along ``z`` leaves ``w``, ``w_a`` and ``alpha`` unchanged and adds
``a_i z + w_a,p x v_i z + w_p x v_a,i z`` to ``b_i``. The rates of a floating root are in the root's
axes: angular rates add no product to ``alpha``, linear rates add ``w_i x v_a,i z`` to ``b``.

In each of ``alpha``, ``b``, ``F`` and ``N`` the roles of ``v`` and ``v_a`` may be exchanged. All
sixteen choices give the same ``C v``. Two choices give an admissible C for every robot: the one
above, and the one with all four exchanged. The recursion follows public implementations, because
the paper itself was not available; tests show the properties stated here.

Difference to the Christoffel-consistent C: ``alpha`` is the rate of ``w_a`` in body axes. About the
centre of mass, the angular block of the body-level factor of EW21 is ``-S(I w) - I S(w)``, which is
the block of eq. 10 minus ``½ tr(I) S(w)``; the other blocks are those of eq. 10. The difference is
skew-symmetric and maps ``w`` to zero. Hence C is admissible (M_dot - 2 C is skew-symmetric) and
``C v`` and ``Cᵀ v`` are the usual vectors, but C is not the matrix of the Christoffel symbols::

    C = C_christoffel - sum over bodies k of ½ tr(I_k) J_kᵀ S(w_k) J_k

with ``J_k`` the angular Jacobian. The two matrices are equal for point masses and planar robots.
"""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics.arguments import state
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.model_arrays import PRISMATIC, REVOLUTE
from rbd_control.dynamics.spatial import (
    add,
    add_row,
    cross,
    dot6,
    load3,
    load6,
    load_inertia,
    load_matrix,
    place_inertia,
    scale,
    store3,
    store6,
    store_inertia,
    sub,
    symmetric_times,
    transform,
)
from rbd_control.dynamics.sweep import move_bodies, new_sweep, place_bodies


@inlined
def _inertias_about_centres(model, s, centre):
    """Fill ``centre``, the vector from each origin to the centre of mass, and the inertia there."""
    for i in range(model.parent.shape[0]):
        R, m, h = load_matrix(s.R, i), model.mass[i], load3(model.first_moment, i)
        c = scale(1.0 / m, transform(R, h)) if m > 0.0 else (0.0, 0.0, 0.0)
        store3(centre, i, c)
        S = load_matrix(model.second_moment, i)
        store_inertia(s.inertia, i, place_inertia(m, h, S, R, scale(-1.0, c)))


@inlined
def _inertia_times(S, w):
    """Return I w for the second moment of mass S about the same point."""
    return sub(scale(S[0] + S[3] + S[5], w), symmetric_times(S, w))


@inlined
def _modified_newton_euler(model, gravity, v, v_a, a, s, centre, w_a, alpha, b, force, tau):
    """Compute M a + C v_a + g, after ``move_bodies`` and :func:`_inertias_about_centres`.

    ``w_a alpha b`` (n, 3) and ``force`` (n, 6) are workspace.
    """
    n = model.parent.shape[0]
    zero = (0.0, 0.0, 0.0)
    for i in range(n):
        parent, dof, kind = model.parent[i], model.dof[i], model.joint_type[i]
        p_i, w_i, Phi_i = load3(s.p, i), load6(s.velocity, i)[0], load6(s.Phi, i)
        if parent < 0:
            r, w_p, wa_p, alpha_p, b_p = p_i, zero, zero, zero, scale(-1.0, gravity)
        else:
            r, w_p = sub(p_i, load3(s.p, parent)), load6(s.velocity, parent)[0]
            wa_p, alpha_p, b_p = load3(w_a, parent), load3(alpha, parent), load3(b, parent)
        wa_i, alpha_i = wa_p, alpha_p
        b_i = add(b_p, add(cross(alpha_p, r), cross(w_p, cross(wa_p, r))))
        if kind == REVOLUTE:
            z = Phi_i[0]
            wa_i = add(wa_p, scale(v_a[dof], z))
            alpha_i = add(alpha_p, add(scale(a[dof], z), scale(v[dof], cross(wa_p, z))))
        elif kind == PRISMATIC:
            z = Phi_i[1]
            turning = add(scale(v[dof], cross(wa_p, z)), scale(v_a[dof], cross(w_p, z)))
            b_i = add(b_i, add(scale(a[dof], z), turning))
        else:  # a rate of the floating root, angular or linear, in the root's own axes
            wa_i = add(wa_p, scale(v_a[dof], Phi_i[0]))
            alpha_i = add(alpha_p, scale(a[dof], Phi_i[0]))
            z = Phi_i[1]
            b_i = add(b_i, add(scale(a[dof], z), scale(v_a[dof], cross(w_i, z))))
        store3(w_a, i, wa_i)
        store3(alpha, i, alpha_i)
        store3(b, i, b_i)
        m, _, S = load_inertia(s.inertia, i)
        c = load3(centre, i)
        F = scale(m, add(b_i, add(cross(alpha_i, c), cross(w_i, cross(wa_i, c)))))
        N = add(_inertia_times(S, alpha_i), cross(wa_i, _inertia_times(S, w_i)))
        # Moments about the common origin, so that the forces of a subtree can be added.
        store6(force, i, (add(N, cross(add(p_i, c), F)), F))
    tau[:] = 0.0
    for i in range(n - 1, -1, -1):
        tau[model.dof[i]] += dot6(load6(s.Phi, i), load6(force, i))
        if model.parent[i] >= 0:
            add_row(force, model.parent[i], i)


@inlined
def _outward(model, q, v, s, centre):
    """Compute the quantities that do not depend on ``v_a`` and ``a``."""
    place_bodies(model, q, s)
    move_bodies(model, v, s)
    _inertias_about_centres(model, s, centre)


@compiled
def _modified_newton_eulers(packed, q, v, v_a, a, tau):
    model = unpacked(packed)
    n = model.parent.shape[0]
    s, centre, force = new_sweep(n), np.empty((n, 3)), np.empty((n, 6))
    w_a, alpha, b = np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3))
    gravity = (model.gravity[0], model.gravity[1], model.gravity[2])
    for k in range(q.shape[0]):
        _outward(model, q[k], v[k], s, centre)
        _modified_newton_euler(
            model, gravity, v[k], v_a[k], a[k], s, centre, w_a, alpha, b, force, tau[k]
        )


@compiled
def _coriolis_matrices(packed, q, v, C):
    model = unpacked(packed)
    n, nv = model.parent.shape[0], v.shape[1]
    s, centre, force = new_sweep(n), np.empty((n, 3)), np.empty((n, 6))
    w_a, alpha, b = np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3))
    unit, none, column = np.zeros(nv), np.zeros(nv), np.empty(nv)
    weightless = (0.0, 0.0, 0.0)
    for k in range(q.shape[0]):
        _outward(model, q[k], v[k], s, centre)
        for j in range(nv):
            unit[j] = 1.0
            _modified_newton_euler(
                model, weightless, v[k], unit, none, s, centre, w_a, alpha, b, force, column
            )
            C[k, :, j] = column
            unit[j] = 0.0


def modified_newton_euler(
    model: Model, q: np.ndarray, v: np.ndarray, v_a: np.ndarray, a: np.ndarray
) -> np.ndarray:
    """Return the torque M(q) a + C(q, v) v_a + g(q) by modified Newton-Euler, in O(N).

    C is the matrix of :func:`coriolis_matrix_de_luca_ferrajoli`. With ``v_a = v`` the result is
    inverse dynamics. With a reference velocity and acceleration it is the model part of a
    Slotine-Li law, whose C is admissible but differs from the C of
    :func:`~rbd_control.dynamics.slotine_li_torque`.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        v_a: auxiliary joint velocities, (..., nv) [rad/s or m/s].
        a: joint accelerations, (..., nv) [rad/s² or m/s²].

    Returns:
        (..., nv) [N·m or N].

    Raises:
        InputError: for arguments of the wrong shape or not finite.

    Source: De Luca & Ferrajoli (2009).
    """
    (batch, *vectors), shape = state(model, q, v=v, v_a=v_a, a=a)
    tau = np.empty(vectors[0].shape)
    _modified_newton_eulers(model.packed, batch, *vectors, tau)
    return tau.reshape(*shape, model.nv)


def coriolis_matrix_de_luca_ferrajoli(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return a Coriolis matrix C by N calls of :func:`modified_newton_euler`.

    Column j is the torque of the modified recursion, without gravity and acceleration, for the
    auxiliary velocity ``v_a = e_j``, the unit vector of degree of freedom j. C is admissible
    (``M_dot - 2 C`` is skew-symmetric), but not the matrix of the Christoffel symbols; the
    docstring of the module gives the difference. The function serves comparisons:
    :func:`~rbd_control.dynamics.coriolis_matrix` costs only O(Nd).

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].

    Returns:
        (..., nv, nv) [torque per unit of velocity].

    Raises:
        InputError: for arguments of the wrong shape or not finite.

    Source: De Luca & Ferrajoli (2009); O(N²). Positions, ``w`` and inertias do not depend on
    ``v_a`` and are computed once for all columns.
    """
    (batch, velocities), shape = state(model, q, v=v)
    C = np.empty((batch.shape[0], model.nv, model.nv))
    _coriolis_matrices(model.packed, batch, velocities, C)
    return C.reshape(*shape, model.nv, model.nv)
