"""The simulated plant: compiled step, obstacles, sensors.

**Obstacles: springs with dampers that push and never pull.**

A point of the arm at depth ``x`` below the surface, sinking at ``x_dot``, is pushed out along the
normal with ``max(0, stiffness x + damping x_dot)`` (Kelvin-Voigt without adhesion) and without
friction along the surface.

**The compiled step of the simulated arm.**

Each substep of length h solves, for the new velocity v+,

    (M + h D + h sum_c (h k_c + d_c) j_cᵀ j_c) v+
        = M v + h (tau - C v - g + sum Jᵀ push + sum_c k_c x_c j_cᵀ)

and moves on with ``q+ = q + h v+``. D is the secant slope of the joint friction at v, so that
``D v`` is the friction less its value at rest; c runs over the contacts at depth ``x_c > 0``, with
``j_c v`` the speed at which a contact opens. Friction, springs and dampers are evaluated at the end
of the substep (implicit Euler), so they are stable at any stiffness, and friction can stop a joint
but not reverse it. A contact with a negative force would pull: it is removed, and the step is
solved again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from math import exp, hypot, isfinite, tau
from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rbd_control.dynamics.compiled import compiled
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.coriolis import coriolis_sweep
from rbd_control.dynamics.small_systems import factor_cholesky, solve_factored
from rbd_control.dynamics.spatial import (
    add,
    cross,
    dot,
    dot6,
    load3,
    load6,
    load_matrix,
    scale,
    store3,
    sub,
    transform,
)
from rbd_control.dynamics.sweep import new_sweep
from rbd_control.errors import InputError
from rbd_control.joint_states import JointSample
from rbd_control.robot.friction import friction_slope, joint_friction
from rbd_control.simulation.simulation_parameters import SimulationParameters

Array = NDArray[np.float64]


class Sensors:
    """Simulated encoders, velocity measurement and torque sensors of an arm, with lost messages.

    Args:
        parameters: resolution of the encoders, noise, dropout and filter of the velocity.
        q: initial positions, (nv,) [rad or m].
        random: source of the noise and the dropouts.
    """

    def __init__(
        self, parameters: SimulationParameters, q: Array, random: np.random.Generator
    ) -> None:
        self._resolution = parameters.encoder_resolution
        self._differentiate = parameters.velocity_from_encoder
        self._rate = parameters.rate
        self._weight = 1.0 - exp(-tau * parameters.velocity_cutoff / parameters.rate)
        self._noise = parameters.effort_noise
        self._dropout = parameters.dropout
        self._random = random
        self._q = self._encoded(q)
        self._v = np.zeros_like(q)

    @property
    def position(self) -> Array:
        """Last measured positions, (nv,) [rad or m], also of a lost joint state."""
        return self._q.copy()

    def read(self, stamp: float, q: Array, v: Array, effort: Array) -> JointSample | None:
        """Measure one joint state; call it once per period.

        With ``velocity_from_encoder`` the velocity is the filtered difference of successive
        measured positions. The velocity filter and the random numbers advance also if the joint
        state is lost.

        Args:
            stamp: time of the joint state [s].
            q: true positions, (nv,) [rad or m].
            v: true velocities, (nv,) [rad/s or m/s]; measured only if ``velocity_from_encoder`` is
                false.
            effort: true torques of the motors, (nv,) [N·m or N], measured with noise.

        Returns:
            The joint state with measured positions, velocities and efforts; None if it is lost.
        """
        measured = self._encoded(q)
        self._v = self._v + self._weight * ((measured - self._q) * self._rate - self._v)
        self._q = measured
        noisy = effort + self._noise * self._random.standard_normal(effort.shape)
        if self._random.random() < self._dropout:
            return None
        velocity = self._v if self._differentiate else v
        return JointSample(stamp, measured.copy(), velocity.copy(), noisy)

    def _encoded(self, q: Array) -> Array:
        if self._resolution == 0.0:
            return q.copy()
        return np.rint(q / self._resolution) * self._resolution


Vector = tuple[float, float, float]

SPHERE: Final = 0.0
HALF_SPACE: Final = 1.0


@dataclass(frozen=True)
class Sphere:
    """A spherical obstacle fixed in the world.

    Raises:
        InputError: for a radius or stiffness that is not positive, a negative damping, or
            numbers that are not finite.
    """

    centre: Vector
    """Position of the centre, world axes [m]."""
    radius: float
    """Radius [m]."""
    stiffness: float = 10000.0
    """Contact stiffness [N/m]."""
    damping: float = 100.0
    """Contact damping [N·s/m]."""

    def __post_init__(self) -> None:
        _check(self)
        if self.radius <= 0.0:
            raise InputError(f"Sphere radius is {self.radius} m; it must be positive")

    def row(self) -> tuple[float, ...]:
        """Return the obstacle as a row for the compiled step.

        The row has ten numbers: kind, centre (3) [m], zeros for the normal (3), radius [m],
        stiffness [N/m] and damping [N·s/m].
        """
        return (
            SPHERE, *self.centre, 0.0, 0.0, 0.0, self.radius, self.stiffness, self.damping
        )  # fmt: skip


@dataclass(frozen=True)
class HalfSpace:
    """An obstacle such as a table or a wall, fixed in the world: all space behind a plane.

    Raises:
        InputError: for a normal of length zero, a stiffness that is not positive, a negative
            damping, or numbers that are not finite.
    """

    point: Vector
    """Any point of the surface, world axes [m]."""
    normal: Vector
    """Normal that points out of the obstacle, world axes, of any length above zero."""
    stiffness: float = 10000.0
    """Contact stiffness [N/m]."""
    damping: float = 100.0
    """Contact damping [N·s/m]."""

    def __post_init__(self) -> None:
        _check(self)
        if hypot(*self.normal) == 0.0:
            raise InputError("HalfSpace normal has no length")

    def row(self) -> tuple[float, ...]:
        """Return the obstacle as a row for the compiled step.

        The row has ten numbers: kind, point (3) [m], unit normal (3), zero for the radius,
        stiffness [N/m] and damping [N·s/m].
        """
        length = hypot(*self.normal)
        n = tuple(x / length for x in self.normal)
        return (HALF_SPACE, *self.point, *n, 0.0, self.stiffness, self.damping)


Obstacle = Sphere | HalfSpace


def _check(obstacle: Obstacle) -> None:
    name = type(obstacle).__name__
    for item in fields(obstacle):
        value = getattr(obstacle, item.name)
        if item.type == "Vector":
            value = tuple(float(x) for x in value)
            if len(value) != 3:
                raise InputError(f"{name} {item.name} has {len(value)} numbers; give three")
            object.__setattr__(obstacle, item.name, value)
        if not all(isfinite(x) for x in (value if isinstance(value, tuple) else (value,))):
            raise InputError(f"{name} {item.name} is {value}; give finite numbers")
    if obstacle.stiffness <= 0.0:
        raise InputError(f"{name} stiffness is {obstacle.stiffness} N/m; it must be positive")
    if obstacle.damping < 0.0:
        raise InputError(f"{name} damping is {obstacle.damping} N·s/m; it must not be negative")


STOP_STIFFNESS = 20000.0
"""Stiffness of the stops at the position limits [N·m/rad or N/m]."""

BRAKE_SMOOTHING = 1e-7
"""Speed v_s in the friction tanh(v / v_s) of the closed brakes [rad/s or m/s].

