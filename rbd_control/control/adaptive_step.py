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

LARGEST_FRICTION = 3.0
"""Largest learned friction coefficient in multiples of its unit, see :class:`JointFriction`.

Coulomb friction of up to 15 % of the effort limit is learned.
"""

FASTEST = 0.1
"""Largest rate at which learning reduces a torque error, as a share of ``bandwidth``.

Learning acts on the loop like an integral term. At a tenth of its bandwidth the loop follows it
with a lag of less than 0.15 rad, to which a delay of 15 ms adds 0.06 rad at a bandwidth of 40 1/s.
"""

REMEMBERED = 1.0
"""Time constant of the average of the estimates [s]."""

ROUNDS = 3
"""Maximum number of cycles of projections of an estimate onto its bounds, in one step."""


class Gains(NamedTuple):
    """Gains of the adaptive law.

    Attributes:
        damping: (n,) constant part of K_D [N·m·s/rad or N·s/m].
        damping_rate: part of K_D that is proportional to the described mass matrix [1/s].
        learning_rate: learning rate of all estimates [1/J].
        fastest: largest rate at which learning reduces a torque error [1/s].
    """

    damping: np.ndarray
    damping_rate: float
    learning_rate: float
    fastest: float


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
    """Learned friction ``learned[0] tanh(v_d / scale) + learned[1] v_d`` of n joints.

    It is added to the friction model of the fixed law. Rows are Coulomb [N·m or N] and viscous
    friction [N·m·s/rad or N·s/m].

    Attributes:
        learned: (2, n) estimates, changed by every step that learns.
        average: (2, n) ``learned`` averaged over ``REMEMBERED``.
        given: (2, n) coefficients of the friction model, or zero; ``learned`` is at least
            ``-given``.
        unit: (2, n) unit of the metric; 0 for friction that is not learned.
        scale: (n,) velocity scale of the hyperbolic tangent [rad/s or m/s].
        sliding: (n,) speed above which a joint slides [rad/s or m/s].
    """

    learned: np.ndarray
    average: np.ndarray
    given: np.ndarray
    unit: np.ndarray
    scale: np.ndarray
    sliding: np.ndarray


