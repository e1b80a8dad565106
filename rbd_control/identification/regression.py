"""Friction and inertial corrections from contact-free motions, by least squares.

Without contact the momentum balance is zero: with ``x`` the mean external torque of a model without
friction over an interval,

    0 = x + friction(v) + (effect of the corrections of masses and centres of mass)

which is linear in the coefficients of friction and, to first order, in the corrections. Every
column of this regression passes the same low-pass filter, far slower than the noise of the velocity
and far faster than the motion. Joints are weighted by the inverse standard deviation of their
residual.

A joint that stuck for a part of the filter's memory may have carried any torque up to its static
friction, so that such a row says nothing about this joint.

The prior of a correction has the mean zero, and the standard deviation :data:`MASS_SPREAD` of the
body's mass, or :data:`COM_SPREAD` for the centre of mass. Corrections are kept only if
cross-validation improves: the motion is cut into :data:`FOLDS` parts, each part is predicted from
the others, and the error of these predictions must decrease. The inertia of rotors, which is not
negative, and the shape of friction are chosen joint by joint in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from rbd_control.dynamics import Model, momentum_terms
from rbd_control.errors import RecordingError
from rbd_control.estimation.observers import SecondOrderObserver
from rbd_control.identification.motion import RecordedMotion
from rbd_control.robot.friction import Friction, StribeckFriction
from rbd_control.robot.inertial_corrections import CORRECTIONS, ROTOR
from rbd_control.wording import listed

Array = NDArray[np.float64]

FILTER_GAIN = 20.0
"""Natural frequency of the second-order filter [1/s]; lower at low sample rates, see
:data:`PER_RATE`."""
PER_RATE = 0.3
"""Largest product of the filter's natural frequency and the sample period."""
SETTLING = 5.0
"""Number of time constants after which the initial state of the filter has decayed."""
SLOW = 0.02
"""Speed below which a joint is at rest [rad/s or m/s]."""
SMOOTHED = 0.04
"""Time over which this speed is averaged; coarse velocities of a slow joint are often zero [s]."""
MOVED = 0.8
"""Share of the filter's memory in which a joint moves in a row that is used. The fast reversals
that show the shape of the friction are used, too."""
FRICTION = StribeckFriction
"""Friction whose shapes the regressions of efforts and of drive gains try."""
LEAST_FADING = 0.05
"""Value of a field of friction without effect, such as ``stribeck_velocity`` for joints without a
Stribeck effect."""
FOLDS = 4
"""Number of parts of the motion for cross-validation; each is predicted from the others."""
PAYS = 0.95
"""Ratio to which the prediction error, as a geometric mean over the joints, must decrease for
corrections, or for another model of friction; and the ratio for the Stribeck effect of a joint."""
ROTOR_PAYS = 0.9
"""Ratio to which the prediction error of a joint must decrease for its rotor to be kept; delayed
torque and a wrong shape of a body have a similar effect."""
MASS_SPREAD = 0.03
"""Prior standard deviation of a body's mass, as a fraction of the mass."""
COM_SPREAD = 0.005
"""Prior standard deviation of a centre of mass along each axis [m]."""
LEAST_MASS = 0.5
"""Smallest corrected mass of a body without its payload, as a share of the described mass."""
IMPLAUSIBLE_MASS = 0.25
"""Share of the body's mass above which a mass correction is reported as implausible."""
IMPLAUSIBLE_SHIFT = 0.05
"""Shift of the centre of mass above which it is reported as implausible [m]."""
LEAST_SPREAD = 1e-4
"""Smallest standard deviation in the weights [N·m or N], for data without noise."""