A brake under 76 % of its holding torque creeps at this speed, under a smaller load more slowly.
"""

LEAST_SPEED = 1e-11
"""Speed at which the slope of the friction of a joint at rest is taken [rad/s or m/s]."""

STOP_DAMPING = 200.0
"""Damping of the stops at the position limits [N·m·s/rad or N·s/m]."""


class Surroundings(NamedTuple):
    """Friction, stops, obstacles and pushes that act on the arm, as arrays.

    ``n`` is the number of joints; the other dimensions count capsules (k), obstacles (m) and
    pushes (p).
    """

    friction: int  # kind of the friction, see joint_friction
    coefficients: np.ndarray  # (ROWS, n) its coefficients
    brake: np.ndarray  # (n,) friction of closed brakes [N·m or N]
    lower: np.ndarray  # (n,) stops [rad or m]
    upper: np.ndarray  # (n,)
    capsule_body: np.ndarray  # (k,) row of the body
    capsule_end: np.ndarray  # (k, 3) far end of the axis in the body, from its origin [m]
    radius: float  # of the capsules [m]
    obstacles: np.ndarray  # (m, 10), see obstacles.py
    push_body: np.ndarray  # (p,) row of the body
    push_point: np.ndarray  # (p, 3) where on the body [m]
    push: np.ndarray  # (p, 6) moment and force, world axes [N·m, N]


class Truth(NamedTuple):
    """True torques and forces of a step, means over its substeps.

    ``point`` is of the last substep in which the body had contact, and else unchanged.
    """

    external: np.ndarray  # (n,) joint torque of pushes, obstacles and stops [N·m or N]
    friction: np.ndarray  # (n,) joint torque of friction, opposite to v [N·m or N]
    contact: np.ndarray  # (bodies, 3) force of the obstacles on each body, world axes [N]
    point: np.ndarray  # (bodies, 3) contact point in the world frame [m]


@njit
def _add_wrench(model, s, body, wrench, torque):
    """Add the joint torque of a wrench on a body, about the world's origin, to ``torque`` (n,)."""
    i = body
    while i >= 0:
        torque[model.dof[i]] += dot6(load6(s.Phi, i), wrench)
        i = model.parent[i]


