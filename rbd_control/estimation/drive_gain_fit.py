"""Gains of the drives with their standard errors, by weighted total least squares.

For the filtered sample ``k`` of joint ``i`` under load ``l``, in units of the current::

    c = g_i y(delta, pi_l) + j_i a + friction_il + e        g_i = 1 / K_i,   j_i = J_i / K_i

The unknowns are ``g_i``, ``j_i``, the friction of each joint under each load, the corrections
``delta`` of the inertial parameters of the arm, and the ten inertial parameters ``pi_l`` of each
payload. ``delta``, ``pi_l`` and known gains have normal priors.

**Both sides are noisy.** ``e`` contains the noise of the currents and the torque that the model
lacks; its variance is that of the residual. ``y`` and ``a`` are sums of columns whose noise has the
known covariance ``Lambda_i`` (:mod:`~rbd_control.estimation.drive_gain_rows`). For the coefficients
``b_i = (g_i, g_i delta, g_i pi_l, j_i)`` of these columns, the sum

    sum (c - ...)² / (sigma_i² + b_iᵀ Lambda_i b_i)  +  the squares of the priors

is smallest where ``sum Jᵀ e / s_i² + n Bᵀ Lambda_i b_i / s_i² = 0``, with the Jacobians ``J`` of
the current and ``B`` of ``b_i``, and ``s_i²`` the mean square of the residual. Ordinary least
squares lacks the second term, and its gains are biased. Gauss-Newton steps solve the condition.

**Residuals are serially correlated.** Let ``T_i`` be the sum of the autocorrelation of the residual
of a joint. The weights are ``1 / (s_i² T_i)``, so that the weight of a row relative to other rows
and to the priors corresponds to its information. The variance of a gain is the larger of two
estimates: the inverse ``H⁻¹`` of the normal matrix, and ``H⁻¹ (Omega + P) H⁻¹`` with the precision
``P`` of the priors and the covariance ``Omega`` of the scores summed over blocks of :data:`BLOCK`
rows. The second estimate is also valid for noise whose variance changes with time (White 1980;
Newey & West 1987).

**The prior of the arm is tested.** If the estimated corrections are larger than their prior allows,
the prior is widened until they fit it (MacKay, *Bayesian Interpolation*, 1992). A description of
another arm, or without the tool flange, then leads to large standard errors instead of wrong gains.

Source: Gautier & Briot, *Global Identification of Joint Drive Gains and Dynamic Parameters of
Robots*, J. Dyn. Sys. Meas. Control 136(5), 2014, for the common fit of gains, inertial parameters
and a known payload by total least squares; Fuller, *Measurement Error Models*, 1987, section 2.2,
for known covariances of the noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbd_control.estimation.drive_gain_rows import PAYLOAD_PARAMETERS, GainRows
from rbd_control.estimation.identification import COLUMNS, PAYS, PLAIN_SHAPES, SHAPES

Array = NDArray[np.float64]

BLOCK = 40
"""Number of successive rows whose scores are summed: 2 s at the usual filter of 20 1/s."""
STEPS = 50
"""Largest number of Gauss-Newton steps."""
CONVERGED = 1e-5
"""Change of all gains, in standard deviations, at which the iteration ends."""
LONGEST_CORRELATION = 0.1
"""Largest lag of the autocorrelation that is summed, as a fraction of the samples."""
MOST_NOISE = 0.5
"""Largest fraction of the information of a joint that may be noise of the model's torque; above it
the gain counts as undetermined."""
RESOLUTION = 1e-5
"""Smallest residual, as a fraction of the largest current of the joint, that counts as noise."""
EXACT = 1e-5
"""Relative standard deviation that stands for a prior without error."""


@dataclass(frozen=True, eq=False)
class Prior:
    """A normal prior of the ten inertial parameters of a payload.

    They are the mass [kg], the first moments x y z [kg·m] and the second moments xx yy zz xy xz yz
    [kg·m²], about the origin and along the axes of the link that the last joint moves.
    """

    mean: Array
    """Mean of each parameter, (10,)."""
    deviation: Array
    """Standard deviation of each parameter, (10,); zero for a parameter that is known exactly."""


@dataclass(frozen=True, eq=False)
class GainFit:
    """Estimated reciprocals of the drive gains."""

    reciprocal: Array
    """Published effort per torque of the joint, (nv,) [unit of effort per N·m or N]."""
    error: Array
    """Standard error of ``reciprocal``, (nv,), in the same unit; infinite if the data do not
    determine the gain."""
    widened: float
    """Factor by which the prior standard deviations of the arm's inertial parameters had to be
    multiplied; 1 if the description fits."""


@dataclass(frozen=True, eq=False)
class _Joint:
    """The n rows of one joint under all loads, one load after the other.

    With P corrections and L payloads there are N = P + 10 L + 2 columns with noise.
    """

    current: Array
    """Measured current, (n,)."""
    torque: Array
    """Torque (n,) of the model as described."""
    shared: Array
    """Change (n, P + 10 L) of the torque with corrections and payload parameters."""
    own: Array
    """Acceleration, then friction under each load, (n, 1 + 4 (L + 1))."""
    noise: Array
    """Covariance (N, N) of the noise of ``torque``, ``shared`` and acceleration, summed over all
    rows."""
    is_hidden: bool
    """Whether noise is more than :data:`MOST_NOISE` of the information on gain or rotor, so that
    the gain counts as undetermined."""
    unknowns: NDArray[np.intp]
    """Indices of the gain, the shared unknowns and the joint's own unknowns among all unknowns."""

    @property
    def first_own(self) -> int:
        """Index of the first unknown that belongs to this joint alone, in ``unknowns``."""
        return 1 + self.shared.shape[1]

    def jacobian(self, theta: Array) -> Array:
        """Return the derivative of the fitted current by the m ``theta[unknowns]``, (n, m)."""
        here = theta[self.unknowns]
        torque = self.torque + self.shared @ here[1 : self.first_own]
        return np.column_stack([torque, here[0] * self.shared, self.own])

    @property
    def noisy(self) -> NDArray[np.intp]:
        """Indices of gain, shared unknowns and rotor among all unknowns."""
        return self.unknowns[: self.first_own + 1]

    def coefficients(self, theta: Array) -> tuple[Array, Array]:
        """Return the coefficients (N,) of the noisy columns and their derivative (N, N)."""
        g, *shared, rotor = theta[self.noisy]
        B = np.diag([1.0, *np.full(len(shared), g), 1.0])
        B[1:-1, 0] = shared
        return np.array([g, *(g * np.array(shared)), rotor]), B

    def residual(self, theta: Array, jacobian: Array) -> Array:
        """Return the part of the current (n,) that the fit does not explain."""
        linear = theta[self.unknowns].copy()
        linear[1 : self.first_own] = 0.0
        return np.asarray(self.current - jacobian @ linear)

    def weight(self, theta: Array, jacobian: Array) -> float:
        """Return the weight of each row, one over the result of :func:`_variance`."""
        least = (RESOLUTION * float(np.abs(self.current).max(initial=0.0))) ** 2
        e = self.residual(theta, jacobian)
        return 1.0 / _variance(e, 1 + self.own.shape[1], max(least, np.finfo(float).tiny))


