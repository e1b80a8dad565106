"""Compiled parts of one control step.

**Compiled parts of one control step that need the arm's dynamics.**

:mod:`~rbd_control.control.slotine_li`, :mod:`~rbd_control.control.torque_path` and
:mod:`~rbd_control.control.safe_torque` have the equations and the reasons.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.coriolis import mass_matrix_sweep
from rbd_control.dynamics.momentum import gravity_sweep, momentum_sweep
from rbd_control.dynamics.newton_euler import new_forces, slotine_li_sweep
from rbd_control.dynamics.small_systems import factor_cholesky, solve_factored
from rbd_control.dynamics.sweep import new_sweep
from rbd_control.robot.friction import joint_friction


@inlined
def reference_motion(q, q_f, v_f, q_d, v_d, a_d, Lambda, bounds, v_r, a_r, s):
    """Write v_r, its rate a_r and s = v_f - v_r of the control law; limits bound v_r.

    Without bounds, ``v_r = v_d - Lambda (q_f - q_d)``. Towards a position limit, v_r is at most
    ``approach`` times the distance to the limit, and nowhere faster than ``fastest``.

    Args:
        q: measured positions, (n,) [rad or m].
        q_f, v_f: positions [rad or m] and velocities [rad/s or m/s] of the feedback, (n,) each: the
            measured ones, or those of :class:`~rbd_control.control.slotine_li.RollOff`.
        q_d, v_d, a_d: desired position, velocity and acceleration, (n,) each [rad or m,
            rad/s or m/s, rad/s² or m/s²].
        Lambda: (n,) decay rate of the position error [1/s].
        bounds: :class:`ReferenceBounds`.
        v_r, a_r, s: (n,) each, written [rad/s or m/s, rad/s² or m/s², rad/s or m/s].
    """
    for i in range(q.shape[0]):
        speed = v_d[i] - Lambda[i] * (q_f[i] - q_d[i])
        rate = a_d[i] - Lambda[i] * (v_f[i] - v_d[i])
        fastest, approach = bounds.fastest[i], bounds.approach
        up = min(fastest, approach * max(bounds.upper[i] - q[i], 0.0))
        down = -min(fastest, approach * max(q[i] - bounds.lower[i], 0.0))
        if speed > up or speed < down:
            speed = up if speed > up else down
            # The rate of the bound: approach times the rate of the distance, or zero.
            rate = -approach * v_f[i] if 0.0 < abs(speed) < fastest else 0.0
        v_r[i], a_r[i], s[i] = speed, rate, v_f[i] - speed


@compiled
def reference(q, q_f, v_f, q_d, v_d, a_d, Lambda, bounds):
    """Return v_r, its rate and s of the control law; arguments as of :func:`reference_motion`."""
    n = q.shape[0]
    v_r, a_r, s = np.empty(n), np.empty(n), np.empty(n)
    reference_motion(q, q_f, v_f, q_d, v_d, a_d, Lambda, bounds, v_r, a_r, s)
    return v_r, a_r, s


@compiled
def spring_torque(q, lower, upper, stiffness):
    """Return the torque of springs that push back beyond soft limits, (n,) [N·m or N].

    Args:
        q: (n,) positions [rad or m].
        lower, upper: (n,) soft limits [rad or m].
        stiffness: (n,) stiffness of the springs [N·m/rad or N/m].
    """
    torque = np.empty(q.shape[0])
    for i in range(q.shape[0]):
        torque[i] = stiffness[i] * (max(lower[i] - q[i], 0.0) - max(q[i] - upper[i], 0.0))
    return torque


@compiled
def close_behind(q, slack, nominal_lower, nominal_upper, lower, upper):
    """Close opened soft limits behind an arm that moves back; return whether all are nominal.

    Args:
        q: (n,) measured positions [rad or m].
        slack: distance that an opened limit keeps from the arm [rad or m].
        nominal_lower, nominal_upper: (n,) nominal limits, at which the closing ends [rad or m].
        lower, upper: (n,) present limits [rad or m]; changed in place, never opened further.
    """
    closed = True
    for i in range(q.shape[0]):
        upper[i] = max(nominal_upper[i], min(upper[i], q[i] + slack))
        lower[i] = min(nominal_lower[i], max(lower[i], q[i] - slack))
        closed &= upper[i] == nominal_upper[i] and lower[i] == nominal_lower[i]
    return closed


@compiled
def largest_share(a, b, unit):
    """Return the index of the joint with the largest |a - b| / ``unit``, and this ratio.

    All arguments are (nv,), in one unit. If no ratio is above zero, the result is (0, 0.0).
    """
    joint, largest = 0, 0.0
    for i in range(a.shape[0]):
        share = abs(a[i] - b[i]) / unit[i]
        if share > largest:
            joint, largest = i, share
    return joint, largest


@compiled
def first_beyond(a, b, most):
    """Return the index of the first joint with |a - b| above ``most``, (nv,) each, or -1."""
    for i in range(a.shape[0]):
        if abs(a[i] - b[i]) > most[i]:
            return i
    return -1


@compiled
def needs_cut(torque, least, most, q, lower, upper):
    """Return whether the torque or the position of any joint is outside of its bounds, or NaN.

    Args:
        torque: torque, (nv,) [N·m or N].
        least, most: torque limits, (nv,) each [N·m or N].
        q: positions, (nv,) [rad or m].
        lower, upper: position limits, (nv,) each [rad or m].
    """
    cut = False
    for i in range(torque.shape[0]):
        cut |= not least[i] <= torque[i] <= most[i] or not lower[i] <= q[i] <= upper[i]
    return cut


@compiled
def slowed(torque, last, rate, dt, least, most):
    """Return the torque with a limited rate of change, and whether the limit was active.

    One factor scales the change of all joints. The torque limits apply to a result that was scaled.

    Args:
        torque: requested torque, (nv,) [N·m or N]; returned itself if it need not be limited.
        last: last torque, (nv,) [N·m or N].
        rate: largest rate of each joint, (nv,) [N·m/s or N/s].
        dt: time since the last torque [s].
        least, most: torque limits, (nv,) each [N·m or N].
    """
    share = 1.0
    for i in range(torque.shape[0]):
        change = abs(torque[i] - last[i])
        if change > rate[i] * dt:
            share = min(share, rate[i] * dt / change)
    if share == 1.0:
        return torque, False
    # If the torque limits were just lowered, the last torque may exceed them.
    slow = last + share * (torque - last)
    return np.minimum(np.maximum(slow, least), most), True


LARGEST_STEP = 0.5
"""Largest share of a velocity that joint-wise damping may remove in one period.

