"""Gains of the drives from recorded currents, with standard errors.

**The equation of the drive currents as rows of a linear regression.**

Without contact, the current ``c`` of a joint obeys::

    K c = y(delta) + J a + friction(v)                                        [N·m or N]

with the gain ``K`` of the drive, the torque ``y`` of the model, corrections ``delta`` of its
inertial parameters, and the inertia ``J`` of motor and gear, which turns with the joint and which
robot descriptions lack. ``y`` is linear in ``delta`` and in the ten inertial parameters of a
payload. All columns pass the low-pass filter of :mod:`~rbd_control.identification.regression`.

The columns are noisy, because velocities are differentiated positions. Their noise is computed from
the velocity noise of the motion, which is estimated from fourth differences: the motion hardly
contributes to them.

**Gains of the drives with their standard errors, by weighted total least squares.**

For the filtered sample ``k`` of joint ``i`` under load ``l``, in units of the current::

    c = g_i y(delta, pi_l) + j_i a + friction_il + e        g_i = 1 / K_i,   j_i = J_i / K_i

The unknowns are ``g_i``, ``j_i``, the friction of each joint under each load, the corrections
``delta`` of the inertial parameters of the arm, and the ten inertial parameters ``pi_l`` of each
payload. ``delta``, ``pi_l`` and known gains have normal priors.

**Both sides are noisy.** ``e`` contains the noise of the currents and the torque that the model
lacks; its variance is that of the residual. ``y`` and ``a`` are sums of columns whose noise has the
known covariance ``Lambda_i``. For the
coefficients ``b_i = (g_i, g_i delta, g_i pi_l, j_i)`` of these columns, the sum

    sum (c - ...)² / (sigma_i² + b_iᵀ Lambda_i b_i)  +  the squares of the priors

is smallest where ``sum Jᵀ e / s_i² + n Bᵀ Lambda_i b_i / s_i² = 0``, with the Jacobians ``J`` of
the current and ``B`` of ``b_i``, and ``s_i²`` the mean square of the residual. Ordinary least
squares lacks the second term, and its gains are biased. Gauss-Newton steps solve the condition.

**Friction has errors.** Further columns of each joint, with normal priors, let friction grow with
the load of the gear (:data:`LOAD_FRICTION`) and change while the arm warms up
(:data:`FRICTION_CHANGE`). The standard errors contain these errors of the model, which more samples
do not reduce.

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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.identification.motion import RecordedMotion
from rbd_control.identification.regression import (
    FRICTION,
    PAYS,
    Columns,
    filtered_columns,
    filtered_external,
)
from rbd_control.robot.inertial_corrections import ROTOR, variations

Array = NDArray[np.float64]

_FOURTH = 70.0
"""Variance of the fourth difference of white noise of unit variance."""
_TO_DEVIATION = 1.4826
"""Standard deviation of normal noise, divided by its median absolute value."""
MASS_ERROR = 0.05
"""Prior standard deviation of the mass of a body, as a fraction of its mass in the description."""
LEVER = 0.2
"""Prior standard deviation of the centre of mass of a body along each axis, per relative error of
its mass [m]: 10 mm for 5 %."""
LOAD_FRICTION = 0.05
"""Prior standard deviation of the friction that grows with the load, as a share of the torque."""
FRICTION_CHANGE = 0.1
"""Prior standard deviation of the change of friction within half a recording, as a share of it."""
PAYLOAD_PARAMETERS = 10
"""Number of inertial parameters of a payload: mass, three first and six second moments."""


@dataclass(frozen=True, eq=False)
class GainRows:
    """The rows of the regression for one load: n filtered samples of motions without contact.

    A correction changes the mass [kg] or the centre of mass along one axis [m] of one body.
    """

    current: Array
    """Filtered effort as published (n, nv)."""
    torque: Array
    """Torque (n, nv) of the model as described, payload not included [N·m or N]."""
    corrections: Array
    """Change (n, nv, P) of the torque per unit of each correction [N·m or N per kg or m]."""
    which: NDArray[np.int64]
    """(P, 2) for each correction the index in v of the joint that moves the body, and the column of
    :data:`~rbd_control.robot.inertial_corrections.CORRECTIONS`."""
    spread: Array
    """Prior standard deviation (P,) of each correction [kg or m]."""
    payload: Array
    """Change (n, nv, 10) of the torque per unit of each inertial parameter of a payload [N·m or N
    per kg, kg·m or kg·m²], in the order of :func:`unit_loads`."""
    acceleration: Array
    """Acceleration (n, nv) of each joint [rad/s² or m/s²]; zero for a model with rotors."""
    friction: Array
    """Friction (n, nv, shapes, 4) per unit of each coefficient: Coulomb, viscous, offset and excess
    near standstill, for each of its shapes."""
    noise: Array
    """Covariance (nv, N, N) of the noise of ``torque``, ``corrections``, ``payload`` and
    ``acceleration``, N = P + 12 columns in this order, in the products of their units."""


def gain_rows(
    motions: Sequence[RecordedMotion],
    model: Model,
    maximum_gap: float,
    mass_error: float = MASS_ERROR,
) -> GainRows:
    """Return the rows of the regression that determines the drive gains, for one load.

    Args:
        motions: motions without contact, all with one load, ``tau`` the effort as published.
        model: the robot as described, without payload.
        maximum_gap: longest time between two samples; a longer gap divides a motion [s].
        mass_error: prior standard deviation of each mass, as a fraction of the mass. The prior
            standard deviation of each centre of mass is ``mass_error`` times :data:`LEVER` [m].

    Raises:
        RecordingError: when no part of the motions without gaps lasts ten time constants of the
            filter, which is 0.5 s, or more at sample rates below 67 Hz.
    """
    bodies = [change for change in variations(model) if change[1] != ROTOR]
    loads = [(0, 0, one) for one in unit_loads(model)]
    changes = [*bodies, *loads, *_unit_rotors(model)]
    still = [replace(m, tau=np.zeros_like(m.tau)) for m in motions]
    columns = filtered_columns(still, model, maximum_gap, changes)
    effort = columns.x - filtered_external(motions, model, maximum_gap)
    P, Q = len(bodies), len(bodies) + len(loads)
    return GainRows(
        current=effort,
        torque=columns.x,
        corrections=columns.inertia[:, :, :P],
        which=columns.which[:P],
        spread=np.where(
            columns.which[:P, 1] == 0,
            mass_error * model.arrays.mass[model.dof_row[columns.which[:P, 0]]],
            LEVER * mass_error,
        ),
        payload=columns.inertia[:, :, P:Q],
        acceleration=_diagonal(columns.inertia[:, :, Q:]),
        friction=columns.friction,
        noise=_noise(still, model, maximum_gap, columns, changes),
    )


def unit_loads(model: Model) -> list[Model]:
    """Return ten robots, each with one unit of one inertial parameter of the last body.

    All other inertial parameters are zero, so the torque of such a robot is the effect of one unit
    of this parameter of a payload. The order is mass, first moments x y z, second moments xx yy zz
    xy xz yz, about the origin and along the axes of the link that the last joint moves [kg, kg·m,
    kg·m²].
    """
    arrays, row = model.arrays, model.dof_row[-1]
    result = []
    for k in range(PAYLOAD_PARAMETERS):
        mass, first, second = (
            np.zeros_like(part) for part in (arrays.mass, arrays.first_moment, arrays.second_moment)
        )
        if k == 0:
            mass[row] = 1.0
        elif k < 4:
            first[row, k - 1] = 1.0
        else:
            i, j = _SECOND[k - 4]
            second[row, i, j] = second[row, j, i] = 1.0
        only = arrays._replace(mass=mass, first_moment=first, second_moment=second)
        result.append(replace(model, arrays=only))
    return result


_SECOND = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


def _unit_rotors(model: Model) -> list[tuple[int, int, Model]]:
    """Return a robot with a single rotor of 1 kg·m² (or kg) for each degree of freedom.

    The result is empty for a model with rotors of its own, to which no rotors can be added.
    """
    return [change for change in variations(model) if change[1] == ROTOR]


def _diagonal(columns: Array) -> Array:
    """Return the torque (n, nv) of each joint's own rotor; zero if there are no rotors."""
    n, nv, count = columns.shape
    if count == 0:
        return np.zeros((n, nv))
    result = np.zeros((n, nv))
    result[:, nv - count :] = np.einsum("kii->ki", columns[:, nv - count :])
    return result