def fit_gains(
    rows: Sequence[GainRows], loads: Sequence[Prior], known: Mapping[int, tuple[float, float]]
) -> GainFit:
    """Estimate the reciprocal gains of all drives by weighted total least squares.

    Args:
        rows: rows of the regression, first without payload, then of each payload.
        loads: prior of each payload, one fewer than ``rows``.
        known: gain and its standard error [N·m or N per unit of effort] of joints whose gain is
            known, by index of the velocity v.

    Returns:
        Reciprocal gains and their standard errors. A reciprocal is negative for a reversed drive.
    """
    nv, P = rows[0].torque.shape[1], len(rows[0].which)
    payloads = np.concatenate([np.zeros(0), *(prior.mean for prior in loads)])
    joints = [_joint(i, rows, payloads) for i in range(nv)]
    theta = np.concatenate([np.zeros(nv + P), payloads, np.zeros(nv * joints[0].own.shape[1])])
    mean, stated = _priors(theta, nv, rows[0].spread, loads, known)
    for i, joint in enumerate(joints):
        _start(theta, joint, known.get(i))
    bodies = slice(nv, nv + P)
    precision, widened = stated.copy(), 1.0
    for _ in range(STEPS):
        normal, score = _normal(joints, theta)
        inverse = _inverse(normal + np.diag(precision))
        step = inverse @ (score - precision * (theta - mean))
        theta = theta + step
        free = P - float(np.diag(inverse)[bodies] @ precision[bodies])
        last, widened = widened, _widening(theta[bodies], stated[bodies], free)
        precision[bodies] = stated[bodies] / widened**2
        deviation = np.sqrt(np.abs(np.diag(inverse)[:nv]))
        small = (np.abs(step[:nv]) <= CONVERGED * deviation).all()
        if small and abs(widened - last) <= CONVERGED * widened:
            break
    error = _errors(joints, theta, precision)
    error[[i for i, joint in enumerate(joints) if joint.is_hidden and i not in known]] = np.inf
    return GainFit(theta[:nv], error, widened)


