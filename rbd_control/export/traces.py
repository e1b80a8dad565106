"""Results of each exported function as expressions, by running the kernels on expressions.

The first argument ``t`` of every function is the :class:`Tracing` that collects the expressions.
``q`` is (nq,); velocities, accelerations and torques are (nv,). Units and frames are those of the
function of the same name in :mod:`rbd_control.dynamics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TypeAlias

import numpy as np

from rbd_control.dynamics.articulated_body import articulated_body_sweep, new_articulated
from rbd_control.dynamics.christoffel import christoffel_sweep
from rbd_control.dynamics.coriolis import coriolis_sweep, mass_matrix_sweep
from rbd_control.dynamics.kinematics import _body_placements, _frame_jacobians
from rbd_control.dynamics.momentum import gravity_sweep, momentum_sweep
from rbd_control.dynamics.newton_euler import new_forces, newton_euler_sweep, slotine_li_sweep
from rbd_control.dynamics.sweep import new_sweep
from rbd_control.estimation.linear_filters import FIRST_ORDER, observe
from rbd_control.export.tracing import Tracing
from rbd_control.robot.friction import Friction, joint_friction

Expressions: TypeAlias = np.ndarray
"""An array of expressions and floats."""
Results: TypeAlias = Sequence[Expressions]


def dynamics_terms(t: Tracing, q: Expressions, v: Expressions) -> Results:
    """Return the expressions of M, C (nv, nv each), Cᵀv and g (nv,) in ``M a + C v + g = tau``."""
    n = t.model.nv
    model, q = t.from_root(q)
    results = t.zeros(n, n), t.zeros(n, n), t.zeros(n), t.zeros(n)
    s, memory = t.run(new_sweep)(t.rows), t.zeros(12 * t.rows)
    t.run(coriolis_sweep)(model, q, v, s, memory, *results)
    return results


def mass_matrix(t: Tracing, q: Expressions) -> Results:
    """Return the expressions of the mass matrix, (nv, nv), in a tuple of one."""
    M = t.zeros(t.model.nv, t.model.nv)
    model, q = t.from_root(q)
    t.run(mass_matrix_sweep)(model, q, t.run(new_sweep)(t.rows), M)
    return (M,)


def gravity_torque(t: Tracing, q: Expressions) -> Results:
    """Return the expressions of the gravity torque, (nv,), in a tuple of one."""
    g = t.zeros(t.model.nv)
    model, q = t.from_root(q)
    t.run(gravity_sweep)(model, q, t.run(new_sweep)(t.rows), g)
    return (g,)


def momentum_terms(t: Tracing, q: Expressions, v: Expressions) -> Results:
    """Return the expressions of the momentum p = M v, of Cᵀv and of the gravity torque, (nv,)."""
    results = t.zeros(v.size), t.zeros(v.size), t.zeros(v.size)
    model, q = t.from_root(q)
    t.run(momentum_sweep)(model, q, v, t.run(new_sweep)(t.rows), *results)
    return results


def inverse_dynamics(t: Tracing, q: Expressions, v: Expressions, a: Expressions) -> Results:
    """Return the expressions of the torque M a + C v + g, (nv,), in a tuple of one."""
    tau = t.zeros(t.model.nv)
    model, q = t.from_root(q)
    s, f = t.run(new_sweep)(t.rows), t.run(new_forces)(t.rows)
    t.run(newton_euler_sweep)(model, q, v, a, s, f, tau)
    return (tau,)


def forward_dynamics(t: Tracing, q: Expressions, v: Expressions, tau: Expressions) -> Results:
    """Return the expressions of the acceleration that ``tau`` causes, (nv,), in a tuple of one."""
    a = t.zeros(t.model.nv)
    model, q = t.from_root(q)
    s, x = t.run(new_sweep)(t.rows), t.run(new_articulated)(t.rows)
    t.run(articulated_body_sweep)(model, q, v, tau, s, x, a)
    return (a,)


def christoffel_symbols(t: Tracing, q: Expressions) -> Results:
    """Return the expressions of the Christoffel symbols Gamma, (nv, nv, nv), in a tuple of one."""
    n = t.model.nv
    Gamma = t.zeros(n, n, n)
    model, q = t.from_root(q)
    t.run(christoffel_sweep)(model, q, t.run(new_sweep)(t.rows), Gamma)
    return (Gamma,)


def slotine_li_torque(t: Tracing, q: Expressions, *motion: Expressions) -> Results:
    """Return the expressions of the torque M a_r + C v_r + g, (nv,), in a tuple of one.

    ``motion`` is v and the reference velocity v_r and acceleration a_r, (nv,) each.
    """
    model, q = t.from_root(q)
    tau = t.zeros(t.model.nv)
    s, f = t.run(new_sweep)(t.rows), t.run(new_forces)(t.rows)
    t.run(slotine_li_sweep)(model, q, *motion, s, f, tau)
    return (tau,)


def regressor_product(t: Tracing, q: Expressions, *more: Expressions) -> Results:
    """Return the expressions of the torque Y pi, (nv,), in a tuple of one.

    ``more`` is v, v_r, a_r, (nv,) each, and the inertial parameters pi, ten for each body, see
    :func:`~rbd_control.dynamics.inertial_parameters`. The Slotine-Li torque is linear in pi.
    Computed with pi as the inertial parameters it equals Y pi with the regressor Y, at a tenth of
    the cost of Y.
    """
    *motion, pi = more
    model, q = t.with_parameters(q, pi)
    tau = t.zeros(t.model.nv)
    s, f = t.run(new_sweep)(t.rows), t.run(new_forces)(t.rows)
    t.run(slotine_li_sweep)(model, q, *motion, s, f, tau)
    return (tau,)


def friction_torque(t: Tracing, friction: Friction, v: Expressions) -> Results:
    """Return the expressions of the friction torques, (nv,), with the sign of v, in a tuple."""
    coefficients = friction.coefficients(v.size).astype(object)
    run = t.run(joint_friction)
    torques = [run(friction.kind, coefficients, i, v[i]) for i in range(v.size)]
    return (np.array(torques, dtype=object),)


def frame_placement(t: Tracing, body: int, placement: np.ndarray, q: Expressions) -> Results:
    """Return the homogeneous transform (4, 4) from a frame to the world, in a tuple of one.

    ``placement`` is the frame in its body, (4, 4); body -1 is the world.
    """
    T = t.zeros(1, 4, 4)
    T[0] = np.eye(4).astype(object)
    if body >= 0:
        t.run(_body_placements)(t.constants, q[None], body, T)
    return (T[0] @ t.exact(placement),)


def frame_jacobian(t: Tracing, body: int, placement: np.ndarray, q: Expressions) -> Results:
    """Return the Jacobian (6, nv) of a frame, angular rows first, in a tuple of one.

    It is world-aligned at the origin of the frame. ``placement`` is the frame in its body, (4, 4);
    body -1 is the world.
    """
    J = t.zeros(1, 6, t.model.nv)
    if body >= 0:
        origin = tuple(t.exact(placement[:3, 3]))
        t.run(_frame_jacobians)(t.constants, q[None], body, origin, J)
    return (J[0],)


def momentum_observer(t: Tracing, friction: Friction, *given: Expressions) -> Results:
    """Return the momentum p, its rate tau - friction + Cᵀv - g, and the residual, (nv,) each.

    The residual is the estimate of the external joint torque by the first-order momentum observer.
    ``given`` holds q, v, tau, dt [s], gain [1/s], and p, rate and residual of the previous sample.
    The velocity is taken without delay against the torque.
    """
    q, v, tau, dt, gain, last_p, last_rate, last_r = given
    p, CTv, g = momentum_terms(t, q, v)
    (losses,) = friction_torque(t, friction, v)
    rate = tau - losses + CTv - g
    r = t.zeros(v.size)
    for i in range(r.size):
        state = SimpleNamespace(p=last_p[i], rate=last_rate[i], drive=0.0, residual=last_r[i])
        design = SimpleNamespace(gain=gain[i], delay=0.0)
        t.run(observe)(FIRST_ORDER, design, state, dt[()], p[i], rate[i], 0.0, 0.0)
        r[i] = state.residual
    return p, rate, r
