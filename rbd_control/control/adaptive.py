"""The adaptive law of Slotine and Li: equations, initial estimates, compiled step.

The law of :mod:`~rbd_control.control.slotine_li` for the described arm, ``tau_fixed``, is
unchanged. What is learned is added as a feed-forward torque of the desired motion::

    tau = tau_fixed + Y(q, v_d, v_d, a_d) (pi_hat - pi_0) + F_C tanh(v_d / scale) + F_V v_d
    theta_hat_dot = -k Gamma Phiᵀ s

``Y pi = M a_d + C v_d + g`` is linear in the inertial parameters pi, with pi_0 of the description;
F_C and F_V are friction in addition to the friction model. theta consists of pi, F_C and F_V, and
Phi contains their coefficients in tau. ``Yᵀ s`` is the power of each parameter's force along s,
computed by one sweep without the matrix Y.

Feedback is not learned. With learned masses in the terms ``M a_r`` and ``K_D s`` of the law,
friction that passed for inertia multiplied the inertia of a Panda's joint 7 by 18, and it shook.
Here the gains are those of the fixed law. As Phi does not contain the measured velocity either,
noise of s has no mean effect on the estimates.

Stability. Let the true mass matrix be ``M = M_0 + dM``, ``x = theta_hat - theta`` the error of the
estimates, ``d = Phi x`` the remaining torque error, and Lambda the same for all joints. Up to
products of velocity errors::

    M e_ddot + (K_D + Lambda M_0) e_dot + Lambda K_D e = d + tau_ext
    V = ½ sᵀ M s + ½ eᵀ (2 Lambda K_D - Lambda² dM) e + ½ xᵀ Gamma⁻¹ x
    V_dot = -e_dotᵀ (K_D - Lambda dM) e_dot - Lambda² eᵀ K_D e + sᵀ tau_ext        for k = 1

V is a storage function if ``Lambda dM < K_D``: the payload makes the inertia in no direction larger
than ``1 + damping_rate / bandwidth`` times the described one, and ``damping`` adds to this. The
fixed law needs the same. Monotone true friction F adds the dissipation ``e_dot (F(v) - F(v_d))``.

Normalised step. The factor k <= 1 keeps ``k sᵀ Phi Gamma Phiᵀ s <= fastest sᵀ K_D s``. Learning
then reduces a torque error at most with the rate ``fastest``, a tenth of ``bandwidth``. At this
rate the loop is in equilibrium, ``s = K_D⁻¹ d``, apart from a lag that a delay of the loop hardly
changes, and ``½ xᵀ Gamma⁻¹ x`` falls with the rate ``k dᵀ K_D⁻¹ d`` for any k.

Sliding. Coulomb friction of a joint that rests or reverses is any torque up to its breakaway value,
and would pass for a weight. Only joints that move as desired, both speeds above 2 % of the velocity
limit, therefore count: the s of other joints is zero in ``Phiᵀ s``. Their torque error acts on V
like an external torque. At rest no estimate changes, so that none can drift. A payload that is
picked up is learned from the next motion on.

The metric Gamma. The pseudo-inertia P (4x4) of an adapted body is written ``P = S W Sᵀ``. The fixed
``S Sᵀ`` is the sum of the pseudo-inertia of the described body and the pseudo-inertia of a ball of
mass ``largest_payload_mass`` and radius ``largest_payload_reach`` about the link's origin. The
entries of W are then of order one, its sum of squares does not depend on axes or units, and one
``learning_rate`` defines Gamma: ``½ |W_hat - W|² / learning_rate``. Friction is measured in units
of 5 % of the effort limit, and bounded by three units. This is the metric of Lee, Kwon & Park at a
fixed, plausible body. If the metric changed with the estimate, a link of 0.2 kg would learn a
hundred times as slowly as a link of 2 kg.

Physical consistency. A body is physically possible if and only if P, and therefore W, is positive
definite. After each step W is projected in turn onto the matrices whose mass is at most
``largest_payload_mass`` above the mass of the described body, whose second moment about the link's
origin is at most ``largest_payload_mass largest_payload_reach²`` larger, and whose eigenvalues are
between half the smallest eigenvalue of the described body and a bound above that of any expected
payload. These sets are convex and contain the true parameters of any expected payload, and the
projections use the same metric, so they never increase V. After at most three cycles, W is moved
towards the described body until it keeps all bounds; only this last move may increase V. The bounds
are hard: the estimates keep them after every step, for any contact and any sensor error.

Forgetting. Until a detector reports the contact, the law learns from a push as if it were a weight.
The estimates are then replaced by their exponential average over the time of learning, time
constant 1 s (:meth:`AdaptiveSlotineLiController.forget_recent`). A push of 20 ms changes this
average by 2 % of the change that it causes in the estimates. The estimates are also replaced before
gravity is compensated without feedback (modes float and safe), where nothing would correct a wrong
weight. The average lies in the same convex sets, and is at most as far from the true parameters as
the farthest of the estimates that it contains.

Sources: Slotine & Li, *On the Adaptive Control of Robot Manipulators*, IJRR 6(3), 1987; Sadegh &
Horowitz, *Stability and Robustness Analysis of a Class of Adaptive Controllers for Robotic
Manipulators*, IJRR 9(3), 1990, for the feed-forward of the desired motion; Wensing, Kim & Slotine,
*Linear Matrix Inequalities for Physically Consistent Inertial Parameter Identification*, RA-L 2018;
Lee, Kwon & Park, *A Natural Adaptive Control Law for Robot Manipulators*, IROS 2018.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import (
    ALL,
    AdaptationParameters,
    ControllerParameters,
)
from rbd_control.control.estimates import Estimates, FrictionEstimate, LinkEstimate
from rbd_control.control.gains import law_gains
from rbd_control.control.limits import ArmLimits, SoftLimits
from rbd_control.control.slotine_li import Feedback, LawTorque, SlotineLiController
from rbd_control.dynamics import Model
from rbd_control.dynamics.checks import checked_array
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import constants_of, unpacked, views
from rbd_control.dynamics.inertia import central_inertia, pseudo_inertia
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
from rbd_control.errors import InputError
from rbd_control.robot.friction import Friction

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
        S: (k, 4, 4) Cholesky factor of the metric, see the module.
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


USUAL_FRICTION = 0.05
"""Unit of learned Coulomb friction, as a share of the effort limit of the joint.

