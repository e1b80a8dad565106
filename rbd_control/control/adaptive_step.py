"""Compiled code of the adaptive law for one sample: the torque, then a step of the estimates.

:mod:`~rbd_control.control.adaptive` has the equations and their derivation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.newton_euler import new_forces, slotine_li_sweep
from rbd_control.dynamics.regressor import in_body, power_coefficients
from rbd_control.dynamics.spatial import (
    add6,
    dot6,
    inertia_times,
    load3,
    load6,
    load_matrix,
    scale6,
    store6,
    transpose,
)
from rbd_control.dynamics.sweep import new_sweep

LARGEST = 10.0
"""Largest permitted eigenvalue of W, the scaled pseudo-inertia of an adapted body.

The described body has at most 1; a payload of ``largest_payload_mass`` within
``largest_payload_reach`` adds at most 6.
"""

LARGEST_FRICTION = 4.0
"""Largest estimate of a friction coefficient, in multiples of the value in the parameters."""


DEAD_ZONE_AVERAGE = 0.05
"""Time constant of the average of the velocity error s, to which the dead zone applies [s]."""

LEARNED_AT_ONCE = 0.1
"""Largest change of the torque along the velocity error s by one step of learning.

It is a share of the torque that would bring s to zero within the period. The equations hold in
continuous time. In a fast motion, after a collision for instance, the step of one period may
otherwise exceed the error that it is to reduce, and the loop oscillates.
"""

REMEMBERED = 1.0
"""Time constant of the average of the estimates [s]."""

ROUNDS = 3
"""Maximum number of cycles of projections of an estimate onto its bounds, in one step."""


class Gains(NamedTuple):
    """Gains of the adaptive law.

    Attributes:
        damping: (n,) constant part of K_D [N·m·s/rad or N·s/m].
        dead_zone: (n,) torque errors that are not learned [N·m or N].
        damping_rate: part of K_D that is proportional to the mass matrix [1/s].
        learning_rate: learning rate of the inertial parameters [1/J].
        friction_learning_rate: learning rate of friction [1/J].
    """

    damping: np.ndarray
    dead_zone: np.ndarray
    damping_rate: float
    learning_rate: float
    friction_learning_rate: float


class Bodies(NamedTuple):
    """The k adapted bodies: pseudo-inertia P = S W Sᵀ with the estimate W.

    Attributes:
        row: (k,) row of each body in the arrays of the model.
        S: (k, 4, 4) Cholesky factor of the metric, see :mod:`~rbd_control.control.adaptive`.
        W: (k, 4, 4) estimates, changed by every step that learns.
        average: (k, 4, 4) W averaged over ``REMEMBERED``.
        least: (k,) smallest permitted eigenvalue of W.
        start: (k, 4, 4) W of the described body, which is within all bounds.
        cap: (k, c, 4, 4) symmetric matrices of c linear bounds, here on the mass and on the second
            moment about the link's origin: the sum of ``cap * W`` is at most ``most``.
        most: (k, c) largest values of these sums [kg, kg·m²].
    """

    row: np.ndarray
    S: np.ndarray
    W: np.ndarray
    average: np.ndarray
    least: np.ndarray
    start: np.ndarray
    cap: np.ndarray
    most: np.ndarray


class JointFriction(NamedTuple):
    """Friction ``coulomb tanh(v / scale) + viscous v + offset`` of n joints, with its estimates.

    Attributes:
        coulomb: (n,) estimates [N·m or N]. Steps that learn change them for joints that slide.
        viscous: (n,) estimates [N·m·s/rad or N·s/m], changed as ``coulomb``.
        average: (2, n) ``coulomb`` and ``viscous`` averaged over ``REMEMBERED``.
        offset: (n,) constant torque [N·m or N].
        scale: (n,) velocity scale of the hyperbolic tangent [rad/s or m/s].
        coulomb_unit, viscous_unit: (n,) values of the parameters, in multiples of which the metric
            measures the estimates; 0 for friction that is not learned.
    """

    coulomb: np.ndarray
    viscous: np.ndarray
    average: np.ndarray
    offset: np.ndarray
    scale: np.ndarray
    coulomb_unit: np.ndarray
    viscous_unit: np.ndarray


@compiled
def adaptive_step(packed, gains, bodies, friction, smooth, q, v, v_r, reference_rate, dt, tau):
    """Write the torque of the adaptive law, then correct the estimates; return a status.

    Args:
        packed: the model with the estimates as one array; changed in place by learning.
        gains: :class:`Gains` of the law.
        bodies, friction: :class:`Bodies` and :class:`JointFriction`; changed in place by learning.
        smooth: (n,) average of s = v - v_r for the dead zone [rad/s or m/s]; changed in place.
        q, v: measured positions [rad or m] and velocities [rad/s or m/s], (n,) each.
        v_r: (n,) reference velocity [rad/s or m/s].
        reference_rate: (n,) rate of ``v_r`` [rad/s² or m/s²].
        dt: time for which to learn [s]; 0 changes no estimate.
        tau: (n,) torque [N·m or N], written.

    Returns:
        1 if estimates changed; 0 in the dead zone, where only the averages change, or for dt = 0;
        -1 if the torque is not finite. If dt is 0 or the result is -1, only ``tau``
        has changed.
    """
    model, n = unpacked(packed), q.shape[0]
    a_r, s = np.empty(n), np.empty(n)
    for i in range(n):
        s[i] = v[i] - v_r[i]
        a_r[i] = reference_rate[i] - gains.damping_rate * s[i]
    rows = model.parent.shape[0]
    sweep = new_sweep(rows)
    slotine_li_sweep(model, q, v, v_r, a_r, sweep, new_forces(rows), tau)
    total = 0.0
    for i in range(n):
        slope = np.tanh(v_r[i] / friction.scale[i])
        tau[i] += friction.coulomb[i] * slope + friction.viscous[i] * v_r[i] + friction.offset[i]
        tau[i] -= gains.damping[i] * s[i]
        total += tau[i]
    if not np.isfinite(total):
        return -1
    if dt <= 0.0:
        return 0

    share = 1.0 - np.exp(-dt / REMEMBERED)
    _approach(bodies.average, bodies.W, share)
    _approach(friction.average[0], friction.coulomb, share)
    _approach(friction.average[1], friction.viscous, share)
    power, disturbance = 0.0, 0.0
    for i in range(n):
        smooth[i] += (1.0 - np.exp(-dt / DEAD_ZONE_AVERAGE)) * (s[i] - smooth[i])
        power += gains.damping[i] * smooth[i] * smooth[i]
        disturbance += gains.dead_zone[i] * abs(smooth[i])
    coefficients = np.empty((rows, 10))
    average, present = _coefficients(model, v_r, a_r, s, smooth, sweep, coefficients)
    power += gains.damping_rate * average
    if not disturbance < power:
        return 0
    count = bodies.row.shape[0]
    gradients, square = np.empty((count, 4, 4)), 0.0
    for k in range(count):
        square += _gradient(bodies.S[k], coefficients[bodies.row[k]], gradients[k])
    # A step changes the torque by Y d pi, with the power -learning_rate dt |gradient|² along s.
    dissipated = gains.damping_rate * present
    for i in range(n):
        dissipated += gains.damping[i] * s[i] * s[i]
    # Learning is like a spring of the frequency w, with w² = learning_rate |gradient|² / sᵀ M s. It
    # swings unless w is at most the rate at which s decays.
    decay = dissipated / present if present > 0.0 else 0.0  # s may be exactly zero
    most = present * min(LEARNED_AT_ONCE, (dt * decay) ** 2)
    effect = gains.learning_rate * square
    effect += gains.friction_learning_rate * _friction_gradient(friction, v, v_r, s)
    # All estimates take the same share of their steps, so that the direction is kept.
    kept = most / (dt * dt * effect) if dt * dt * effect > most else 1.0
    step = kept * gains.learning_rate * dt
    if np.isfinite(square):
        for k in range(count):
            _move(bodies, k, gradients[k], -step)
            write_body(model, bodies.row[k], bodies.S[k], bodies.W[k])
    step = -kept * gains.friction_learning_rate * dt
    for i in range(n):
        if not _is_sliding(friction, i, v, v_r):
            continue
        unit = friction.coulomb_unit[i]
        change = step * unit * unit * np.tanh(v_r[i] / friction.scale[i]) * s[i]
        if unit > 0.0 and np.isfinite(change):
            value = friction.coulomb[i] + change
            friction.coulomb[i] = min(max(value, 0.0), LARGEST_FRICTION * unit)
        unit = friction.viscous_unit[i]
        change = step * unit * unit * v_r[i] * s[i]
        if unit > 0.0 and np.isfinite(change):
            value = friction.viscous[i] + change
            friction.viscous[i] = min(max(value, 0.0), LARGEST_FRICTION * unit)
    return 1


@inlined
def _is_sliding(friction, i, v, v_r):
    """Return whether joint i moves in the direction of v_r, and faster than ``friction.scale``."""
    return v[i] * v_r[i] > friction.scale[i] * abs(v_r[i])


@inlined
def _friction_gradient(friction, v, v_r, s):
    """Return the squared norm of the gradient of the sliding friction's power along s."""
    square = 0.0
    for i in range(s.shape[0]):
        if _is_sliding(friction, i, v, v_r):
            coulomb = friction.coulomb_unit[i] * np.tanh(v_r[i] / friction.scale[i]) * s[i]
            viscous = friction.viscous_unit[i] * v_r[i] * s[i]
            square += coulomb * coulomb + viscous * viscous
    return square