@dataclass(frozen=True, eq=False)
class Identification:
    """Identified friction and corrections; arrays have one row or value per joint."""

    friction: Friction
    """The friction of the joints, of a model in :data:`~rbd_control.robot.friction.IDENTIFIED`."""
    corrections: Array
    """(nv, 5) mass [kg], x, y, z of the centre of mass [m] and rotor inertia [kg·m² or kg], to add
    to the description; zero if they were not kept."""
    uncorrected_error: Array
    """(nv,) RMS error of predictions of left-out motion with friction alone [N·m or N]."""
    error: Array
    """(nv,) RMS error of these predictions with the identified model [N·m or N]."""
    notes: tuple[str, ...]
    """Warnings about unidentified or implausible results."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of the linear regression, filtered and downsampled to n rows.

    Without contact ``x + friction c + inertia d = 0``, with the unknown friction coefficients c and
    the unknown corrections d. P is the number of corrections.
    """

    x: Array
    """Mean external torque of the described model without friction, (n, nv) [N·m or N]."""
    friction: Array
    """Torque per unit of each linear coefficient of the friction, for each of its shapes,
    (n, nv, shapes, c)."""
    inertia: Array
    """Mean external torque per unit of each correction, (n, nv, P)."""
    which: NDArray[np.int64]
    """(P, 2) joint (index in v) and column (index in ``CORRECTIONS``) of each correction."""
    spread: Array
    """(P,) prior standard deviation of each correction [kg or m]; infinite for rotors."""
    lowest: Array
    """(P,) lower bound of each correction [kg, m, kg·m² or kg]."""
    model: type[Friction]
    """The model of the friction, which has c linear coefficients."""
    moving: NDArray[np.bool_]
    """Whether a row says something about a joint, which did not stick, (n, nv)."""

    def rows(self, used: NDArray[np.bool_]) -> Columns:
        """Return the columns with only the rows that are True in ``used`` (n,)."""
        return replace(
            self,
            x=self.x[used],
            friction=self.friction[used],
            inertia=self.inertia[used],
            moving=self.moving[used],
        )

    def only(self, chosen: NDArray[np.bool_]) -> Columns:
        """Return the columns with only the corrections that are True in ``chosen`` (P,)."""
        return replace(
            self,
            inertia=self.inertia[:, :, chosen],
            which=self.which[chosen],
            spread=self.spread[chosen],
            lowest=self.lowest[chosen],
        )


def identify(columns: Columns, model: Model) -> Identification:
    """Identify friction and inertial corrections by least squares, as the module describes.

    Args:
        columns: columns of motions without contact, from :func:`filtered_columns` with the changes
            that :func:`~rbd_control.robot.inertial_corrections.variations` returns.
        model: the robot as described, without payload.
    """
    joint, column = columns.which.T
    bodies, rotors = column != ROTOR, column == ROTOR
    kept = columns.only(np.zeros_like(rotors))
    shapes = plain = _best_shapes(kept.x, kept)
    error = uncorrected = _prediction_error(kept, shapes)
    corrected = _tried(columns.only(bodies), shapes)
    pays = bool(np.exp(np.log(corrected[-1] / uncorrected).mean()) < PAYS)
    if pays:
        kept, shapes, error = corrected
    *_, geared = _tried(columns.only(bodies & pays | rotors), shapes)
    better = geared < ROTOR_PAYS * error
    if better.any():
        kept, shapes, _ = _tried(columns.only(bodies & pays | rotors & better[joint]), shapes)
    found = _fit(_Factors.together(_factors(kept, shapes)), kept)
    n = len(kept.which)
    corrections = np.zeros((model.nv, len(CORRECTIONS)))
    corrections[tuple(kept.which.T)] = found[:n]
    kind, shape = columns.model, {}
    for name in kind.shapes[0]:
        values = np.array([kind.shapes[index][name] for index in shapes])
        shape[name] = np.where(np.isnan(values), LEAST_FADING, values)
    notes = _implausible(model, corrections)
    if not pays:
        notes.append(
            "masses are taken as described: correcting them does not make other parts of the "
            "motion more predictable"
        )
    return Identification(
        friction=kind.identified(found[n:].reshape(model.nv, -1), shape),
        corrections=corrections,
        uncorrected_error=_prediction_error(
            columns.only(np.zeros_like(rotors)), plain, of_all=True
        ),
        error=_prediction_error(kept, shapes, of_all=True),
        notes=tuple(notes),
    )


def best_model(found: Iterable[Identification]) -> Identification:
    """Return the identification that predicts best; a later one must be clearly better."""
    best, *others = found
    for each in others:
        if np.exp(np.log(each.error / best.error).mean()) < PAYS:
            best = each
    return best