def _joint(i: int, rows: Sequence[GainRows], payloads: Array) -> _Joint:
    """Return the rows of joint ``i``, with the shape of friction that fits them best."""
    current = np.concatenate([part.current[:, i] for part in rows])
    torque = np.concatenate([part.torque[:, i] for part in rows])
    acceleration = np.concatenate([part.acceleration[:, i] for part in rows])
    shared = _shared(i, rows)
    friction = np.stack([_friction(i, rows, shape) for shape in range(len(SHAPES))])
    described = torque + shared[:, shared.shape[1] - payloads.size :] @ payloads
    both = np.column_stack([described, acceleration])
    chosen = friction[_friction_shape(current, both, friction)]
    own = np.column_stack([acceleration, chosen])
    noise, is_hidden = _bounded_noise(
        _summed_noise(i, rows), np.column_stack([torque, shared, acceleration]), chosen, payloads
    )
    size = rows[0].torque.shape[1] + shared.shape[1]
    places = size + i * own.shape[1] + np.arange(own.shape[1])
    unknowns = np.concatenate([[i], np.arange(size - shared.shape[1], size), places])
    return _Joint(current, torque, shared, own, noise, is_hidden, unknowns.astype(np.intp))


def _shared(i: int, rows: Sequence[GainRows]) -> Array:
    """Return how corrections and payloads change the torque of joint ``i``, (n, P + 10 L)."""
    parts = []
    for load, part in enumerate(rows):
        payloads = np.zeros((len(part.torque), PAYLOAD_PARAMETERS * (len(rows) - 1)))
        if load:
            last = PAYLOAD_PARAMETERS * load
            payloads[:, last - PAYLOAD_PARAMETERS : last] = part.payload[:, i]
        parts.append(np.column_stack([part.corrections[:, i], payloads]))
    return np.concatenate(parts)


def _friction(i: int, rows: Sequence[GainRows], shape: int) -> Array:
    """Return the columns (n, 4 (L + 1)) of friction of joint ``i``, four for each load."""
    parts = []
    for load, part in enumerate(rows):
        columns = np.zeros((len(part.torque), COLUMNS * len(rows)))
        columns[:, COLUMNS * load : COLUMNS * (load + 1)] = part.friction[:, i, shape]
        parts.append(columns)
    return np.concatenate(parts)


def _friction_shape(current: Array, described: Array, friction: Array) -> int:
    """Return the index of the best shape of friction; a Stribeck effect must fit clearly better."""
    errors = []
    for columns in friction:
        A = np.column_stack([described, columns])
        errors.append(float(np.std(current - A @ _least_squares(A, current))))
    plain, best = int(np.argmin(errors[:PLAIN_SHAPES])), int(np.argmin(errors))
    return best if errors[best] < PAYS * errors[plain] else plain


