"""Compiled part of the weakest push: the least force for which the statistic passes."""

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


@compiled
def least_forces_by_statistic(torque, residual, allowance, whitening, statistic, most, least):
    """Find the least force f at which the statistic of each sample passes its threshold.

    The statistic is ‖W less_friction(r + f τ)‖, where ``less_friction`` reduces each magnitude by
    the friction margin, down to zero. It is continuous in f. Between the forces at which a
    component of ``r + f τ`` passes its margin, ``less_friction`` is ``α + f β``, and the statistic
    passes its threshold s at a root of ``A f² + 2 B f + C``::

        A = ‖W β‖²,  B = (W α)·(W β),  C = ‖W α‖² − s²

    The intervals are searched in ascending order.

    Args:
        torque: τ, residual of a force of 1 N, (k, nv) [N·m or N].
        residual: r, residual without the force, (k, nv) [N·m or N].
        allowance: friction margins, (k, nv) [N·m or N].
        whitening: W, (nv, nv), lower triangular.
        statistic: s, (k,).
        most: upper bound of f, (k,) [N].
        least: least force, (k,) [N], written; ``most`` where no smaller force passes.
    """
    n = torque.shape[1]
    alpha, beta = np.empty(n), np.empty(n)
    for k in range(torque.shape[0]):
        low = 0.0
        while low < most[k]:
            high = most[k]
            for i in range(n):
                if torque[k, i] != 0.0:
                    for margin in (-allowance[k, i], allowance[k, i]):
                        f = (margin - residual[k, i]) / torque[k, i]
                        if low < f < high:
                            high = f
            middle = 0.5 * (low + high)
            for i in range(n):
                r = residual[k, i] + middle * torque[k, i]
                if abs(r) > allowance[k, i]:
                    alpha[i] = residual[k, i] - math.copysign(allowance[k, i], r)
                    beta[i] = torque[k, i]
                else:
                    alpha[i], beta[i] = 0.0, 0.0
            A, B, C = 0.0, 0.0, -statistic[k] * statistic[k]
            for i in range(n):
                a, b = 0.0, 0.0
                for j in range(i + 1):
                    a += whitening[i, j] * alpha[j]
                    b += whitening[i, j] * beta[j]
                A += b * b
                B += a * b
                C += a * a
            if (A * low + 2.0 * B) * low + C > 0.0:
                break  # passed already without the force; at later intervals it is a rounding error
            if A > 0.0:
                # Not above zero at ``low``: the next root is the larger one.
                root = math.sqrt(max(B * B - A * C, 0.0))
                f = -C / (B + root) if B > 0.0 else (root - B) / A
                if f < high:
                    low = max(f, low)
                    break
            low = high
        least[k] = low


PROPORTIONAL = 0.01
"""Standard deviation of a residual by errors of masses, friction and delay, as a fraction of the
residual."""
YOUNG = 0.3
"""Additional fraction while the residual still rises, because the onset time is uncertain."""
HARD = 1000.0
"""Residual, in standard deviations, at which a hard contact doubles the variance of the noise.

A hard contact touches more than one place and shakes all joints. The standard deviation that this
adds grows with the square of the residual.
"""
SHAKEN = 0.02
"""Largest standard deviation that a hard contact adds, as a fraction of the largest residual.

Both are measured in standard deviations of the residuals without contact.
"""
PERSISTENT = 0.1
"""Fraction of the noise variance that is model error, which averaging does not reduce."""

NEGLIGIBLE = 1e-3
"""Probability below which a place does not contribute to the estimated force."""
RELEVANT = 1e-2
"""Fraction of the largest probability of a place, above which a place contributes in any case."""

SLANT = 0.4
"""Standard deviation of an obstacle's force across its expected direction, as a fraction of the
standard deviation along it."""
STILL = 1e-6
"""Speed below which a point cannot run into an obstacle [m/s]."""
LEAST_PROBABILITY = 1e-300
"""Lower bound of the probability of a push, so that its logarithm is finite."""