@inlined
def _approach(average, value, share):
    """Move an average by ``share`` of its distance to the value."""
    flat, target = average.reshape(-1), value.reshape(-1)
    for i in range(flat.shape[0]):
        flat[i] += share * (target[i] - flat[i])


@inlined
def _coefficients(model, v_r, a_r, s, smooth, sweep, coefficients):
    """Write Yᵀ s to ``coefficients``, (rows, 10), without Y; return xᵀ M x for x = smooth and s.

    M is the estimated mass matrix. ``sweep`` has the poses and velocities of the bodies.
    """
    rows = model.parent.shape[0]
    reference, rate = np.empty((rows, 6)), np.empty((rows, 6))
    along, slow = np.empty((rows, 6)), np.empty((rows, 6))
    zero = (0.0, 0.0, 0.0)
    still = (zero, zero)
    falling = (zero, (-model.gravity[0], -model.gravity[1], -model.gravity[2]))
    average, present = 0.0, 0.0
    for k in range(rows):
        parent, dof = model.parent[k], model.dof[k]
        Phi_k = load6(sweep.Phi, k)
        # The twists of newton_euler.py, and the twists of the body for the velocities s and x.
        reference_k = add6(
            still if parent < 0 else load6(reference, parent), scale6(v_r[dof], Phi_k)
        )
        rate_k = add6(
            add6(falling if parent < 0 else load6(rate, parent), scale6(a_r[dof], Phi_k)),
            scale6(v_r[dof], load6(sweep.Phi_dot, k)),
        )
        along_k = add6(still if parent < 0 else load6(along, parent), scale6(s[dof], Phi_k))
        slow_k = add6(still if parent < 0 else load6(slow, parent), scale6(smooth[dof], Phi_k))
        store6(reference, k, reference_k)
        store6(rate, k, rate_k)
        store6(along, k, along_k)
        store6(slow, k, slow_k)
        point, RT = load3(sweep.p, k), transpose(load_matrix(sweep.R, k))
        slow_k, along_k = in_body(point, RT, slow_k), in_body(point, RT, along_k)
        second = model.second_moment[k]
        inertia = (
            model.mass[k],
            load3(model.first_moment, k),
            (second[0, 0], second[0, 1], second[0, 2], second[1, 1], second[1, 2], second[2, 2]),
        )
        average += dot6(slow_k, inertia_times(inertia, slow_k))
        present += dot6(along_k, inertia_times(inertia, along_k))
        row = power_coefficients(
            along_k,
            in_body(point, RT, load6(sweep.velocity, k)),
            in_body(point, RT, reference_k),
            in_body(point, RT, rate_k),
        )
        for j in range(10):
            coefficients[k, j] = row[j]
    return average, present


