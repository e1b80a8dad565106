"""The compiled part of isolation: how well each place on the arm explains the residuals."""

from __future__ import annotations

import math

import numpy as np

from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.kinematics import link_point
from rbd_control.dynamics.small_systems import solve_factored
from rbd_control.dynamics.spatial import (
    add,
    cross,
    dot,
    load3,
    load6,
    load_matrix,
    scale,
    transform,
)
from rbd_control.dynamics.sweep import move_bodies, new_sweep, place_bodies

PROPORTIONAL = 0.01
"""Standard deviation of a residual in parts of itself: masses, friction, the filter's delay."""
YOUNG = 0.3
"""The same while the observer has not followed yet: the time since the onset is not known well."""
HARD = 1000.0
"""A residual of so many standard deviations makes the noise as much larger again, and with its
square: a hard contact touches more than one place and shakes all joints ..."""
SHAKEN = 0.02
"""... by this part of the residual at most."""
PERSISTENT = 0.1
"""Part of the noise's variance that is model error, which stays while a contact lasts."""

NEGLIGIBLE = 1e-3
"""Probability from which on a place counts for the force."""

SLANT = 0.4
"""Standard deviation of an obstacle's force across its expected direction, as a fraction of the
standard deviation along it."""
STILL = 1e-6
"""Speed below which a point cannot run into an obstacle [m/s]."""
LEAST_PROBABILITY = 1e-300
"""Lower bound of the probability of a push, so that its logarithm is finite."""


@compiled
def approach(packed, q, v, bodies, offsets, normals, directions, speeds):
    """Compute with what force an obstacle would act on each place, given how the place moves.

    An obstacle pushes into the surface and against the motion. Its force therefore lies near the
    middle between ``-normal`` and ``-velocity``: friction turns it from the one towards the other.

    Args:
        packed: the model.
        q, v: joint positions and velocities before the contact, (nq,) and (nv,).
        bodies, offsets: the places, (k,) and (k, 3) in the frames of the bodies [m].
        normals: outward normals there, (k, 3) in the frames of the bodies; zero where unknown.
        directions: expected direction of the force, (k, 3) world axes, written; zero for a place
            that moves away or stands still.
        speeds: how fast the surface moves outward there, (k,) [m/s], written; zero likewise.
    """
    model = unpacked(packed)
    s = new_sweep(model.parent.shape[0])
    place_bodies(model, q, s)
    move_bodies(model, v, s)
    for k in range(bodies.shape[0]):
        point = link_point(s, bodies[k], load3(offsets, k))
        angular, linear = load6(s.velocity, bodies[k])
        velocity = add(linear, cross(angular, point))
        speed = math.sqrt(dot(velocity, velocity))
        normal = transform(load_matrix(s.R, bodies[k]), load3(normals, k))
        is_known = dot(normal, normal) > 0.0
        outward = dot(normal, velocity) if is_known else speed
        speeds[k] = 0.0
        directions[k] = 0.0
        if speed < STILL or outward <= 0.0:
            continue
        against = add(scale(-1.0 / speed, velocity), scale(-1.0, normal))
        length = math.sqrt(dot(against, against))
        speeds[k] = outward
        for c in range(3):
            directions[k, c] = against[c] / length


@inlined
def _narrowed(direction, x):
    """Scale ``x`` by ``SLANT`` across a direction; leave it as it is where there is none."""
    if dot(direction, direction) == 0.0:
        return x
    return add(scale(SLANT, x), scale((1.0 - SLANT) * dot(direction, x), direction))


@inlined
def _log_pushing(L, z, direction):
    """Return the logarithm of twice the probability that the force has the expected sign.

    Args:
        L: Cholesky factor of the precision of the wrench in units, (6, 6).
        z: L⁻¹ times its information vector, (6,).
        direction: expected direction of the force, three components.
    """
    x0 = direction[0] / L[3, 3]
    x1 = (direction[1] - L[4, 3] * x0) / L[4, 4]
    x2 = (direction[2] - L[5, 3] * x0 - L[5, 4] * x1) / L[5, 5]
    mean = x0 * z[3] + x1 * z[4] + x2 * z[5]
    square = x0 * x0 + x1 * x1 + x2 * x2
    return math.log(max(math.erfc(-mean / math.sqrt(2.0 * square)), LEAST_PROBABILITY))