def _tried(columns: Columns, shapes: NDArray[np.int64]) -> tuple[Columns, NDArray[np.int64], Array]:
    """Return columns, and shapes of friction and prediction error with all their corrections."""
    found = _fit(_Factors.together(_factors(columns, shapes)), columns)
    # With corrected masses, another shape of friction may fit better.
    others = _best_shapes(columns.x + columns.inertia @ found[: len(columns.which)], columns)
    return columns, others, _prediction_error(columns, others)


def external_means(motion: RecordedMotion, model: Model) -> Array:
    """Return the mean external torque between successive samples; friction counts as external.

    Args:
        motion: k samples, ``tau`` as joint torque [N·m or N].
        model: the robot, with the gravity that ``tau`` contains.

    Returns:
        ``(p_k - p_(k-1)) / dt - mean of (tau + Cᵀ v - g)``, (k - 1, nv) [N·m or N].
    """
    p, CTv, g = momentum_terms(model, motion.q, motion.v)
    return np.diff(p, axis=0) / np.diff(motion.t)[:, None] - means(motion.tau + CTv - g)


def means(x: Array) -> Array:
    """Return the mean of ``x`` (k, ...) between successive rows, trapezoidal, (k - 1, ...)."""
    return np.asarray(0.5 * (x[1:] + x[:-1]))


def filtered_columns(
    motions: Sequence[RecordedMotion],
    model: Model,
    maximum_gap: float,
    changes: Sequence[tuple[int, int, Model]] = (),
    kind: type[Friction] = FRICTION,
    alone: Model | None = None,
) -> Columns:
    """Return the filtered columns of the regression: external torque, friction, corrections.

    Args:
        motions: motions without contact, ``tau`` as joint torque [N·m or N].
        model: the robot, with the gravity that ``tau`` contains.
        maximum_gap: longest time between two samples [s]; a longer gap divides a motion.
        changes: for each correction its joint, its column, and a robot that consists of this
            correction only, as :func:`~rbd_control.robot.inertial_corrections.variations` returns.
        kind: the model of the friction.
        alone: the robot without its payload, by default ``model``; of the masses of its bodies
            corrections leave at least :data:`LEAST_MASS`.

    Returns:
        The columns, thinned out to one row per time constant of the filter.

    Raises:
        RecordingError: if no part of a motion without gaps lasts ten time constants of the filter.
    """
    rows: list[tuple[Array, Array, Array, NDArray[np.bool_]]] = []
    for filtered in filtered_parts(motions, model, maximum_gap):
        part, thin = filtered.motion, filtered.thin
        x = thin(external_means(part, model))
        friction = np.zeros((*x.shape, len(kind.shapes), len(kind.linear)))
        for s, shape in enumerate(kind.shapes):
            for c, column in enumerate(kind.columns(part.v, shape)):
                if isinstance(column, float):
                    friction[:, :, s, c] = column
                else:
                    friction[:, :, s, c] = thin(means(column))
        still = replace(part, tau=np.zeros_like(part.tau))
        inertial = np.empty((*x.shape, len(changes)))
        for c, (_, _, change) in enumerate(changes):
            inertial[:, :, c] = thin(external_means(still, change))
        rows.append((x, friction, inertial, filtered.moving_share() > MOVED))
    x, friction, inertial, moving = (np.concatenate(column) for column in zip(*rows, strict=True))
    which = np.array([(i, c) for i, c, _ in changes], dtype=np.int64).reshape(-1, 2)
    mass, own = (each.arrays.mass[each.dof_row[which[:, 0]]] for each in (model, alone or model))
    spread = np.where(which[:, 1] == 0, MASS_SPREAD * mass, COM_SPREAD)
    spread[which[:, 1] == ROTOR] = np.inf
    lowest = np.where(which[:, 1] == 0, (LEAST_MASS - 1.0) * own, -np.inf)
    lowest[which[:, 1] == ROTOR] = 0.0
    return Columns(x, friction, inertial, which, spread, lowest, kind, moving)


def filtered_external(motions: Sequence[RecordedMotion], model: Model, maximum_gap: float) -> Array:
    """Return only ``x`` of the columns that :func:`filtered_columns` returns, (n, nv) [N·m or N].

    Raises:
        RecordingError: as :func:`filtered_columns`.
    """
    return np.concatenate(
        [
            part.thin(external_means(part.motion, model))
            for part in filtered_parts(motions, model, maximum_gap)
        ]
    )