@inlined
def _gradient(S, y, gradient):
    """Write the gradient of yᵀ pi with respect to W, (4, 4) symmetric; return its squared norm."""
    # tr(L dP) = yᵀ d pi with I = tr(Sigma) 1 - Sigma.
    L = np.empty((4, 4))
    L[0, 0], L[1, 1], L[2, 2] = y[7] + y[9], y[4] + y[9], y[4] + y[7]
    L[0, 1], L[0, 2], L[1, 2] = -0.5 * y[5], -0.5 * y[6], -0.5 * y[8]
    L[0, 3], L[1, 3], L[2, 3] = 0.5 * y[1], 0.5 * y[2], 0.5 * y[3]
    L[3, 3] = y[0]
    for i in range(4):
        for j in range(i):
            L[i, j] = L[j, i]
    square = 0.0
    for i in range(4):
        for j in range(i, 4):
            value = 0.0
            for k in range(4):
                for m in range(4):
                    value += S[k, i] * L[k, m] * S[m, j]
            gradient[i, j] = gradient[j, i] = value
            square += value * value if i == j else 2.0 * value * value
    return square


@inlined
def _move(bodies, index, gradient, step):
    """Add ``step`` times the gradient to W of a body, and return W to its bounds."""
    W = bodies.W[index]
    for i in range(4):
        for j in range(4):
            W[i, j] += step * gradient[i, j]
    for _ in range(ROUNDS):
        if project(bodies, index):
            break
    shrink(bodies, index)


