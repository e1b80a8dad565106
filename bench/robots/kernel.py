"""The compiled step of an arm with friction, mechanical stops, brakes and elastic joints.

MuJoCo supplies the mass matrix M and the bias c = C v + g of the links for a block of a
millisecond, within which both are constant. Each substep of length h solves, for rigid joints,

    (M + B + h F) v+ = (M + B) v + h (tau + J^T f - c) + impulses
    q+ = q + h v+

with the rotors' inertia B, viscous friction F and the impulses of Coulomb friction, mechanical
stops and closed brakes, by projected Gauss-Seidel: friction can hold a joint, but not reverse it.
An elastic joint has a rotor at the angle theta behind a spring (M. W. Spong, "Modeling and control
of elastic joint robots", 1987):

    M v' + c        = K (theta - q) + D (theta' - v) + J^T f
    B theta'' + F theta' + friction = tau - K (theta - q) - D (theta' - v)

Friction and brake act on the rotor. The spring is integrated by the symplectic Euler method, which
neither adds nor removes energy on average; friction is implicit.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.compiled import compiled

STRIBECK_SPEED = 0.05
"""Speed over which friction falls from its breakaway value [rad/s]."""

COMPENSATION_SPEED = 0.05
"""Speed over which the drive's own compensation of Coulomb friction changes its sign [rad/s]."""

SWEEPS = 30
"""Largest number of Gauss-Seidel sweeps over the joints in a substep."""

SETTLED = 1e-9
"""Change of every speed in a sweep below which the impulses are accurate [rad/s]."""

COMMANDED, GRAVITY, COMPENSATION, PUSHED = range(4)
"""Rows of torques and of their work: command, own gravity torque and own friction compensation of
the drive, and pushes on the links."""


class Joints(NamedTuple):
    """Constant properties of the joints, (nv,) each."""

    rotor: np.ndarray  # inertia B of the rotors, reflected [kg·m²]
    stiffness: np.ndarray  # of the springs [N·m/rad]; 0: rigid joints
    damping: np.ndarray  # of the springs [N·m·s/rad]
    coulomb: np.ndarray  # Coulomb friction [N·m]
    stribeck: np.ndarray  # relative increase of Coulomb friction at standstill
    viscous: np.ndarray  # viscous friction [N·m·s/rad]
    lower: np.ndarray  # mechanical stops [rad]
    upper: np.ndarray


class State(NamedTuple):
    """State of the arm, (nv,) each; of rigid joints the rotors have no state of their own."""

    q: np.ndarray  # positions of the links [rad]
    v: np.ndarray
    theta: np.ndarray  # positions of the rotors [rad]
    w: np.ndarray


@compiled
def drive(delivered, target, most, compensated, motor, joints, w, torque):
    """Set the commanded torque and the friction compensation of the motors for a block.

    Args:
        delivered: (nv,) commanded part of the torque, updated [N·m].
        target: (nv,) its latest command [N·m].
        most: largest change of it in a block [N·m].
        compensated: shares of Coulomb and viscous friction that the drive compensates.
        motor: (nv,) factor of the whole torque.
        joints: the :class:`Joints`.
        w: (nv,) speeds of the rotors [rad/s].
        torque: (4, nv) torques, of which two rows are set.
    """
    dry, viscous = compensated
    for i in range(target.shape[0]):
        delivered[i] += min(max(target[i] - delivered[i], -most), most)
        torque[COMMANDED, i] = motor[i] * delivered[i]
        own = dry * joints.coulomb[i] * math.tanh(w[i] / COMPENSATION_SPEED)
        torque[COMPENSATION, i] = motor[i] * (own + viscous * joints.viscous[i] * w[i])


@compiled
def inverse(A, out):
    """Write the inverse of the positive definite matrix ``A`` (n, n) to ``out``."""
    n = A.shape[0]
    work = A.copy()
    out[:] = 0.0
    for i in range(n):
        out[i, i] = 1.0
    for i in range(n):
        scale = 1.0 / work[i, i]
        for j in range(n):
            work[i, j] *= scale
            out[i, j] *= scale
        for k in range(n):
            if k != i:
                factor = work[k, i]
                for j in range(n):
                    work[k, j] -= factor * work[i, j]
                    out[k, j] -= factor * out[i, j]