@njit
def _sphere_contact(s, around, row):
    """Return the deepest point of the arm in a ball: depth [m], capsule, outward normal, point.

    Without contact the depth is zero and the capsule -1. A capsule whose axis passes through the
    centre of the ball counts as without contact, because the normal is undefined.
    """
    centre = (row[1], row[2], row[3])
    deepest, which = 0.0, -1
    normal = point = (0.0, 0.0, 0.0)
    for k in range(around.capsule_body.shape[0]):
        body = around.capsule_body[k]
        start = load3(s.p, body)
        axis = transform(load_matrix(s.R, body), load3(around.capsule_end, k))
        along = dot(sub(centre, start), axis) / max(dot(axis, axis), 1e-12)
        nearest = add(start, scale(min(max(along, 0.0), 1.0), axis))
        away = sub(nearest, centre)
        distance = math.sqrt(dot(away, away))
        depth = row[7] + around.radius - distance
        if depth > deepest and distance > 1e-9:
            deepest, which = depth, k
            normal = scale(1.0 / distance, away)
            point = sub(nearest, scale(around.radius, normal))
    return deepest, which, normal, point


@njit
def _plane_contact(s, around, row, k):
    """Return how far the far end of capsule ``k`` is behind a plane: depth, outward normal, point.

    The end is a ball of the capsule's radius. The depth [m] is negative if the ball does not reach
    the plane; the point is the deepest of the ball.
    """
    body = around.capsule_body[k]
    end = add(load3(s.p, body), transform(load_matrix(s.R, body), load3(around.capsule_end, k)))
    normal = (row[4], row[5], row[6])
    depth = around.radius - dot(sub(end, (row[1], row[2], row[3])), normal)
    return depth, normal, sub(end, scale(around.radius, normal))


class Contacts(NamedTuple):
    """Contacts with obstacles and stops in one substep, one row for each; a workspace."""

    J: np.ndarray  # (c, n) j_c of the module's equation
    depth: np.ndarray  # (c,) x_c [m or rad]
    stiffness: np.ndarray  # (c,) k_c [N/m or N·m/rad]
    damping: np.ndarray  # (c,) d_c [N·s/m or N·m·s/rad]
    body: np.ndarray  # (c,) row of the body; -1 for a stop
    normal: np.ndarray  # (c, 3) out of the obstacle, world axes
    point: np.ndarray  # (c, 3) in the world frame [m]
    closed: np.ndarray  # (c,) bool; false once the contact would pull


@njit
def _touch(model, s, contacts, count, body, depth, normal, point, row):
    contacts.J[count] = 0.0
    _add_wrench(model, s, body, (cross(point, normal), normal), contacts.J[count])
    contacts.depth[count] = depth
    contacts.stiffness[count] = row[8]
    contacts.damping[count] = row[9]
    contacts.body[count] = body
    store3(contacts.normal, count, normal)
    store3(contacts.point, count, point)
    contacts.closed[count] = True


@njit
def _find_contacts(model, q, s, around, contacts):
    """Write all contacts with obstacles and stops to ``contacts``; return their number."""
    count = 0
    for o in range(around.obstacles.shape[0]):
        row = around.obstacles[o]
        if row[0] == SPHERE:
            depth, k, normal, point = _sphere_contact(s, around, row)
            if k >= 0:
                body = around.capsule_body[k]
                _touch(model, s, contacts, count, body, depth, normal, point, row)
                count += 1
        else:
            for k in range(around.capsule_body.shape[0]):
                depth, normal, point = _plane_contact(s, around, row, k)
                if depth > 0.0:
                    body = around.capsule_body[k]
                    _touch(model, s, contacts, count, body, depth, normal, point, row)
                    count += 1
    for i in range(q.shape[0]):
        depth = max(around.lower[i] - q[i], q[i] - around.upper[i])
        if depth > 0.0:
            contacts.J[count] = 0.0
            contacts.J[count, i] = 1.0 if q[i] < around.lower[i] else -1.0
            contacts.depth[count] = depth
            contacts.stiffness[count] = STOP_STIFFNESS
            contacts.damping[count] = STOP_DAMPING
            contacts.body[count] = -1
            contacts.closed[count] = True
            count += 1
    return count