@compiled
def adaptive_step(
    described, learned, difference, gains, bodies, friction, q, v, v_d, a_d, s, dt, tau
):
    """Add the learned torque to ``tau``, then correct the estimates; return a status.

    Args:
        described: the described model as one array.
        learned: the model with the estimates as one array; changed in place by learning.
        difference: as ``learned``, but with the estimated less the described bodies.
        gains: :class:`Gains` of the law.
        bodies, friction: :class:`Bodies` and :class:`JointFriction`; changed in place by learning.
        q, v: measured positions [rad or m] and velocities [rad/s or m/s], (n,) each.
        v_d, a_d: (n,) desired velocity [rad/s or m/s] and acceleration [rad/s² or m/s²].
        s: (n,) velocity error of the fixed law [rad/s or m/s].
        dt: time for which to learn [s]; 0 changes no estimate.
        tau: (n,) torque of the fixed law [N·m or N], to which the learned torque is added.

    Returns:
        1 if estimates changed; 0 if no joint slides as desired, and for dt = 0; -1 if the torque is
        not finite. If dt is 0 or the result is -1, only ``tau`` has changed.
    """
    model, n = unpacked(difference), q.shape[0]
    rows = model.parent.shape[0]
    sweep, inertial, shape = new_sweep(rows), np.empty(n), np.empty((2, n))
    slotine_li_sweep(model, q, v_d, v_d, a_d, sweep, new_forces(rows), inertial)
    total = 0.0
    for i in range(n):
        shape[0, i], shape[1, i] = np.tanh(v_d[i] / friction.scale[i]), v_d[i]
        tau[i] += inertial[i]
        for j in range(2):
            tau[i] += friction.learned[j, i] * shape[j, i]
        total += tau[i]
    if not np.isfinite(total):
        return -1
    if dt <= 0.0:
        return 0

    share = 1.0 - np.exp(-dt / REMEMBERED)
    _approach(bodies.average, bodies.W, share)
    _approach(friction.average, friction.learned, share)
    taught = np.zeros(n)
    dissipated = 0.0
    for i in range(n):
        if min(abs(v_d[i]), np.sign(v_d[i]) * v[i]) > friction.sliding[i]:
            taught[i] = s[i]
            dissipated += gains.damping[i] * s[i] * s[i]
    coefficients = np.empty((rows, 10))
    present = _coefficients(unpacked(described), v_d, a_d, taught, sweep, coefficients)
    dissipated += gains.damping_rate * present
    count = bodies.row.shape[0]
    gradients, square = np.empty((count, 4, 4)), 0.0
    for k in range(count):
        square += _gradient(bodies.S[k], coefficients[bodies.row[k]], gradients[k])
    for i in range(n):
        for j in range(2):
            square += (friction.unit[j, i] * shape[j, i] * taught[i]) ** 2
    # A step changes the torque by Y d pi, with the power -learning_rate dt square along s. All
    # estimates take the same share of their steps, so that the direction is kept.
    if not 0.0 < square < np.inf:
        return 0
    step = -dt * min(gains.learning_rate, gains.fastest * dissipated / square)
    for k in range(count):
        _move(bodies, k, gradients[k], step)
        row, S, W = bodies.row[k], bodies.S[k], bodies.W[k]
        write_body(unpacked(learned), row, S, W)
        write_body(model, row, S, W - bodies.start[k])
    for i in range(n):
        for j in range(2):
            unit = friction.unit[j, i]
            if unit > 0.0:
                value = friction.learned[j, i] + step * unit * unit * shape[j, i] * taught[i]
                value = min(value, LARGEST_FRICTION * unit)
                friction.learned[j, i] = max(value, -friction.given[j, i])
    return 1


@inlined
def _approach(average, value, share):
    """Move an average by ``share`` of its distance to the value."""
    flat, target = average.reshape(-1), value.reshape(-1)
    for i in range(flat.shape[0]):
        flat[i] += share * (target[i] - flat[i])


@inlined
def _coefficients(model, v_d, a_d, s, sweep, coefficients):
    """Write Yᵀ s to ``coefficients``, (rows, 10), without Y; return sᵀ M s of ``model``.

    ``sweep`` has the poses of the bodies, and their twists at the velocities ``v_d``.
    """
    rows = model.parent.shape[0]
    rate, along = np.empty((rows, 6)), np.empty((rows, 6))
    zero = (0.0, 0.0, 0.0)
    still = (zero, zero)
    falling = (zero, (-model.gravity[0], -model.gravity[1], -model.gravity[2]))
    present = 0.0
    for k in range(rows):
        parent, dof = model.parent[k], model.dof[k]
        Phi_k = load6(sweep.Phi, k)
        # The twists of newton_euler.py, and the twist of the body for the velocities s.
        rate_k = add6(
            add6(falling if parent < 0 else load6(rate, parent), scale6(a_d[dof], Phi_k)),
            scale6(v_d[dof], load6(sweep.Phi_dot, k)),
        )
        along_k = add6(still if parent < 0 else load6(along, parent), scale6(s[dof], Phi_k))
        store6(rate, k, rate_k)
        store6(along, k, along_k)
        point, RT = load3(sweep.p, k), transpose(load_matrix(sweep.R, k))
        along_k = in_body(point, RT, along_k)
        second = model.second_moment[k]
        inertia = (
            model.mass[k],
            load3(model.first_moment, k),
            (second[0, 0], second[0, 1], second[0, 2], second[1, 1], second[1, 2], second[2, 2]),
        )
        present += dot6(along_k, inertia_times(inertia, along_k))
        velocity = in_body(point, RT, load6(sweep.velocity, k))
        row = power_coefficients(along_k, velocity, velocity, in_body(point, RT, rate_k))
        for j in range(10):
            coefficients[k, j] = row[j]
    return present


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