@compiled
def take_in(packed, q, bodies, offsets, residual, risen, doubt, whitening, places, jacobians, sums):
    """Add one look: Jacobians (k, nv, 6) of the places and the residual, by its square.

    ``risen`` (nv,) is the part of a constant torque that each residual shows by now, so the same
    part of the Jacobian; ``doubt`` (nv,) is the standard deviation of what a joint's reversal or
    speed may add. ``places`` (k, 3) are left where the places are now, about the root's origin;
    ``sums`` holds the weights, their squares, the residuals, ``risen`` and the squares of
    ``doubt``, all weighted.
    """
    model, n = unpacked(packed), residual.shape[0]
    weight = 1e-12  # not zero, for the mean of residuals that all are
    for i in range(n):
        x = 0.0
        for j in range(i + 1):
            x += whitening[i, j] * residual[j]
        weight += x * x
    sums[0] += weight
    sums[1] += weight * weight
    for i in range(n):
        sums[2 + i] += weight * residual[i]
        sums[2 + n + i] += weight * risen[i]
        sums[2 + 2 * n + i] += weight * doubt[i] * doubt[i]
    s = new_sweep(model.parent.shape[0])
    place_bodies(model, q, s)
    for k in range(bodies.shape[0]):
        point = link_point(s, bodies[k], load3(offsets, k))
        i = bodies[k]
        while i >= 0:
            angular, linear = load6(s.Phi, i)
            linear = add(linear, cross(angular, point))
            dof = model.dof[i]
            for c in range(3):
                jacobians[k, dof, c] += weight * risen[dof] * angular[c]
                jacobians[k, dof, 3 + c] += weight * risen[dof] * linear[c]
            i = model.parent[i]
        for c in range(3):
            places[k, c] = point[c]


@compiled
def noise_factor(covariance, sums):
    """Cholesky factor (nv, nv) of the covariance of the weighted mean of the residuals."""
    n = covariance.shape[0]
    looks = sums[0] * sums[0] / sums[1]
    shaken = 0.0
    y = sums[2 : 2 + n] / sums[0]
    risen = sums[2 + n : 2 + 2 * n] / sums[0]
    for i in range(n):
        shaken = max(shaken, y[i] * y[i] / covariance[i, i])
    grown = PERSISTENT + (1.0 - PERSISTENT) / looks + shaken * min(shaken / HARD**4, SHAKEN**2)
    R = grown * covariance
    for i in range(n):
        R[i, i] += ((PROPORTIONAL + YOUNG * (1.0 - risen[i])) * y[i]) ** 2
        R[i, i] += sums[2 + 2 * n + i] / sums[0]
    return np.linalg.cholesky(R)


@compiled
def weigh(jacobians, sums, factor, sizes, spreads, directions, information, projected, evidence):
    """Compute the evidence for each place and size of the force; return yᵀ R⁻¹ y.

    A wrench ``w = [m; F]`` about a place, with F of standard deviation s and m of s times the
    spread of the place along each axis before anything is known, makes the mean residual normal::

        y = Jᵀ w + noise,  w ~ N(0, P),  noise ~ N(0, R)    so  cov y = R + Jᵀ P J

    Where ``directions`` (k, 3) has a direction and not zero, F has the standard deviation
    ``SLANT`` s across that direction, and it points along that direction, not against it. The
    density is then multiplied by the probability of this sign, given the residual, over 1/2.

    ``evidence`` (k, sizes) is the logarithm of that density less what all share, ``information``
    (k, 6, 6) and ``projected`` (k, 6) are J R⁻¹ Jᵀ and J R⁻¹ y, with J in units in which F has the
    standard deviation s along each axis.
    """
    n = factor.shape[0]
    y = np.empty(n)
    square = 0.0
    for i in range(n):
        x = sums[2 + i] / sums[0]
        for j in range(i):
            x -= factor[i, j] * y[j]
        y[i] = x / factor[i, i]
        square += y[i] * y[i]
    A = np.empty((n, 6))
    L = np.empty((6, 6))
    z = np.empty(6)
    for k in range(jacobians.shape[0]):
        direction = load3(directions, k)
        is_directed = dot(direction, direction) > 0.0
        for c in range(6):
            for i in range(n):
                x = jacobians[k, i, c] / sums[0]
                for j in range(i):
                    x -= factor[i, j] * A[j, c]
                A[i, c] = x / factor[i, i]
        if is_directed:
            for i in range(n):
                A[i, 3], A[i, 4], A[i, 5] = _narrowed(direction, (A[i, 3], A[i, 4], A[i, 5]))
        for c in range(6):
            projected[k, c] = 0.0
            for i in range(n):
                projected[k, c] += A[i, c] * y[i]
        for c in range(6):
            for d in range(c + 1):
                x = 0.0
                for i in range(n):
                    x += A[i, c] * A[i, d]
                information[k, c, d] = x
                information[k, d, c] = x
        for h in range(sizes.shape[0]):
            # Of the wrench in units of its own standard deviations: I + the above, factored.
            determinant = 1.0
            explained = 0.0
            for c in range(6):
                unit_c = sizes[h] * (spreads[k] if c < 3 else 1.0)
                for d in range(c + 1):
                    unit_d = sizes[h] * (spreads[k] if d < 3 else 1.0)
                    x = unit_c * unit_d * information[k, c, d]
                    if c == d:
                        x += 1.0
                    for e in range(d):
                        x -= L[c, e] * L[d, e]
                    L[c, d] = np.sqrt(x) if c == d else x / L[d, d]
                determinant *= L[c, c]
                x = unit_c * projected[k, c]
                for e in range(c):
                    x -= L[c, e] * z[e]
                z[c] = x / L[c, c]
                explained += z[c] * z[c]
            evidence[k, h] = 0.5 * explained - np.log(determinant)
            if is_directed:
                evidence[k, h] += _log_pushing(L, z, direction)
    return square