@dataclass(frozen=True, eq=False)
class FilteredPart:
    """A part of a motion without gaps, and the filter that its signals pass."""

    motion: RecordedMotion
    """The part, k samples."""
    observer: SecondOrderObserver
    """The filter."""
    used: slice
    """Intervals between samples that are used: one per time constant, once the filter settled."""

    @property
    def t(self) -> Array:
        """Times of the used intervals, at their ends [s]."""
        return self.motion.t[1:][self.used]

    def thin(self, signal: Array) -> Array:
        """Return the filtered signal at :attr:`t`; ``signal`` (k - 1, nv) is between samples."""
        return self.observer.filter(np.diff(self.motion.t), signal)[self.used]

    def moving_share(self) -> Array:
        """Return the share of the filter's memory in which each joint moves, (n, nv)."""
        period = float(np.median(np.diff(self.motion.t)))
        steady = uniform_filter1d(self.motion.v, max(1, round(SMOOTHED / period)), axis=0)
        return self.thin(means((np.abs(steady) > SLOW).astype(float)))


def filtered_parts(
    motions: Sequence[RecordedMotion], model: Model, maximum_gap: float
) -> list[FilteredPart]:
    """Return the parts of motions without gaps that are long enough, each with its filter.

    Args:
        motions: motions, each with any number of samples.
        model: the robot.
        maximum_gap: longest time between two samples; a longer gap divides a motion [s].

    Raises:
        RecordingError: if there is no such part.
    """
    found: list[FilteredPart] = []
    for motion in motions:
        if motion.t.size < 2:
            continue
        period = float(np.median(np.diff(motion.t)))
        gain = min(FILTER_GAIN, PER_RATE / period)
        observer = SecondOrderObserver(model, gain)
        used = slice(round(SETTLING / (gain * period)), None, max(1, round(1.0 / (gain * period))))
        for part in motion.stretches(maximum_gap, 2.0 * SETTLING / gain):
            # No row is left if the samples of a long part are few and far between.
            if part.t.size - 1 > used.start:
                found.append(FilteredPart(part, observer, used))
    if not found:
        raise RecordingError(
            f"no stretch of {listed(motion.name for motion in motions)} is long enough to be used"
        )
    return found


@dataclass(frozen=True, eq=False)
class _Factors:
    """Triangular factors of regressions, which least squares needs instead of their rows.

    A regression has the rows A = [columns, x]. With A = Q R, the residual of coefficients c has the
    norm ``|A (c, 1)| = |R (c, 1)|``, and R has at most as many rows as columns.
    """

    R: Array
    """(nv, ..., r, k) the factors, one for each joint or joint and shape."""
    rows: Array
    """(nv,) number of rows of each regression."""

    @classmethod
    def of(cls, A: Array, moving: NDArray[np.bool_]) -> list[_Factors]:
        """Return the factors of each of :data:`FOLDS` parts of the rows.

        Args:
            A: the regressions, (n, nv, ..., k).
            moving: whether a row counts for a joint, (n, nv).
        """
        n = len(A)
        fold = np.arange(n) * FOLDS // n
        A = np.moveaxis(A * moving.reshape(*moving.shape, *[1] * (A.ndim - 2)), 0, -2)
        return [
            cls(_triangular(A[..., fold == part, :]), moving[fold == part].sum(axis=0))
            for part in range(FOLDS)
        ]

    @classmethod
    def together(cls, parts: Sequence[_Factors]) -> _Factors:
        """Return the factors of the rows of all parts."""
        R = np.concatenate([part.R for part in parts], axis=-2)
        return cls(_triangular(R), np.sum([part.rows for part in parts], axis=0))

    @classmethod
    def left_out(cls, parts: Sequence[_Factors]) -> Iterator[_Factors]:
        """Yield the factors of all parts but one together, for each part."""
        for k in range(len(parts)):
            yield cls.together([*parts[:k], *parts[k + 1 :]])

    def squares(self, coefficients: Array) -> Array:
        """Return the sum of the squared residuals, (...); coefficients are (..., k - 1)."""
        residual = self.R[..., :-1] @ coefficients[..., None] + self.R[..., -1:]
        return np.asarray(np.square(residual).sum(axis=(-2, -1)))