A damper ``v+ = v - x v`` is stable for x < 2. At 0.5 it tolerates a delay of two more periods.
"""


class ReferenceBounds(NamedTuple):
    """Bounds of position and reference velocity, and the springs at the position limits.

    Attributes:
        lower, upper: soft position limits, (n,) [rad or m].
        fastest: largest reference speed, (n,) [rad/s or m/s].
        stiffness: stiffness of the limit springs, (n,) [N·m/rad or N/m].
        approach: largest reference speed per distance to a limit [1/s].
    """

    lower: np.ndarray
    upper: np.ndarray
    fastest: np.ndarray
    stiffness: np.ndarray
    approach: float


def no_bounds(n: int) -> ReferenceBounds:
    """Return bounds that ``n`` joints never reach, without springs."""
    endless = np.full(n, np.inf)
    return ReferenceBounds(-endless, endless, endless, np.zeros(n), 1.0)


@compiled
def law_step(packed, gains, bounds, kind, friction, q, v, q_f, v_f, q_d, v_d, a_d):
    """Return v_r and s, (n,) each [rad/s or m/s], and the torque of the law, (n,) [N·m or N].

    The torque is not finite if ``q`` or ``v`` is not, or if another argument is not and no bound
    limits the reference velocity.

    Args:
        packed: the model, as :attr:`Model.packed`.
        gains, bounds: gains of the law, and its bounds and springs at position limits.
        kind, friction: kind and coefficients of the friction model, see
            :func:`~rbd_control.robot.friction.joint_friction`.
        q, v: measured positions and velocities, (n,) each [rad or m, rad/s or m/s].
        q_f, v_f: positions and velocities of the feedback, see :func:`reference_motion`.
        q_d, v_d, a_d: desired positions, velocities and accelerations, (n,) each [rad or m, rad/s
            or m/s, rad/s² or m/s²].
    """
    model, n = unpacked(packed), q.shape[0]
    v_r, a_r, s, tau = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    reference_motion(q, q_f, v_f, q_d, v_d, a_d, gains.Lambda, bounds, v_r, a_r, s)
    for i in range(n):
        a_r[i] -= gains.damping_rate * s[i]
    rows = model.parent.shape[0]
    slotine_li_sweep(model, q, v, v_r, a_r, new_sweep(rows), new_forces(rows), tau)
    for i in range(n):
        depth = max(bounds.lower[i] - q[i], 0.0) - max(q[i] - bounds.upper[i], 0.0)
        tau[i] += joint_friction(kind, friction, i, v_r[i]) - gains.damping[i] * s[i]
        if depth != 0.0:
            tau[i] += bounds.stiffness[i] * depth
    return v_r, s, tau


@compiled
def float_step(packed, gains, bounds, margin, least, q, v):
    """Return the gravity torque with damping and springs near soft limits, and the share of K_D.

    The damping of all joints is ``-share K_D v``. The share is ``least`` if every joint is a margin
    or more away from its soft limits, and rises to 1 when a joint is at or beyond its soft limit.
    Joints with a margin of 0 do not count.

    Args:
        packed: the model, as :attr:`Model.packed`.
        gains, bounds: gains of the law, and its springs at position limits.
        margin: distance from a soft limit at which damping begins, (n,) [rad or m].
        least: least share, 0 to 1.
        q, v: measured positions and velocities, (n,) each [rad or m, rad/s or m/s].

    Returns:
        The torque, (n,) [N·m or N], and the share, 0 to 1.
    """
    model, n = unpacked(packed), q.shape[0]
    share = least
    for i in range(n):
        if margin[i] > 0.0:
            distance = min(q[i] - bounds.lower[i], bounds.upper[i] - q[i])
            share = max(share, min(1.0 - distance / margin[i], 1.0))
    zero, slowing, tau = np.zeros(n), np.empty(n), np.empty(n)
    for i in range(n):
        slowing[i] = -gains.damping_rate * share * v[i]
    rows = model.parent.shape[0]
    slotine_li_sweep(model, q, v, zero, slowing, new_sweep(rows), new_forces(rows), tau)
    for i in range(n):
        depth = max(bounds.lower[i] - q[i], 0.0) - max(q[i] - bounds.upper[i], 0.0)
        tau[i] -= share * gains.damping[i] * v[i]
        if depth != 0.0:
            tau[i] += bounds.stiffness[i] * depth
    return tau, share


@inlined
def joint_damper(M, rate, damping, period, L, column, D):
    """Write the gains of a joint-wise damper, ``D_i = damping_i + rate M_ii`` or less, to ``D``.

    One factor scales all gains so that a damper that is computed once per ``period`` removes at
    most LARGEST_STEP of any velocity: ``period * lambda_max(M^-1 D) <= period * |D^½ M^-1 D^½|``,
    with the Frobenius norm, which is at most ``trace(M^-1 D)``. If M is not positive definite, D is
    zero.

    Args:
        M: mass matrix, (n, n).
        rate: decay rate of the velocities [1/s].
        damping: constant gains, (n,) [N·m·s/rad or N·s/m].
        period: longest time for which the torque of the damper is held [s].
        L, column: workspace, (n, n) and (n,).
        D: the gains, (n,) [N·m·s/rad or N·s/m], changed.
    """
    n = M.shape[0]
    for i in range(n):
        D[i] = damping[i] + rate * M[i, i]
        for j in range(n):
            L[i, j] = M[i, j]
    factor_cholesky(L)
    square = 0.0
    for i in range(n):
        for j in range(n):
            column[j] = 1.0 if i == j else 0.0
        solve_factored(L, column)
        for j in range(n):
            square += D[i] * D[j] * column[j] * column[j]
    scale = 0.0
    if square == 0.0:
        scale = 1.0
    elif square > 0.0 and np.isfinite(square):
        scale = min(1.0, LARGEST_STEP / (period * np.sqrt(square)))
    for i in range(n):
        D[i] *= scale


LEAST_ROOM = 0.1
"""Share of the brake of a joint that its torque limit must leave for it to be braked with others.