@inlined
def project(bodies, index):
    """Project W of one body onto each bound in turn; return whether it was within all caps before.

    Caps are the linear bounds of :class:`Bodies`. Each bound is a convex set that contains the true
    parameters, so no projection increases the distance to them.

    Args:
        bodies: the adapted bodies, of which ``W[index]`` is changed in place.
        index: index of the body.
    """
    W, kept = bodies.W[index], True
    for c in range(bodies.cap.shape[1]):
        cap = bodies.cap[index, c]
        excess, square = -bodies.most[index, c], 0.0
        for i in range(4):
            for j in range(4):
                excess += cap[i, j] * W[i, j]
                square += cap[i, j] * cap[i, j]
        if excess > 0.0:
            kept = False
            for i in range(4):
                for j in range(4):
                    W[i, j] -= excess / square * cap[i, j]
    clip_eigenvalues(W, bodies.least[index], LARGEST)
    return kept


@inlined
def shrink(bodies, index):
    """Move W towards the described body, only as far as needed, until it keeps every cap.

    As the bounds are convex, W also keeps the bounds on its eigenvalues if it kept them before.

    Args:
        bodies: the adapted bodies, of which ``W[index]`` is changed in place.
        index: index of the body.
    """
    W, start = bodies.W[index], bodies.start[index]
    share = 1.0
    for c in range(bodies.cap.shape[1]):
        cap, room, change = bodies.cap[index, c], bodies.most[index, c], 0.0
        for i in range(4):
            for j in range(4):
                room -= cap[i, j] * start[i, j]
                change += cap[i, j] * (W[i, j] - start[i, j])
        if change > room:
            share = min(share, room / change)
    if share < 1.0:
        for i in range(4):
            for j in range(4):
                W[i, j] = start[i, j] + share * (W[i, j] - start[i, j])


@inlined
def write_body(model, row, S, W):
    """Write the pseudo-inertia S W Sᵀ as mass and moments into row ``row`` of the model."""
    for i in range(4):
        for j in range(i, 4):
            value = 0.0
            for k in range(4):
                for m in range(4):
                    value += S[i, k] * W[k, m] * S[j, m]
            if j < 3:
                model.second_moment[row, i, j] = model.second_moment[row, j, i] = value
            elif i < 3:
                model.first_moment[row, i] = value
            else:
                model.mass[row] = value


@inlined
def clip_eigenvalues(W, low, high):
    """Replace W in place by the nearest symmetric matrix with eigenvalues in low ... high.

    Nearest means in the Frobenius norm. W rarely changes: a Cholesky factorisation and the trace
    show quickly that it is within the bounds. ``low`` is positive.
    """
    n = W.shape[0]
    A = W.copy()
    trace, definite = 0.0, True
    for i in range(n):
        trace += W[i, i]
        A[i, i] -= low
    for j in range(n):
        if A[j, j] <= 0.0:
            definite = False
            break
        for i in range(j + 1, n):
            factor = A[i, j] / A[j, j]
            for k in range(j + 1, n):
                A[i, k] -= factor * A[j, k]
    if definite and trace <= high:
        return
    values, vectors = np.linalg.eigh(W)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += vectors[i, k] * min(max(values[k], low), high) * vectors[j, k]
            W[i, j] = total