Gears of robot arms lose about 3 to 12 % of their rated torque in friction. The unit of viscous
friction is the coefficient that gives the same torque at half the velocity limit.
"""

SLIDING = 0.02
"""Speed above which a joint slides, as a share of its velocity limit.

Below it, noise hides the direction of the motion, and friction exceeds Coulomb friction.
"""

LEAST = 1e-9
"""Least lower bound on the eigenvalues of W, a scaled pseudo-inertia, see :class:`Bodies`."""


def adapted_links(model: Model, adaptation: AdaptationParameters) -> tuple[str, ...]:
    """Return the names of the links whose inertial parameters the adaptive law learns.

    Args:
        model: the arm.
        adaptation: ``adapted_links`` selects the links. If it is empty, the result is the link of
            the last joint; if it is ``("all",)``, the links of all joints.

    Raises:
        InputError: for an unknown link, a link that is fixed to the world, a link named twice, or
            two links that are fixed to each other.
    """
    names = adaptation.adapted_links
    if not names:
        names = model.joint_links[-1:]
    elif names == (ALL,):
        names = model.joint_links
    rows = [model.link_index(name) for name in names]
    for name, row in zip(names, rows, strict=True):
        if row < 0:
            raise InputError(f"link {name!r} is fixed to the world: there is nothing to learn")
        if rows.count(row) > 1:
            raise InputError(f"link {name!r} is fixed to another of {', '.join(names)}: name one")
    return names


def adapted_bodies(
    model: Model, links: tuple[str, ...], adaptation: AdaptationParameters
) -> Bodies:
    """Return the bodies of the links, with the described masses and inertias as first estimates.

    The result also has the bounds of the estimates. Inertias that no body can have are replaced by
    the nearest possible ones.

    Args:
        model: the arm.
        links: result of :func:`adapted_links`.
        adaptation: ``largest_payload_mass`` and ``largest_payload_reach`` define scale and bounds.
    """
    rows = np.array([model.link_index(link) for link in links], dtype=np.int64)
    mass, reach = adaptation.largest_payload_mass, adaptation.largest_payload_reach
    # A solid ball has the inertia 2/5 m r² about its centre.
    ball = pseudo_inertia(mass, np.zeros(3), 0.4 * mass * reach**2 * np.eye(3))
    S, W = np.empty((2, len(links), 4, 4))
    cap, most = np.empty((len(links), 2, 4, 4)), np.empty((len(links), 2))
    for k, (link, row) in enumerate(zip(links, rows, strict=True)):
        arrays, placement = model.arrays, model.link_placement[link]
        P = np.empty((4, 4))
        P[:3, :3] = arrays.second_moment[row]
        P[:3, 3] = P[3, :3] = arrays.first_moment[row]
        P[3, 3] = arrays.mass[row]
        P = _positive(P)  # descriptions may have inertias that no body can have
        S[k] = np.linalg.cholesky(P + placement @ ball @ placement.T)
        inverse = np.linalg.inv(S[k])
        W[k] = _physical(inverse @ P @ inverse.T)
        # Linear in P, and so in W: the mass, and the second moment about the link's origin.
        origin = np.vstack((-np.eye(3), placement[:3, 3]))
        weights = np.diag([0.0, 0.0, 0.0, 1.0]), origin @ origin.T
        for c, (A, room) in enumerate(zip(weights, (mass, mass * reach**2), strict=True)):
            cap[k, c] = S[k].T @ A @ S[k]
            most[k, c] = (A * P).sum() + room
    # A described body may be a point or a rod, on the border of the physically possible bodies.
    least = np.maximum(0.5 * np.linalg.eigvalsh(W)[:, 0], LEAST)
    return Bodies(rows, S, W, W.copy(), least, W.copy(), cap, most)


def _positive(P: NDArray[np.float64], least: float = 0.0) -> NDArray[np.float64]:
    """Return the symmetric matrix P with smaller eigenvalues raised to ``least``."""
    values, vectors = np.linalg.eigh(P)
    if values[0] >= least:
        return P
    return np.asarray((vectors * np.maximum(values, least)) @ vectors.T)


def _physical(W: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return W made symmetric, with eigenvalues of at least :data:`LEAST`.

    Descriptions may have bodies without mass, and inertias that no body can have.
    """
    return _positive(0.5 * (W + W.T), LEAST)