@compiled
def turn_rotors(state, joints, motor, locked, h, spring):
    """Advance the speeds of the rotors of elastic joints by ``h`` [s].

    Args:
        state, joints, locked: see :func:`advance`.
        motor: (nv,) torque of the motors [N·m].
        h: length of the substep [s].
        spring: receives the torque of the springs on the links, (nv,) [N·m].
    """
    q, v, theta, w = state
    for i in range(q.shape[0]):
        spring[i] = joints.stiffness[i] * (theta[i] - q[i]) + joints.damping[i] * (w[i] - v[i])
        inertia = joints.rotor[i] + h * joints.viscous[i]
        free = (joints.rotor[i] * w[i] + h * (motor[i] - spring[i])) / inertia
        most = h * dry_friction(joints, i, w[i]) / inertia
        w[i] = 0.0 if locked[i] else free - min(max(free, -most), most)


@compiled
def dry_friction(joints, i, v):
    """Return the Coulomb friction of joint ``i`` at the speed ``v``, without its sign [N·m]."""
    return joints.coulomb[i] * (
        1.0 + joints.stribeck[i] * math.exp(-((v / STRIBECK_SPEED) * (v / STRIBECK_SPEED)))
    )


@compiled
def resolve(state, joints, inv, locked, h, is_elastic, impulse):
    """Apply impulses of friction, mechanical stops and closed brakes to the speeds of the links.

    Args:
        state, joints, locked, h, impulse: see :func:`advance`.
        inv: inverse of the inertia that the impulses accelerate, (nv, nv).
        is_elastic: whether friction and brakes act on the rotors, and only stops on the links.
    """
    q, v, _, _ = state
    n = q.shape[0]
    most, stop = np.zeros(n), np.zeros(n)
    at_stop = False
    for i in range(n):
        at_stop = at_stop or q[i] < joints.lower[i] or q[i] > joints.upper[i]
        if not is_elastic:
            most[i] = math.inf if locked[i] else h * dry_friction(joints, i, v[i])
            for j in range(n):
                v[j] += inv[j, i] * impulse[i]
    if is_elastic and not at_stop:
        return
    for _ in range(SWEEPS):
        largest = 0.0
        for i in range(n):
            free = impulse[i] - v[i] / inv[i, i]
            change = min(max(free, -most[i]), most[i]) - impulse[i]
            impulse[i] += change
            if q[i] < joints.lower[i]:
                new = max(stop[i] - v[i] / inv[i, i] - change, 0.0)
            elif q[i] > joints.upper[i]:
                new = min(stop[i] - v[i] / inv[i, i] - change, 0.0)
            else:
                new = 0.0
            change += new - stop[i]
            stop[i] = new
            for j in range(n):
                v[j] += inv[j, i] * change
            largest = max(largest, abs(change) * inv[i, i])
        if largest < SETTLED:
            return


@compiled
def advance(state, joints, M, bias, torque, locked, h, steps, impulse, work):
    """Advance the state by ``steps`` substeps of ``h`` [s], in place.

    Args:
        state: the :class:`State`.
        joints: the :class:`Joints`.
        M: mass matrix of the links, (nv, nv).
        bias: C v + g of the links, (nv,).
        torque: (4, nv) torques of the motors and of pushes, by the rows that this module names.
        locked: (nv,) bool, joints with a closed brake.
        h: length of a substep [s].
        steps: number of substeps.
        impulse: (nv,) impulses of joint friction in the last substep, updated [N·m·s].
        work: (4,) work of each row of ``torque``, which is added to [J].
    """
    n = bias.shape[0]
    q, v, theta, w = state
    is_elastic = joints.stiffness[0] > 0.0
    A, inv = M.copy(), np.empty((n, n))
    if not is_elastic:
        for i in range(n):
            A[i, i] += joints.rotor[i] + h * joints.viscous[i]
    inverse(A, inv)
    load, motor = np.empty(n), np.empty(n)
    for i in range(n):
        motor[i] = torque[COMMANDED, i] + torque[GRAVITY, i] + torque[COMPENSATION, i]
    for _ in range(steps):
        if is_elastic:
            turn_rotors(state, joints, motor, locked, h, load)
        else:
            for i in range(n):
                load[i] = motor[i] - joints.viscous[i] * v[i]
        for i in range(n):
            load[i] = h * (load[i] + torque[PUSHED, i] - bias[i])
        for i in range(n):
            for j in range(n):
                v[i] += inv[i, j] * load[j]
        resolve(state, joints, inv, locked, h, is_elastic, impulse)
        for i in range(n):
            q[i] += h * v[i]
            if is_elastic:
                theta[i] += h * w[i]
            else:
                theta[i], w[i] = q[i], v[i]
            for row in range(PUSHED):
                work[row] += h * torque[row, i] * w[i]
            work[PUSHED] += h * torque[PUSHED, i] * v[i]