def _noise(
    motions: Sequence[RecordedMotion],
    model: Model,
    maximum_gap: float,
    clean: Columns,
    changes: Sequence[tuple[int, int, Model]],
) -> Array:
    """Return the covariance (nv, N, N) of the noise of the columns of :class:`GainRows`.

    Noise of the size of the velocity noise is added to the velocities, and everything is computed
    again: the difference is a sample of the noise of the columns.
    """
    rng = np.random.default_rng(0)
    noisy = [replace(m, v=m.v + rng.normal(size=m.v.shape) * velocity_noise(m.v)) for m in motions]
    columns = filtered_columns(noisy, model, maximum_gap, changes)
    rotors = sum(column == ROTOR for _, column, _ in changes)
    both = [_side_by_side(one, rotors) for one in (columns, clean)]
    difference = both[0] - both[1]
    return np.asarray(np.einsum("kia,kib->iab", difference, difference) / len(difference))


def _side_by_side(columns: Columns, rotors: int) -> Array:
    """Return torque, its changes and acceleration as (n, nv, N); the rotor changes are the last."""
    count = columns.inertia.shape[2] - rotors
    acceleration = _diagonal(columns.inertia[:, :, count:])
    return np.concatenate(
        [columns.x[..., None], columns.inertia[:, :, :count], acceleration[..., None]], axis=2
    )