def _triangular(A: Array) -> Array:
    """Return the factor R of the decomposition A = Q R of each matrix, (..., min(n, k), k)."""
    R: Array = np.linalg.qr(A, mode="r")  # type: ignore[assignment]
    return R


def _factors(columns: Columns, shapes: NDArray[np.int64]) -> list[_Factors]:
    """Return the factors of each part of the rows: corrections, friction of this shape, x."""
    joints = np.arange(columns.x.shape[1])
    friction = columns.friction[:, joints, shapes]
    A = np.concatenate([columns.inertia, friction, columns.x[..., None]], axis=-1)
    return _Factors.of(A, columns.moving)


def _fit(factors: _Factors, columns: Columns) -> Array:
    """Return the coefficients: corrections, then friction joint by joint, (P + c nv,)."""
    from scipy.optimize import lsq_linear

    nv, r, _ = factors.R.shape
    P = len(columns.which)
    count = len(columns.model.linear)
    size = P + count * nv
    lower = np.full(size, -np.inf)
    lower[:P] = columns.lowest
    lower[P:].reshape(nv, count)[:] = columns.model.lowest
    prior = np.zeros((P, size))
    prior[:, :P] = np.diag(1.0 / columns.spread)
    # All joints share the corrections, and each has friction of its own.
    A = np.zeros((nv, r, size + 1))
    A[:, :, :P], A[:, :, -1] = factors.R[:, :, :P], -factors.R[:, :, -1]
    for i in range(nv):
        A[i, :, P + count * i :][:, :count] = factors.R[i, :, P:-1]
    weight = np.ones(nv)
    for _ in range(2):
        weighted = (A / weight[:, None, None]).reshape(-1, size + 1)
        R = _triangular(weighted)
        rows, b = np.vstack([R[:, :-1], prior]), np.append(R[:, -1], np.zeros(P))
        found = lsq_linear(rows, b, bounds=(lower, np.inf), method="bvls").x
        mean = factors.squares(_by_joint(found, P, nv)) / np.maximum(factors.rows, 1)
        weight = np.maximum(np.sqrt(mean), LEAST_SPREAD)
    # A zero column, such as that of an absent Stribeck effect, does not determine its coefficient.
    found[~A[:, :, :-1].any(axis=(0, 1))] = 0.0
    return np.asarray(found)


def information(columns: Columns, noise: Array, shapes: NDArray[np.int64] | None = None) -> Array:
    """Return the information that :func:`identify` has about its coefficients.

    With the columns A_j of joint j, the standard deviation s_j of its rows and the prior standard
    deviations, it is ``sum over j of A_jᵀ A_j / s_j² + diag(1 / spread²)``. The inverse is the
    covariance of the coefficients, if no bound of a coefficient is active.

    Args:
        columns: the columns.
        noise: standard deviation of one filtered row of each joint, (nv,) [N·m or N].
        shapes: shape of the friction of each joint, (nv,); by default the first.

    Returns:
        (P + c nv, P + c nv): corrections, then the friction joint by joint.
    """
    _, nv, P = columns.inertia.shape
    c = columns.friction.shape[3]
    joints = np.arange(nv)
    chosen = np.zeros(nv, dtype=np.int64) if shapes is None else shapes
    friction = columns.friction[:, joints, chosen]
    result = np.diag(np.append(1.0 / np.square(columns.spread), np.zeros(c * nv)))
    for j in range(nv):
        A = np.hstack([columns.inertia[:, j], friction[:, j]])[columns.moving[:, j]] / noise[j]
        own = np.append(np.arange(P), P + c * j + np.arange(c))
        result[np.ix_(own, own)] += A.T @ A
    return result


def _by_joint(found: Array, P: int, nv: int) -> Array:
    """Return the coefficients of each joint: all P corrections, then its friction, (nv, P + c)."""
    return np.column_stack([np.tile(found[:P], (nv, 1)), found[P:].reshape(nv, -1)])