def learned_friction(friction: Friction, limits: ArmLimits) -> JointFriction:
    """Return the friction that the adaptive law learns, which is zero at first, with its bounds.

    Args:
        friction: friction model of the fixed law, to which the learned friction is added.
        limits: limits of the arm. The friction of a joint without effort limit is not learned.
    """
    n, speed = limits.effort.size, limits.assumed_velocity
    unit = np.where(np.isfinite(limits.effort), USUAL_FRICTION * limits.effort, 0.0)
    given, scale = np.zeros((2, n)), np.zeros(n)
    known = friction.learned()
    if known is not None:
        given, scale = np.array(known[:2]), known[2]
    return JointFriction(
        np.zeros((2, n)),
        np.zeros((2, n)),
        given,
        np.array([unit, 2.0 * unit / speed]),
        np.maximum(scale, 0.5 * SLIDING * speed),
        SLIDING * speed,
    )


Array = NDArray[np.float64]

ROUNDING = 1e-9
"""Relative tolerance of the bounds for estimates that were written to a file and read again."""

LONGEST_STEP = 0.01
"""Upper bound of the period used for learning [s]; a longer period is reduced to it."""


class AdaptiveSlotineLiController:
    """The adaptive control law of one arm; its state consists of the estimates and their averages.

    Args:
        model: an arm with a fixed base, whose masses and inertias are the initial estimates.
        parameters: gains, friction, and limits of torque and speed.
        adaptation: the learned links, the largest payload and the learning rate.
        soft: soft position limits of the fixed law; none by default.

    Attributes:
        packed: the model with the present estimates as one array, for the compiled kernels.

    Raises:
        InputError: for a floating base, which has no torque at its root, for an unknown or fixed
            link in ``adapted_links``, or for two links that are fixed to each other.
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(
        self,
        model: Model,
        parameters: ControllerParameters,
        adaptation: AdaptationParameters,
        soft: SoftLimits | None = None,
    ) -> None:
        self._fixed = SlotineLiController(model, parameters, soft)
        n = model.nv
        self._nominal = model
        self._adaptation = adaptation
        self._links = adapted_links(model, adaptation)
        Lambda, damping, damping_rate = law_gains(parameters, model)
        fastest = FASTEST * float(Lambda.min())
        self._gains = Gains(damping, damping_rate, adaptation.learning_rate, fastest)
        limits = ArmLimits.of(model, parameters)
        self._friction = learned_friction(parameters.friction(n).monotone(), limits)
        self._learning = False
        self.reset()

    def reset(self) -> None:
        """Reset estimates and averages to the described inertias and the friction parameters."""
        constants = constants_of(self._nominal.arrays)
        self.packed, self._difference = self._nominal.packed.copy(), self._nominal.packed.copy()
        self._own, difference = views(self.packed, constants), views(self._difference, constants)
        for values in (difference.mass, difference.first_moment, difference.second_moment):
            values[:] = 0.0
        self._bodies = adapted_bodies(self._nominal, self._links, self._adaptation)
        self._friction.learned[:] = self._friction.average[:] = 0.0
        self._is_recent = False

    def forget_recent(self) -> bool:
        """Replace the estimates by their exponentially weighted average over the learning time.

        Learning time is the sum of the ``dt`` of :meth:`torque` and :meth:`step`, each at most
        :data:`LONGEST_STEP`. The time constant of the average is 1 s of learning time, so that
        recent errors hardly change it.

        Call the method when a contact begins, because the law has learned from the push until it
        was detected, and before the modes float and safe, in which no feedback corrects a weight
        that was learned wrongly.

        Returns:
            Whether there was any learning time since the last call; a second call changes nothing.
        """
        if not self._is_recent:
            return False
        self._is_recent = False
        self._use(self._bodies.average, self._friction.average.copy())
        return True

    def continue_from(self, before: AdaptiveSlotineLiController) -> None:
        """Copy the estimates and their average from another adaptive law.

        Args:
            before: a law for the same arm with the same adapted links and joints.

        Raises:
            InputError: as :meth:`set_estimates`; nothing has changed then.
        """
        W, friction = self._checked(before.estimates)
        averages = self._checked(before.averaged_estimates)
        self._use(W, friction)
        self._bodies.average[:], self._friction.average[:] = averages
        self._is_recent = before._is_recent

    def torque(
        self, q: Array, v: Array, q_d: Array, v_d: Array, a_d: Array, dt: float = 0.0
    ) -> Array:
        """Return the joint torque that tracks ``q_d(t)``; then learn from the error.

        Do not learn (``dt = 0``) in contact, in saturation, or while the brakes are closed.

        Args:
            q, v: measured positions [rad or m] and velocities [rad/s or m/s], (nv,) each.
            q_d, v_d, a_d: desired position, velocity and acceleration, (nv,) each [rad or m,
                rad/s or m/s, rad/s² or m/s²].
            dt: time since the last call for which the estimates are corrected [s], reduced to at
                most ``LONGEST_STEP``; 0 changes no estimate.

        Returns:
            (nv,) [N·m or N], not limited.

        Raises:
            InputError: for arguments of the wrong shape, not finite or so large that the torque is
                not finite, and for ``dt`` that is negative or not finite; nothing has been learned
                then.
        """
        given = {"q": q, "v": v, "q_d": q_d, "v_d": v_d, "a_d": a_d}
        for name, x in given.items():
            checked_array(name, x, (self._nominal.nv,))
        # The kernels require contiguous arrays of float64.
        q, v, q_d, v_d, a_d = (np.array(x, dtype=np.float64) for x in given.values())
        return self.step(q, v, q_d, v_d, a_d, dt).torque

    def step(
        self,
        q: Array,
        v: Array,
        q_d: Array,
        v_d: Array,
        a_d: Array,
        dt: float = 0.0,
        feedback: Feedback | None = None,
    ) -> LawTorque:
        """Return the torque with v_r and s, then learn; arguments as of :meth:`torque`.

        They must be contiguous arrays of float64. ``feedback`` is as of
        :meth:`SlotineLiController.step`.

        Raises:
            InputError: for a torque that is not finite, and for ``dt`` as :meth:`torque`; nothing
                has been learned then.
        """
        if not 0.0 <= dt < np.inf:
            raise InputError(f"dt is {dt} s; it must be finite and not negative")
        law = self._fixed.step(q, v, q_d, v_d, a_d, feedback)
        learned = adaptive_step(
            self._nominal.packed,
            self.packed,
            self._difference,
            self._gains,
            self._bodies,
            self._friction,
            q,
            v,
            v_d,
            a_d,
            law.s,
            min(float(dt), LONGEST_STEP),
            law.torque,
        )
        if learned < 0:
            raise InputError(f"the torque at q = {q}, v = {v} is not finite")
        self._learning = learned > 0
        self._is_recent |= dt > 0.0
        return law

    @property
    def learning(self) -> bool:
        """Whether the last :meth:`torque` or :meth:`step` changed the estimates."""
        return self._learning

    @property
    def learned_energy(self) -> float:
        """Distance of the estimates from the description and friction parameters, as an energy [J].

        It is ``½ |W_hat - W_start|² / learning_rate``, summed over the adapted bodies, plus the
        same term for friction; the module defines the scaled pseudo-inertia W. ``W_start`` belongs
        to the described body. The distance to the true parameters is unknown.
        """
        f = self._friction
        learned = f.learned[f.unit > 0.0] / f.unit[f.unit > 0.0]
        distance = np.square(self._bodies.W - self._bodies.start).sum() + np.square(learned).sum()
        return 0.5 * float(distance) / self._gains.learning_rate

    @property
    def model(self) -> Model:
        """A new model of the arm with the present estimates of the inertial parameters."""
        names = ("mass", "first_moment", "second_moment")
        own = {name: getattr(self._own, name).copy() for name in names}
        return replace(self._nominal, arrays=self._nominal.arrays._replace(**own))

    @property
    def payload(self) -> float:
        """Estimated mass of all adapted links less their mass in the description [kg]."""
        rows = self._bodies.row
        return float((self._own.mass - self._nominal.arrays.mass)[rows].sum())

    @property
    def estimates(self) -> Estimates:
        """The present estimates of the adapted links and of the friction of all joints.

        The friction of a joint is learned in addition to ``friction_model``; Coulomb and viscous
        coefficients of this model are included.
        """
        return self._estimates_of(self._bodies.W, self._friction.learned)

    @property
    def averaged_estimates(self) -> Estimates:
        """The estimates to which :meth:`forget_recent` returns: their average over 1 s of learning.

        A push that no detector reports changes them less than it changes :attr:`estimates`.
        """
        return self._estimates_of(self._bodies.average, self._friction.average)

    def _estimates_of(self, bodies: Array, friction: Array) -> Estimates:
        links = []
        for link, S, W in zip(self._links, self._bodies.S, bodies, strict=True):
            to_link = np.linalg.inv(self._nominal.link_placement[link])
            P = to_link @ S @ W @ S.T @ to_link.T
            mass = float(P[3, 3])
            links.append(LinkEstimate(link, mass, P[:3, 3] / mass, central_inertia(P)))
        total = (self._friction.given + friction).tolist()
        joints = zip(self._nominal.joint_names, *total, strict=True)
        return Estimates(tuple(links), tuple(FrictionEstimate(*joint) for joint in joints))

    def set_estimates(self, estimates: Estimates) -> None:
        """Replace the estimates and their averages.

        Args:
            estimates: one entry for each adapted link, and for each joint or none; without joints
                the friction is that of the parameters.

        Raises:
            InputError: naming a missing or unknown entry, or a value outside the bounds; the
                estimates are then unchanged.
        """
        W, friction = self._checked(estimates)
        self._use(W, friction)
        self._bodies.average[:], self._friction.average[:] = W, friction
        self._is_recent = False

    def _checked(self, estimates: Estimates) -> tuple[Array, Array]:
        """Return W (k, 4, 4) and learned friction (2, nv); raise an InputError beyond bounds."""
        W = np.empty_like(self._bodies.W)
        links = {estimate.link: estimate for estimate in estimates.links}
        joints = {estimate.joint: estimate for estimate in estimates.joints}
        names, f = self._nominal.joint_names, self._friction
        for what, given, own in (
            ("links", tuple(links), self._links),
            ("joints", tuple(joints), names if joints else ()),
        ):
            if set(given) != set(own):
                raise InputError(
                    f"the estimates are for {what} {', '.join(given) or 'none'}, but the law "
                    f"adapts {what} {', '.join(own) or 'none'}"
                )
        for k, link in enumerate(self._links):
            W[k] = self._scaled(k, links[link])
        if not joints:
            return W, np.zeros_like(f.learned)
        total = np.array([(joints[name].coulomb, joints[name].viscous) for name in names]).T
        most = f.given + LARGEST_FRICTION * f.unit
        for row, name in enumerate(("coulomb", "viscous")):
            for i, joint in enumerate(names):
                if not 0.0 <= total[row, i] <= most[row, i] * (1.0 + ROUNDING):
                    raise InputError(
                        f"{name} friction of {joint} is {total[row, i]:g}; it can be 0 to "
                        f"{most[row, i]:g}"
                    )
        return W, total - f.given

    def _scaled(self, k: int, estimate: LinkEstimate) -> Array:
        """Return W of adapted body k for an estimate; raise an InputError beyond the bounds."""
        placement = self._nominal.link_placement[estimate.link]
        P = pseudo_inertia(estimate.mass, estimate.com, estimate.inertia)
        P = placement @ P @ placement.T
        inverse = np.linalg.inv(self._bodies.S[k])
        W = inverse @ (0.5 * (P + P.T)) @ inverse.T
        low, *_, high = np.linalg.eigvalsh(W)
        slack = ROUNDING * LARGEST
        heavy = (self._bodies.cap[k] * W).sum(axis=(1, 2)) > self._bodies.most[k] * (1.0 + ROUNDING)
        if heavy.any() or not self._bodies.least[k] - slack <= low <= high <= LARGEST + slack:
            raise InputError(
                f"{estimate.link} cannot have mass {estimate.mass:g} kg with its centre at "
                f"{estimate.com.tolist()} m: its inertia is physically impossible, or it exceeds "
                f"largest_payload_mass or largest_payload_reach"
            )
        return np.asarray(0.5 * (W + W.T))

    def _use(self, bodies: Array, friction: Array) -> None:
        self._bodies.W[:] = bodies
        self._friction.learned[:] = friction
        difference = views(self._difference, self._own)
        for k, row in enumerate(self._bodies.row):
            S, W, start = self._bodies.S[k], self._bodies.W[k], self._bodies.start[k]
            for own, P in ((self._own, S @ W @ S.T), (difference, S @ (W - start) @ S.T)):
                own.mass[row] = P[3, 3]
                own.first_moment[row] = P[:3, 3]
                own.second_moment[row] = P[:3, :3]