The brake ``-rate M v`` decelerates all joints together. If the limit of one joint cut its brake
alone, those of the others could drive the arm: they contain the velocity of that joint. So the
limit reduces ``rate`` for all; but a joint that has hardly any torque to spare, as its weight needs
it, would take the brake from all others, and is braked apart."""


@inlined
def _room(largest, weight, p):
    """Return the torque that the limit leaves for a brake against the momentum p [N·m or N]."""
    return largest + weight if p > 0.0 else largest - weight


@inlined
def apart_momentum(M, apart, v, p):
    """Write ``D v`` to ``p`` (n,), where D couples joints that are braked apart with no other.

    With W = M⁻¹, each of those joints has ``D_ii = 1 / W_ii``, and all others have the inverse of
    their block of W: the inertia that torques of these joints meet while the others move freely.
    One factor then scales D so that no eigenvalue of ``W D`` exceeds one: a brake ``-rate D v``
    lets no velocity decay faster than with ``rate``, which the loop is known to bear. The bound on
    the eigenvalues is ``tr((W D)^16)^(1/16)``. If M is not positive definite, ``p`` is zero.

    Args:
        M: mass matrix, (n, n).
        apart: (n,) whether a joint is braked apart.
        v: velocities, (n,) [rad/s or m/s].
        p: (n,), written [N·m·s or N·s].
    """
    n = M.shape[0]
    L, W, D = M.copy(), np.zeros((n, n)), np.zeros((n, n))
    factor_cholesky(L)
    for i in range(n):
        W[i, i] = 1.0
        solve_factored(L, W[i])  # W is symmetric, so that its rows are its columns
    rest = np.flatnonzero(~apart)
    block = np.empty((rest.size, rest.size))
    for a in range(rest.size):
        for b in range(rest.size):
            block[a, b] = W[rest[a], rest[b]]
    factor_cholesky(block)
    for a in range(rest.size):
        column = np.zeros(rest.size)
        column[a] = 1.0
        solve_factored(block, column)
        for b in range(rest.size):
            D[rest[b], rest[a]] = column[b]
    for i in range(n):
        if apart[i]:
            D[i, i] = 1.0 / W[i, i]
    power = _product(W, D)
    for _ in range(4):
        power = _product(power, power)
    fastest = np.trace(power) ** (1.0 / 16.0)
    for i in range(n):
        p[i] = 0.0
        if fastest > 0.0 and np.isfinite(fastest):
            for j in range(n):
                p[i] += D[i, j] * v[j] / max(fastest, 1.0)


@compiled
def _product(A, B):
    """Return the product of two matrices, (n, n) each."""
    n = A.shape[0]
    C = np.zeros((n, n))
    for i in range(n):
        for k in range(n):
            for j in range(n):
                C[i, j] += A[i, k] * B[k, j]
    return C


@compiled
def safe_step(packed, described, q, v, v_f, apart, last, largest, rate, slew):
    """Return the gravity torque within the motor limits, and the braking torque to add to it.

    The brake is ``-rate M v_f`` within the limits; its power at the measured velocities is at most
    zero, see :mod:`~rbd_control.control.safe_torque`. Joints that are braked apart couple with no
    other joint, see :func:`apart_momentum`, and have a power of at most zero each. A joint counts
    as one of them if its torque limit leaves less than :data:`LEAST_ROOM` of its brake; otherwise
    the limits reduce the rate of all.

    Args:
        packed: the model of the gravity torque, as :attr:`Model.packed`.
        described: the model of the brake, in the same form.
        q, v: measured positions and velocities, (n,) each [rad or m, rad/s or m/s].
        v_f: filtered velocities, (n,) [rad/s or m/s].
        apart: (n,) whether a joint is braked apart.
        last: previous motor torque, (n,) [N·m or N].
        largest: torque limits, (n,) [N·m or N].
        rate: decay rate of the velocities [1/s].
        slew: largest increase of the magnitude of a brake since ``last``, (n,) [N·m or N].

    Returns:
        Both torques, (n,) each [N·m or N].
    """
    model, n = unpacked(packed), q.shape[0]
    sweep = new_sweep(model.parent.shape[0])
    weight, brake, p, unused = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    momentum_sweep(unpacked(described), q, v_f, sweep, p, unused, weight)
    gravity_sweep(model, q, sweep, weight)
    alone = apart.copy()
    for i in range(n):
        weight[i] = min(max(weight[i], -largest[i]), largest[i])
        alone[i] |= _room(largest[i], weight[i], p[i]) < LEAST_ROOM * rate * abs(p[i])
    if alone.any():
        M = np.empty((n, n))
        mass_matrix_sweep(unpacked(described), q, sweep, M)
        apart_momentum(M, alone, v_f, p)
    kept = 1.0
    for i in range(n):
        room = _room(largest[i], weight[i], p[i])
        if not alone[i] and room < rate * abs(p[i]):
            kept = min(kept, room / (rate * abs(p[i])))
    for i in range(n):
        if not alone[i]:
            p[i] *= kept
    power = 0.0
    for i in range(n):
        wanted = -rate * p[i]
        wanted = min(max(wanted, -largest[i] - weight[i]), largest[i] - weight[i])
        acting = min(max(last[i] - weight[i], min(wanted, 0.0)), max(wanted, 0.0))
        brake[i] = acting + min(max(wanted - acting, -slew[i]), slew[i])
        if not alone[i]:
            power += brake[i] * v[i]
    for i in range(n):
        if (alone[i] or not power <= 0.0) and brake[i] * v[i] > 0.0:
            brake[i] = 0.0
    return weight, brake


@compiled
def cut_step(packed, described, gains, share, q, v, s, torque, least, most, lower, upper, period):
    """Return the torque within the limits: gravity, the scaled remainder, and brakes.

    Beyond ``lower`` or ``upper``, the torque exceeds the gravity torque outwards only as far as it
    brakes an inward motion.

    :mod:`~rbd_control.control.torque_path` has the equations.

    Args:
        packed: the model of the gravity torque, as :attr:`Model.packed`.
        described: the model of the brakes, in the same form.
        gains: gains of the law.
        share: share of K_D in the damping ``-share K_D s`` that ``torque`` contains.
        q, v, s: position, velocity and velocity error, (nv,) each [rad or m, rad/s or m/s, rad/s or
            m/s].
        torque: (nv,) torque of the motors [N·m or N].
        least, most: (nv,) torque limits [N·m or N].
        lower, upper: (nv,) position limits [rad or m].
        period: longest time for which the torque is held [s].
    """
    model, n = unpacked(packed), q.shape[0]
    sweep = new_sweep(model.parent.shape[0])
    g, M, L = np.empty(n), np.empty((n, n)), np.empty((n, n))
    column, D = np.empty(n), np.empty(n)
    gravity_sweep(model, q, sweep, g)
    mass_matrix_sweep(unpacked(described), q, sweep, M)
    joint_damper(M, share * gains.damping_rate, share * gains.damping, period, L, column, D)
    weight, rest, out = np.empty(n), np.empty(n), np.empty(n)
    kept = 1.0
    for i in range(n):
        weight[i] = min(max(g[i], least[i]), most[i])
        rest[i] = torque[i] - g[i]
        room = most[i] - weight[i] if rest[i] > 0.0 else weight[i] - least[i]
        if abs(rest[i]) > room:
            kept = min(kept, room / abs(rest[i]))
    for i in range(n):
        out[i] = weight[i] + kept * rest[i]
        if s[i] * v[i] > 0.0:
            # The removed damping, as far as it brakes the joint.
            out[i] -= (1.0 - kept) * D[i] * (s[i] if abs(s[i]) < abs(v[i]) else v[i])
        out[i] = min(max(out[i], least[i]), most[i])
        # Beyond its limits, outward torque of a joint is at most its gravity torque, or what brakes
        # an inward motion.
        brake = weight[i] - D[i] * v[i]
        if q[i] > upper[i]:
            out[i] = min(out[i], max(weight[i], min(brake, most[i])))
        elif q[i] < lower[i]:
            out[i] = max(out[i], min(weight[i], max(brake, least[i])))
    return out