def velocity_noise(v: Array) -> Array:
    """Return the standard deviation of white noise in sampled velocities, from fourth differences.

    Args:
        v: velocities at equally spaced times, (k, nv) [rad/s or m/s].

    Returns:
        Standard deviations, (nv,) [rad/s or m/s]; zero for fewer than five samples.
    """
    if len(v) < 5:
        return np.zeros(v.shape[1])
    fourth = np.diff(v, n=4, axis=0)
    return np.asarray(_TO_DEVIATION * np.median(np.abs(fourth), axis=0) / np.sqrt(_FOURTH))


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
    """Acceleration, friction under each load, and errors of friction, (n, 1 + 5 (L + 1) + 1)."""
    free: int
    """Number of columns of ``own`` without a prior: all but the errors of friction."""
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
        return 1.0 / _variance(e, 1 + self.free, max(least, np.finfo(float).tiny))


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
    for joint in joints:
        # The columns of errors of friction are in units of their prior standard deviations.
        stated[joint.unknowns[joint.first_own + joint.free :]] = 1.0
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
    friction = np.stack([_friction(i, rows, shape) for shape in range(len(FRICTION.shapes))])
    described = torque + shared[:, shared.shape[1] - payloads.size :] @ payloads
    both = np.column_stack([described, acceleration])
    chosen = friction[_friction_shape(current, both, friction)]
    errors = _friction_errors(current, both, chosen, [len(part.torque) for part in rows])
    own = np.column_stack([acceleration, chosen, errors])
    noise, is_hidden = _bounded_noise(
        _summed_noise(i, rows), np.column_stack([torque, shared, acceleration]), chosen, payloads
    )
    size = rows[0].torque.shape[1] + shared.shape[1]
    places = size + i * own.shape[1] + np.arange(own.shape[1])
    unknowns = np.concatenate([[i], np.arange(size - shared.shape[1], size), places])
    free = own.shape[1] - errors.shape[1]
    return _Joint(current, torque, shared, own, free, noise, is_hidden, unknowns.astype(np.intp))


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
        count = len(FRICTION.linear)
        columns = np.zeros((len(part.torque), count * len(rows)))
        columns[:, count * load : count * (load + 1)] = part.friction[:, i, shape]
        parts.append(columns)
    return np.concatenate(parts)


def _friction_errors(
    current: Array, described: Array, friction: Array, sizes: Sequence[int]
) -> Array:
    """Return the columns (n, L + 2) of what friction may do that its model lacks, in prior errors.

    Friction grows with the load of the gear, by :data:`LOAD_FRICTION` of the torque, and changes
    by :data:`FRICTION_CHANGE` from the middle of the motion under a load to its ends.

    Args:
        current: measured current, (n,).
        described: torque and acceleration, (n, 2).
        friction: columns of friction, four for each load, (n, 4 (L + 1)).
        sizes: number of rows under each load.
    """
    found = _least_squares(np.column_stack([described, friction]), current)
    resistance = friction @ found[2:]
    direction = friction[:, :: len(FRICTION.linear)].sum(axis=1)
    columns = [LOAD_FRICTION * np.abs(found[0] * described[:, 0]) * direction]
    last = np.cumsum(sizes)
    for begin, end in zip(last - sizes, last, strict=True):
        change = np.zeros_like(current)
        change[begin:end] = FRICTION_CHANGE * np.linspace(-1.0, 1.0, end - begin)
        columns.append(change * resistance)
    return np.column_stack(columns)


def _friction_shape(current: Array, described: Array, friction: Array) -> int:
    """Return the index of the best shape of friction; a Stribeck effect must fit clearly better."""
    errors = []
    for columns in friction:
        A = np.column_stack([described, columns])
        errors.append(float(np.std(current - A @ _least_squares(A, current))))
    plain, best = int(np.argmin(errors[: FRICTION.simple])), int(np.argmin(errors))
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
    A, own = joint.jacobian(theta), slice(joint.first_own, joint.first_own + joint.free)
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
    lost = min(1 + joints[0].free, blocks - 1)
    sandwich = blocks / (blocks - lost) * (sums**2).sum(axis=0) + precision @ inverse**2
    return np.asarray(np.sqrt(np.maximum(np.diag(inverse), sandwich)))


def _inverse(A: Array) -> Array:
    """Invert a symmetric matrix whose rows differ in scale; rows of zeros stay zero."""
    scale = np.sqrt(np.maximum(np.diag(A), 0.0))
    used = scale > 0.0
    scale[~used] = 1.0
    found = np.linalg.pinv(A / np.outer(scale, scale), rcond=1e-13, hermitian=True)
    return np.asarray(found / np.outer(scale, scale))