@njit
def _force(contacts, c, v, h):
    """Return the force of a contact at the end of a substep of length h [s] at velocity ``v``."""
    opening = 0.0
    for i in range(v.shape[0]):
        opening += contacts.J[c, i] * v[i]
    depth = contacts.depth[c] - h * opening
    return contacts.stiffness[c] * depth - contacts.damping[c] * opening


@compiled
def advance(packed, q, v, tau, around, h, substeps, truth):
    """Advance positions and velocities of the arm by some substeps, in place.

    Args:
        packed: the model in packed form, ``Model.packed``.
        q, v: positions and velocities, (n,) each [rad or m, rad/s or m/s]; overwritten.
        tau: torque of the motors, (n,) [N·m or N], constant.
        around: friction, stops, obstacles and pushes, see :class:`Surroundings`.
        h: length of a substep [s].
        substeps: number of substeps.
        truth: :class:`Truth` to which torques and forces of the step are written.
    """
    model = unpacked(packed)
    n, rows = q.shape[0], model.parent.shape[0]
    s, memory = new_sweep(rows), np.empty(12 * rows)
    M, C, A = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    CTv, g, D, b, v_new, outside, rest = (
        np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    )  # fmt: skip
    most = around.obstacles.shape[0] * max(around.capsule_body.shape[0], 1) + n
    contacts = Contacts(
        np.empty((most, n)),
        np.empty(most),
        np.empty(most),
        np.empty(most),
        np.empty(most, dtype=np.int64),
        np.empty((most, 3)),
        np.empty((most, 3)),
        np.empty(most, dtype=np.bool_),
    )
    truth.external[:] = 0.0
    truth.friction[:] = 0.0
    truth.contact[:] = 0.0
    share = 1.0 / substeps
    for _ in range(substeps):
        coriolis_sweep(model, q, v, s, memory, M, C, CTv, g)
        outside[:] = 0.0
        for k in range(around.push_body.shape[0]):
            body = around.push_body[k]
            point = add(
                load3(s.p, body), transform(load_matrix(s.R, body), load3(around.push_point, k))
            )
            moment, force = load6(around.push, k)
            wrench = (add(moment, cross(point, force)), force)
            _add_wrench(model, s, body, wrench, outside)
        count = _find_contacts(model, q, s, around, contacts)
        for i in range(n):
            speed = max(abs(v[i]), LEAST_SPEED)
            D[i] = friction_slope(around.friction, around.coefficients, i, speed)
            D[i] += around.brake[i] * math.tanh(speed / BRAKE_SMOOTHING) / speed
            rest[i] = joint_friction(around.friction, around.coefficients, i, 0.0)
            b[i] = h * (tau[i] - g[i] + outside[i] - rest[i])
            for j in range(n):
                b[i] += (M[i, j] - h * C[i, j]) * v[j]
        pulling = True
        while pulling:
            for i in range(n):
                v_new[i] = b[i]
                for j in range(i + 1):
                    A[i, j] = M[i, j]
                A[i, i] += h * D[i]
            for c in range(count):
                if contacts.closed[c]:
                    J, k_c = contacts.J[c], contacts.stiffness[c]
                    gain = h * (h * k_c + contacts.damping[c])
                    for i in range(n):
                        v_new[i] += h * k_c * contacts.depth[c] * J[i]
                        for j in range(i + 1):
                            A[i, j] += gain * J[i] * J[j]
            factor_cholesky(A)
            solve_factored(A, v_new)
            pulling = False
            for c in range(count):
                if contacts.closed[c] and _force(contacts, c, v_new, h) < 0.0:
                    contacts.closed[c] = False
                    pulling = True
        for c in range(count):
            if contacts.closed[c]:
                pressure = _force(contacts, c, v_new, h)
                body = contacts.body[c]
                for i in range(n):
                    outside[i] += pressure * contacts.J[c, i]
                if body >= 0:
                    for x in range(3):
                        truth.contact[body, x] += share * pressure * contacts.normal[c, x]
                        truth.point[body, x] = contacts.point[c, x]
        for i in range(n):
            truth.external[i] += share * outside[i]
            truth.friction[i] -= share * (D[i] * v_new[i] + rest[i])
            v[i] = v_new[i]
            q[i] += h * v[i]
