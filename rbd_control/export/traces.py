"""Results of each exported function as expressions, by running the kernels on expressions."""

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
    """Return M, C, Cᵀv and g."""
    n = t.model.nv
    model, q = t.from_root(q)
    results = t.zeros(n, n), t.zeros(n, n), t.zeros(n), t.zeros(n)
    s, memory = t.run(new_sweep)(t.rows), t.zeros(12 * t.rows)
    t.run(coriolis_sweep)(model, q, v, s, memory, *results)
    return results


def mass_matrix(t: Tracing, q: Expressions) -> Results:
    """Return M."""
    M = t.zeros(t.model.nv, t.model.nv)
    model, q = t.from_root(q)
    t.run(mass_matrix_sweep)(model, q, t.run(new_sweep)(t.rows), M)
    return (M,)


def gravity_torque(t: Tracing, q: Expressions) -> Results:
    """Return g."""
    g = t.zeros(t.model.nv)
    model, q = t.from_root(q)
    t.run(gravity_sweep)(model, q, t.run(new_sweep)(t.rows), g)
    return (g,)


def momentum_terms(t: Tracing, q: Expressions, v: Expressions) -> Results:
    """Return p, Cᵀv and g."""
    results = t.zeros(v.size), t.zeros(v.size), t.zeros(v.size)
    model, q = t.from_root(q)
    t.run(momentum_sweep)(model, q, v, t.run(new_sweep)(t.rows), *results)
    return results


def inverse_dynamics(t: Tracing, q: Expressions, v: Expressions, a: Expressions) -> Results:
    """Return the torque of a motion."""
    tau = t.zeros(t.model.nv)
    model, q = t.from_root(q)
    s, f = t.run(new_sweep)(t.rows), t.run(new_forces)(t.rows)
    t.run(newton_euler_sweep)(model, q, v, a, s, f, tau)
    return (tau,)


def forward_dynamics(t: Tracing, q: Expressions, v: Expressions, tau: Expressions) -> Results:
    """Return the acceleration."""
    a = t.zeros(t.model.nv)
    model, q = t.from_root(q)
    s, x = t.run(new_sweep)(t.rows), t.run(new_articulated)(t.rows)
    t.run(articulated_body_sweep)(model, q, v, tau, s, x, a)
    return (a,)


def christoffel_symbols(t: Tracing, q: Expressions) -> Results:
    """Return the Christoffel symbols."""
    n = t.model.nv
    Gamma = t.zeros(n, n, n)
    model, q = t.from_root(q)
    t.run(christoffel_sweep)(model, q, t.run(new_sweep)(t.rows), Gamma)
    return (Gamma,)


def slotine_li_torque(t: Tracing, q: Expressions, *motion: Expressions) -> Results:
    """Return M a_r + C v_r + g; ``motion`` is v, v_r, a_r."""
    model, q = t.from_root(q)
    tau = t.zeros(t.model.nv)
    s, f = t.run(new_sweep)(t.rows), t.run(new_forces)(t.rows)
    t.run(slotine_li_sweep)(model, q, *motion, s, f, tau)
    return (tau,)


def regressor_product(t: Tracing, q: Expressions, *more: Expressions) -> Results:
    """Return Y pi; ``more`` is v, v_r, a_r and pi.

    The Slotine-Li torque is linear in pi. Computed with pi as the inertial parameters it equals
    Y pi, at a tenth of the cost of Y.
    """
    *motion, pi = more
    model, q = t.with_parameters(q, pi)
    tau = t.zeros(t.model.nv)
    s, f = t.run(new_sweep)(t.rows), t.run(new_forces)(t.rows)
    t.run(slotine_li_sweep)(model, q, *motion, s, f, tau)
    return (tau,)


def friction_torque(t: Tracing, friction: Friction, v: Expressions) -> Results:
    """Return the friction torques."""
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
    """Return the Jacobian of a frame placed in a body; body -1 is the world."""
    J = t.zeros(1, 6, t.model.nv)
    if body >= 0:
        origin = tuple(t.exact(placement[:3, 3]))
        t.run(_frame_jacobians)(t.constants, q[None], body, origin, J)
    return (J[0],)


def momentum_observer(t: Tracing, friction: Friction, *given: Expressions) -> Results:
    """Return the momentum p, its rate tau - friction + Cᵀv - g, and the residual.

    ``given`` holds q, v, tau, dt, gain, and p, rate and residual of the previous sample. The
    velocity is taken without delay against the torque.
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