@compiled
def expected(
    jacobians,
    sums,
    factor,
    sizes,
    spreads,
    directions,
    information,
    projected,
    places,
    weights,
    out,
    gain,
):
    """Compute the expected force and point over places and sizes with their ``weights``.

    ``out`` (4, 3): the force, the point of its line of action nearest to the place, and the
    variances of force (largest along any axis, first entry) and point (summed). ``gain`` (3, nv)
    gives the force for another residual. Returns the misfit of the likeliest, |y - Jᵀ w|² in
    standard deviations less yᵀ R⁻¹ y.
    """
    n = factor.shape[0]
    precision = np.zeros((6, 6))
    units = np.empty(6)
    second = np.zeros((3, 3))
    square_of_point = 0.0
    best = 0.0
    misfit = 0.0
    out[:] = 0.0
    gain[:] = 0.0
    for k in range(weights.shape[0]):
        for h in range(weights.shape[1]):
            share = weights[k, h]
            if share < NEGLIGIBLE:
                continue
            # (P⁻¹ + J R⁻¹ Jᵀ)⁻¹, without the inverse of P, which may be singular.
            for c in range(6):
                units[c] = sizes[h] * (spreads[k] if c < 3 else 1.0)
            for c in range(6):
                for d in range(6):
                    precision[c, d] = units[c] * units[d] * information[k, c, d]
                precision[c, c] += 1.0
            doubt = np.linalg.inv(precision)
            for c in range(6):
                for d in range(6):
                    doubt[c, d] *= units[c] * units[d]
            wrench = doubt @ projected[k]
            if share > best:
                best = share
                misfit = wrench @ information[k] @ wrench - 2.0 * (wrench @ projected[k])
            m = (wrench[0], wrench[1], wrench[2])
            direction = load3(directions, k)
            F = _narrowed(direction, (wrench[3], wrench[4], wrench[5]))
            for c in range(6):
                row = _narrowed(direction, (doubt[c, 3], doubt[c, 4], doubt[c, 5]))
                doubt[c, 3], doubt[c, 4], doubt[c, 5] = row
            for c in range(6):
                column = _narrowed(direction, (doubt[3, c], doubt[4, c], doubt[5, c]))
                doubt[3, c], doubt[4, c], doubt[5, c] = column
            force_squared = dot(F, F)
            # Nothing tells where no force acts.
            inverse = 1.0 / force_squared if force_squared > 0.0 else 1.0
            nearest = add(load3(places, k), scale(inverse, cross(F, m)))
            vague = (doubt[0, 0] + doubt[1, 1] + doubt[2, 2]) * inverse
            square_of_point += share * (dot(nearest, nearest) + vague)
            for r in range(3):
                out[0, r] += share * F[r]
                out[1, r] += share * nearest[r]
                for c in range(3):
                    second[r, c] += share * (doubt[3 + r, 3 + c] + F[r] * F[c])
                for i in range(n):
                    for c in range(6):
                        gain[r, i] += share * doubt[3 + r, c] * jacobians[k, i, c] / sums[0]
    for r in range(3):
        for c in range(3):
            second[r, c] -= out[0, r] * out[0, c]
        solve_factored(factor, gain[r])
    out[2, 0] = np.linalg.eigvalsh(second)[2]
    out[3, 0] = square_of_point - out[1] @ out[1]
    return misfit