@compiled
def approach(packed, q, v, bodies, offsets, normals, directions, speeds):
    """Compute the direction of the force that an obstacle exerts on each place, from the motion.

    An obstacle pushes into the surface and against the motion. Its expected direction is the middle
    between ``-normal`` and ``-velocity``, because friction turns the force from ``-normal`` towards
    ``-velocity``; where the normal is unknown, it is ``-velocity``.

    Args:
        packed: ``packed`` of the model.
        q, v: joint positions and velocities before the contact, (nq,) and (nv,) [rad or m, rad/s
            or m/s].
        bodies, offsets: rows of the bodies, (k,), and places in the frames of the bodies,
            (k, 3) [m].
        normals: outward normals there, (k, 3) in the frames of the bodies; zero where unknown.
        directions: expected direction of the force, (k, 3) world axes, written; zero for a place
            that moves inward or is at rest.
        speeds: outward speed of the surface, (k,) [m/s], written; zero for the same places.
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
    """Scale the components of ``x`` across a unit vector by ``SLANT``; no change if it is zero."""
    if dot(direction, direction) == 0.0:
        return x
    return add(scale(SLANT, x), scale((1.0 - SLANT) * dot(direction, x), direction))


@inlined
def _log_pushing(L, z, direction):
    """Return the logarithm of twice the probability that the force has the expected sign.

    Args:
        L: Cholesky factor of the posterior precision of the normalised wrench, (6, 6).
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
    """Add one residual to the weighted sums over a contact, with its squared size as weight.

    Args:
        packed: ``packed`` of the model.
        q: joint positions, (nq,) [rad or m].
        bodies, offsets: rows of the bodies, (k,), and places in the frames of the bodies,
            (k, 3) [m].
        residual: (nv,) [N·m or N]. Its size in the weight is in standard deviations.
        risen: present step response of each residual, which also scales the Jacobian, (nv,).
        doubt: standard deviation that the motion adds to each residual, (nv,) [N·m or N].
        whitening: (nv, nv), lower triangular, converts the residual to standard deviations.
        places: present positions of the places about the root's origin, (k, 3) [m], written.
        jacobians: weighted sums of the Jacobians of the places, (k, nv, 6), changed.
        sums: sum of the weights, sum of their squares, and weighted sums of the residuals, of
            ``risen`` and of the squares of ``doubt``, (2 + 3 nv,), changed.
    """
    model, n = unpacked(packed), residual.shape[0]
    weight = 1e-12  # not zero, so that the mean of zero residuals is defined
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
def fade(jacobians, sums, kept):
    """Multiply the weights of all residuals so far by ``kept``, in [0, 1].

    Args:
        jacobians, sums: weighted sums of :func:`take_in`, changed.
        kept: factor of the weights.
    """
    jacobians *= kept
    sums *= kept
    sums[1] *= kept


@compiled
def noise_factor(covariance, sums):
    """Return the Cholesky factor (nv, nv) of the covariance R of the weighted mean residual.

    Args:
        covariance: covariance of the residual without contact, (nv, nv) [(N·m)² or N²].
        sums: sums of :func:`take_in`, (2 + 3 nv,).
    """
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

    The prior of a wrench ``w = [m; F]`` about a place is normal: along each axis F has the standard
    deviation s, and m has s times the spread of the place. The mean residual y is then normal::

        y = Jᵀ w + noise,  w ~ N(0, P),  noise ~ N(0, R)    so  cov y = R + Jᵀ P J

    If the row of ``directions`` (k, 3) is not zero, F has the standard deviation ``SLANT`` s across
    this direction, and a component along it that is not negative. The density is then multiplied by
    the posterior probability of this sign, divided by its prior probability of 1/2.

    Args:
        jacobians, sums: weighted sums of :func:`take_in`, (k, nv, 6) and (2 + 3 nv,).
        factor: Cholesky factor of R, from :func:`noise_factor`, (nv, nv).
        sizes: candidates of the standard deviation s [N].
        spreads: standard deviation of the contact point about each place, (k,) [m].
        directions: expected direction of F at each place, (k, 3) world axes; zero if unknown.
        information, projected: J R⁻¹ Jᵀ, (k, 6, 6), and J R⁻¹ y, (k, 6), written, with J in units
            in which F has the standard deviation s along each axis.
        evidence: logarithm of the density without the terms that all places share, (k, sizes),
            written.
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
            # Posterior precision of the wrench in prior standard deviations: 1 + information.
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
    """Compute the expected force and contact point, averaged over places and sizes of the force.

    Args:
        jacobians, sums, factor, sizes, spreads, directions: as for :func:`weigh`.
        information, projected: results of :func:`weigh`.
        places: present positions of the places, from :func:`take_in`, (k, 3) [m].
        weights: probability of each place and size, (k, sizes); those below :data:`NEGLIGIBLE`
            and below :data:`RELEVANT` of the largest are left out, and the others divided by their
            sum.
        out: (4, 3), written. Row 0: the force, world axes [N]. Row 1: the point of its line of
            action nearest to the place [m]. Row 2, first entry: the largest variance of the force
            along any axis [N²]. Row 3, first entry: the sum of the variances of the point [m²].
        gain: (3, nv), written; maps another residual [N·m or N] to its force [N].

    Returns:
        The misfit of the most probable place and size: |y - Jᵀ w|² in standard deviations, minus
        yᵀ R⁻¹ y.
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
    least = min(NEGLIGIBLE, RELEVANT * weights.max())
    total = 0.0
    for k in range(weights.shape[0]):
        for h in range(weights.shape[1]):
            if weights[k, h] >= least:
                total += weights[k, h]
    for k in range(weights.shape[0]):
        for h in range(weights.shape[1]):
            if weights[k, h] < least:
                continue
            share = weights[k, h] / total
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
            # Without a force, the contact point is undetermined.
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