def _prediction_error(
    columns: Columns, shapes: NDArray[np.int64], *, of_all: bool = False
) -> Array:
    """Return the RMS error of the prediction of each part of the motion by the others, (nv,).

    Args:
        columns, shapes: of the model.
        of_all: whether rows in which a joint sticks are predicted as well, from those in which it
            does not.
    """
    nv = columns.x.shape[1]
    judged = replace(columns, moving=np.ones_like(columns.moving)) if of_all else columns
    squares, parts = np.zeros(nv), _factors(columns, shapes)
    wholes = _factors(judged, shapes) if of_all else parts
    for whole, others in zip(wholes, _Factors.left_out(parts), strict=True):
        squares += whole.squares(_by_joint(_fit(others, columns), len(columns.which), nv))
    rows = np.maximum(judged.moving.sum(axis=0), 1)
    return np.maximum(np.sqrt(squares / rows), LEAST_SPREAD)


def _best_shapes(x: Array, columns: Columns) -> NDArray[np.int64]:
    """Return the index in ``shapes`` of the friction that predicts ``x`` best, (nv,).

    A shape that is not simple, as a Stribeck effect, must reduce the error by a margin.
    """
    friction, kind = columns.friction, columns.model
    _, nv, count, _ = friction.shape
    A = np.concatenate(
        [friction, np.broadcast_to(x[:, :, None, None], (*friction.shape[:3], 1))], -1
    )
    error = np.zeros((nv, count))
    parts = _Factors.of(A, columns.moving)
    for part, others in zip(parts, _Factors.left_out(parts), strict=True):
        error += part.squares(_friction_alone(others, np.array(kind.lowest)))
    plain = np.argmin(error[:, : kind.simple], axis=1)
    best = np.argmin(error, axis=1)
    pays = error.min(axis=1) < PAYS**2 * error[np.arange(nv), plain]
    return np.where(pays, best, plain)


def _friction_alone(factors: _Factors, lowest: Array) -> Array:
    """Return the friction coefficients, at least ``lowest``, that fit each regression, (..., c).

    The coefficients that are at their bound of zero in the solution are unknown. For each choice of
    these, the others are a solution of linear equations. Of the solutions within the bounds the one
    with the smallest residual is the constrained least-squares solution.
    """
    A, x = factors.R[..., :-1], factors.R[..., -1:]
    scale = np.linalg.norm(A, axis=-2)
    scale[scale == 0.0] = 1.0  # a zero column, whose coefficient is zero
    A = A / scale[..., None, :]
    # The small diagonal makes the equations solvable if columns are zero or alike.
    normal = A.swapaxes(-1, -2) @ A + 1e-12 * np.eye(lowest.size)
    moment = -A.swapaxes(-1, -2) @ x
    best = np.zeros(scale.shape)
    least = np.full(scale.shape[:-1], np.inf)
    bounded = np.flatnonzero(np.isfinite(lowest))
    for at_zero in product((True, False), repeat=bounded.size):
        free = np.ones(lowest.size, dtype=bool)
        free[bounded[list(at_zero)]] = False
        coefficients = np.zeros(scale.shape)
        coefficients[..., free] = np.linalg.solve(
            normal[..., free, :][..., free], moment[..., free, :]
        )[..., 0]
        coefficients /= scale
        square = factors.squares(coefficients)
        is_better = (coefficients >= lowest).all(axis=-1) & (square < least)
        best[is_better], least[is_better] = coefficients[is_better], square[is_better]
    return best


def _implausible(model: Model, corrections: Array) -> list[str]:
    notes = []
    for i, (mass, *shift) in enumerate(corrections[:, :ROTOR]):
        link = model.joint_links[i - model.nv]
        whole = model.arrays.mass[model.dof_row[i]]
        distance = float(np.linalg.norm(shift))
        if abs(mass) > IMPLAUSIBLE_MASS * whole or distance > IMPLAUSIBLE_SHIFT:
            notes.append(
                f"the correction of {link} is {mass:+.2f} kg to a mass of {whole:.2f} kg, and "
                f"{1e3 * distance:.0f} mm to its centre of mass; check hand and payload, the unit "
                f"of the effort, and whether the URDF describes this arm"
            )
    return notes