def _summed_noise(i: int, rows: Sequence[GainRows]) -> Array:
    """Return the covariance (N, N) of the noise of joint ``i``, summed over all rows."""
    P, L = len(rows[0].which), len(rows) - 1
    result = np.zeros((P + PAYLOAD_PARAMETERS * L + 2,) * 2)
    for load, part in enumerate(rows):
        described = np.arange(P + 1)
        first = P + 1 + PAYLOAD_PARAMETERS * (load - 1)
        payload = np.arange(first, first + PAYLOAD_PARAMETERS) if load else np.arange(0)
        here = np.concatenate([described, payload, [len(result) - 1]])
        last = part.noise.shape[1] - 1
        taken = np.arange(last + 1) if load else np.append(described, last)
        result[np.ix_(here, here)] += len(part.torque) * part.noise[i][np.ix_(taken, taken)]
    return result


def _bounded_noise(
    noise: Array, columns: Array, friction: Array, payloads: Array
) -> tuple[Array, bool]:
    """Return the noise (N, N), bounded by the signal, and whether it hides torque or acceleration.

    The condition of total least squares has no solution if noise alone explains the columns. In
    each direction the result is therefore at most :data:`MOST_NOISE` of the signal. The noise
    hides torque or acceleration if its share in a combination of the two exceeds this bound.

    Args:
        noise: summed covariance of the noise of the columns, (N, N).
        columns: torque, its changes, and acceleration, (n, N).
        friction: columns of friction, whose space is removed from the signal, (n, F).
        payloads: assumed parameters of the payloads, (10 L,).
    """
    scale = np.sqrt((columns**2).sum(axis=0))
    weight = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > _FLAT * scale.max())
    left = (columns - friction @ _least_squares(friction, columns)) * weight
    noise = noise * np.outer(weight, weight)
    values, vectors = np.linalg.eigh(left.T @ left)
    used = values > _FLAT * values[-1]
    root = np.sqrt(values[used])
    whiten, colour = vectors[:, used] / root, vectors[:, used] * root
    shares, directions = np.linalg.eigh(whiten.T @ noise @ whiten)
    coloured = colour @ directions
    bounded = (coloured * np.minimum(shares, MOST_NOISE)) @ coloured.T
    # Torque with the assumed payloads, and acceleration.
    two = np.zeros((len(scale), 2))
    two[0, 0] = two[-1, 1] = 1.0
    two[len(scale) - 1 - payloads.size : -1, 0] = payloads
    two *= scale[:, None]
    seen = np.linalg.pinv(two.T @ left.T @ left @ two) @ (two.T @ noise @ two)
    is_hidden = float(np.abs(np.linalg.eigvals(seen)).max()) > MOST_NOISE
    return bounded * np.outer(scale, scale), is_hidden


_FLAT = 1e-12
"""Fraction of the largest signal below which a direction counts as without signal."""


def _least_squares(A: Array, b: Array) -> Array:
    return np.asarray(np.linalg.lstsq(A, b, rcond=None)[0])


def _start(theta: Array, joint: _Joint, known: tuple[float, float] | None) -> None:
    """Set gain, rotor and friction to the ordinary least-squares fit of this joint alone.

    A gain that is ``known``, with its standard error, is not fitted.
    """
    A, own = joint.jacobian(theta), slice(joint.first_own, None)
    gain, others = joint.unknowns[0], joint.unknowns[own]
    if known is None:
        found = _least_squares(np.column_stack([A[:, 0], A[:, own]]), joint.current)
        theta[gain], theta[others] = found[0], found[1:]
    else:
        theta[gain] = 1.0 / known[0]
        theta[others] = _least_squares(A[:, own], joint.current - theta[gain] * A[:, 0])


def _priors(
    theta: Array,
    nv: int,
    spread: Array,
    loads: Sequence[Prior],
    known: Mapping[int, tuple[float, float]],
) -> tuple[Array, Array]:
    """Return mean and precision of all unknowns; unknowns without prior have precision zero."""
    mean, precision = np.zeros(theta.size), np.zeros(theta.size)
    for i, (gain, error) in known.items():
        mean[i] = 1.0 / gain
        precision[i] = max(error / gain**2, EXACT / abs(gain)) ** -2.0
    first = nv + spread.size
    precision[nv:first] = spread**-2.0
    for prior in loads:
        here = slice(first, first + prior.mean.size)
        mean[here] = prior.mean
        exact = EXACT * np.maximum(np.abs(prior.mean), EXACT)
        precision[here] = np.maximum(prior.deviation, exact) ** -2.0
        first = here.stop
    return mean, precision


def _widening(corrections: Array, precision: Array, free: float) -> float:
    """Return the factor by which a prior must be widened for the corrections to fit it.

    Args:
        corrections: estimated corrections, (P,).
        precision: precisions of the stated prior, (P,).
        free: number of corrections that the data determine.
    """
    if free <= 0.0:
        return 1.0
    return max(1.0, float(np.sqrt(corrections**2 @ precision / free)))


def _normal(joints: Sequence[_Joint], theta: Array) -> tuple[Array, Array]:
    """Return the normal matrix and the score, weighted, without the priors."""
    normal, score = np.zeros((theta.size, theta.size)), np.zeros(theta.size)
    for joint in joints:
        J = joint.jacobian(theta)
        weight = joint.weight(theta, J)
        b, B = joint.coefficients(theta)
        normal[np.ix_(joint.unknowns, joint.unknowns)] += weight * (J.T @ J)
        normal[np.ix_(joint.noisy, joint.noisy)] -= weight * (B.T @ joint.noise @ B)
        score[joint.unknowns] += weight * (J.T @ joint.residual(theta, J))
        score[joint.noisy] += weight * (B.T @ joint.noise @ b)
    return normal, score


def _scores(joints: Sequence[_Joint], theta: Array) -> Array:
    """Return the weighted score of each row, without the priors, (n, size)."""
    rows = np.zeros((len(joints[0].current), theta.size))
    for joint in joints:
        J = joint.jacobian(theta)
        weight = joint.weight(theta, J)
        b, B = joint.coefficients(theta)
        rows[:, joint.unknowns] += weight * J * joint.residual(theta, J)[:, None]
        rows[:, joint.noisy] += weight * (B.T @ joint.noise @ b) / len(rows)
    return rows


def _variance(e: Array, unknowns: int, least: float) -> float:
    """Return the variance of a residual (n,) times the sum of its autocorrelation.

    Args:
        e: the residual.
        unknowns: number of unknowns that were fitted to it.
        least: variance that no residual falls below, for data without noise.
    """
    n, square = len(e), float(e @ e)
    if square <= n * least:
        return least
    total = 1.0
    for lag in range(1, int(LONGEST_CORRELATION * n) + 1):
        rho = float(e[lag:] @ e[:-lag]) / square
        if rho < 0.0:
            break
        total += 2.0 * rho
    return square / max(n - unknowns, 1) * total


def _errors(joints: Sequence[_Joint], theta: Array, precision: Array) -> Array:
    """Return the standard error (nv,) of each reciprocal gain, the larger of two estimates."""
    normal, _ = _normal(joints, theta)
    inverse = _inverse(normal + np.diag(precision))[:, : len(joints)]
    rows = _scores(joints, theta)
    sums = np.add.reduceat(rows @ inverse, np.arange(0, len(rows), BLOCK), axis=0)
    # Each unknown of a joint reduces the degrees of freedom by one block.
    blocks = len(sums)
    lost = min(1 + joints[0].own.shape[1], blocks - 1)
    sandwich = blocks / (blocks - lost) * (sums**2).sum(axis=0) + precision @ inverse**2
    return np.asarray(np.sqrt(np.maximum(np.diag(inverse), sandwich)))


def _inverse(A: Array) -> Array:
    """Invert a symmetric matrix whose rows differ in scale; rows of zeros stay zero."""
    scale = np.sqrt(np.maximum(np.diag(A), 0.0))
    used = scale > 0.0
    scale[~used] = 1.0
    found = np.linalg.pinv(A / np.outer(scale, scale), rcond=1e-13, hermitian=True)
    return np.asarray(found / np.outer(scale, scale))
