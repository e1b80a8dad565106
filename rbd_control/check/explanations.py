"""Errors of the description or of the efforts that explain what a recording shows.

**The evidence of a recording about the arm, as columns of linear equations.**

Over a motion without contact the effort of joint ``i`` obeys, filtered and sampled once per time
constant of the filter::

    effort_i = need_i + friction_i c_i + error        need = inertial torque + gravity torque

``need`` is the torque of the model, and ``c_i`` the unknown coefficients of friction. Each possible
error of the description adds columns: an inertia ``J`` of motor and gear adds ``rotor J``, a
gravity vector ``g`` adds ``gravity g``, a payload adds ``payload θ`` with
``θ = (m, m x, m y, m z)``. Friction (Coulomb, viscous, constant) is always unknown, so all columns
of a joint are projected onto the orthogonal complement of its friction columns. The projection of
``effort - need`` is the misfit.

**Explanations of the misfit of a recording by errors of the arm's description or its efforts.**

The evidence is a linear regression of the efforts. The
misfit is the RMS effort that neither model nor friction explains. Every explanation changes the
evidence: it divides an effort by a scale, exchanges the efforts or the names of two joints, adds a
rotor inertia or a payload, turns the gravity vector, or adds or subtracts the gravity torque. The
search is greedy. It accepts the explanation with the largest reduction of the cost::

    cost = sum over joints of log(misfit² + floor²)

minus a penalty for every fitted number, and repeats the search with the changed evidence.
Logarithms make the search independent of units and prevent a joint with large errors from hiding
the others; ``floor`` is small compared with contact thresholds. Fitted numbers must be significant;
scales, payloads and tilts must also be large enough.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.identification.effort_scale import SHAPE, stray_bounds
from rbd_control.identification.mismatch import unit_payloads
from rbd_control.identification.motion import RecordedMotion, in_range
from rbd_control.identification.regression import filtered_columns
from rbd_control.robot.inertial_corrections import ROTOR as ROTOR_COLUMN
from rbd_control.robot.inertial_corrections import variations

Array = NDArray[np.float64]

RATE = 125.0
"""Lowest rate to which samples are thinned out; the result is below twice this rate [Hz].

Slower recordings are not thinned out. The filter passes nothing above 20 rad/s.
"""


EFFORT, NEED, ROTOR, GRAVITY, PAYLOAD = 0, 1, 2, slice(3, 6), slice(6, 10)
"""Indices of the columns on the last axis of ``raw`` and ``free`` of :class:`Evidence`."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Columns of a linear regression of the efforts of ``nv`` joints, over n filtered samples.

    The columns are effort and torque of the model [N·m or N, if the effort is a torque], and the
    torques of a unit rotor inertia, gravity and payload (see the properties).

    The properties are *projected*: the part that the joint's own friction could explain, the span
    of ``friction``, has been subtracted from the column, so that friction cannot hide an error.

    Attributes:
        raw: effort, need, rotor, gravity (3) and payload (4), (n, nv, 10).
        friction: sign of the velocity, velocity, and one, (n, nv, 3).
        bases: orthonormal columns that span ``friction``, (n, nv, 3).
        free: ``raw`` without the part that friction can explain, (n, nv, 10).
        field: gravity vector in ``need``, in the frame of the root, (3,) [m/s²].
    """

    raw: Array
    friction: Array
    bases: Array
    free: Array
    field: Array

    @classmethod
    def of(cls, raw: Array, friction: Array, field: Array) -> Evidence:
        """Return the evidence of these columns; see the attributes of the same names."""
        bases = _bases(friction)
        return cls(raw, friction, bases, _project(bases, raw), field)

    @property
    def effort(self) -> Array:
        """Projected effort, (n, nv) [N·m or N if the effort is a torque]."""
        return np.asarray(self.free[..., EFFORT])

    @property
    def need(self) -> Array:
        """Projected torque that the model needs, (n, nv) [N·m or N]."""
        return np.asarray(self.free[..., NEED])

    @property
    def rotor(self) -> Array:
        """Projected torque that a rotor inertia of 1 kg·m² (or kg) at each joint would need.

        Shape (n, nv) [N·m or N].
        """
        return np.asarray(self.free[..., ROTOR])

    @property
    def gravity(self) -> Array:
        """Projected gravity torque of 1 m/s² along each axis of the root, (n, nv, 3) [N·m or N]."""
        return np.asarray(self.free[..., GRAVITY])

    @property
    def payload(self) -> Array:
        """Projected torque that a payload at the last link would need, (n, nv, 4) [N·m or N].

        The columns belong to 1 kg at the origin of the link, and to first moments of 1 kg·m along
        x, y and z.
        """
        return np.asarray(self.free[..., PAYLOAD])

    @property
    def misfit(self) -> Array:
        """RMS (nv,) of the part that neither model nor friction explains [N·m or N]."""
        return rms(self.effort - self.need)

    def with_effort(self, effort: Array) -> Evidence:
        """Return the evidence with another recorded effort, (n, nv).

        It is stored as given, and without the part that friction explains.
        """
        return self._with(EFFORT, effort)

    def with_need(self, need: Array, field: Array | None = None) -> Evidence:
        """Return the evidence with another torque, and optionally another gravity, of the model.

        Args:
            need: torque that the model needs for the motion, (n, nv) [N·m or N]. It is stored as
                given, and without the part that friction explains.
            field: gravity vector of the model (3,) [m/s²].

        Returns:
            The evidence; all other columns are kept.
        """
        changed = self._with(NEED, need)
        return changed if field is None else replace(changed, field=field)

    def rows(self, kept: NDArray[np.bool_]) -> Evidence:
        """Return the evidence of the samples that are True in ``kept`` (n,)."""
        return Evidence.of(self.raw[kept], self.friction[kept], self.field)

    def _with(self, column: int, values: Array) -> Evidence:
        raw, free = self.raw.copy(), self.free.copy()
        raw[..., column] = values
        free[..., column] = _project(self.bases, values[..., None])[..., 0]
        return replace(self, raw=raw, free=free)


def gather(motions: Sequence[RecordedMotion], model: Model, maximum_gap: float) -> Evidence:
    """Filter motions and return the columns of the regression of their efforts.

    Samples with outlying efforts are left out.

    Args:
        motions: motions, ``tau`` as joint torque [N·m or N], or in the unit of the driver.
        model: the robot.
        maximum_gap: longer times between samples [s] divide a motion into parts.

    Raises:
        RecordingError: if no part is long enough for the filter, 0.5 s at usual rates.
    """
    field = np.array(model.arrays.gravity, dtype=float)
    variants = [model, *(_in_field(model, axis) for axis in (np.zeros(3), *np.eye(3)))]
    thinned = [motion for motion in map(_thinned, motions) if motion.t.size > 1]
    # Thinning lengthens the time between samples, which must not count as a gap.
    spacings = [float(np.median(np.diff(motion.t))) for motion in thinned]
    columns = filtered_columns(
        thinned,
        model,
        max([maximum_gap, *(1.5 * spacing for spacing in spacings)]),
        [(0, 0, one) for one in (*variants, *unit_payloads(model), *_unit_rotors(model))],
    )
    need, weightless = columns.inertia[..., 0], columns.inertia[..., 1]
    # The external torque decreases by the torque of the motor.
    turning = columns.inertia[..., 9:]
    # No rotors can be added to a model that has rotors already.
    rotor = np.einsum("nii->ni", turning) if turning.size else np.zeros_like(need)
    own = np.stack([need - columns.x, need, rotor], axis=-1)
    gravity = columns.inertia[..., 2:5] - weightless[..., None]
    raw = np.concatenate([own, gravity, columns.inertia[..., 5:9]], axis=-1)
    return Evidence.of(raw, columns.friction[:, :, SHAPE, :3], field)


def rms(x: Array) -> Array:
    """Return the root mean square over the first axis."""
    return np.asarray(np.sqrt((x**2).mean(axis=0)))


def _project(bases: Array, x: Array) -> Array:
    """Return columns x (n, nv, m) without their projection onto ``bases`` (n, nv, 3)."""
    inside = np.einsum("nif,nim->ifm", bases, x)
    return np.asarray(x - np.einsum("nif,ifm->nim", bases, inside))


def _bases(friction: Array) -> Array:
    """Return orthonormal columns (n, nv, 3) that span each joint's friction; zero if dependent."""
    bases = np.zeros_like(friction)
    for i in range(friction.shape[1]):
        u, size, _ = np.linalg.svd(friction[:, i], full_matrices=False)
        kept = size > 1e-9 * max(float(size[0]), 1e-12)
        bases[:, i, : kept.sum()] = u[:, kept]
    return bases


def _in_field(model: Model, field: Array) -> Model:
    """Return the robot in another field of gravity (3,) [m/s²]."""
    return replace(model, arrays=model.arrays._replace(gravity=np.array(field, dtype=float)))


def _unit_rotors(model: Model) -> list[Model]:
    """Return robots without bodies, each with a rotor of 1 kg·m² (or kg) at one joint."""
    return [change for _, column, change in variations(model) if column == ROTOR_COLUMN]


def _thinned(motion: RecordedMotion) -> RecordedMotion:
    """Return the motion at a lower rate, without outlying efforts and samples out of range."""
    bad = np.abs(motion.tau) > stray_bounds(motion.tau)
    motion = motion.only(in_range(motion) & ~bad.any(axis=1))
    if motion.t.size < 2:
        return motion
    step = max(1, int(1.0 / (RATE * max(float(np.median(np.diff(motion.t))), 1e-6))))
    return RecordedMotion(
        motion.name, *(x[::step] for x in (motion.t, motion.q, motion.v, motion.tau))
    )


Result = TypeVar("Result")

FLOOR = 0.05
"""Misfit that needs no explanation, as a fraction of the default contact threshold."""
RELEVANT = 0.06
"""Misfit that at least one joint must exceed to start a search, as a fraction of the threshold."""
PRICE = 0.4
"""Penalty of every number that an explanation fits, in units of the cost; the explanation gravity
counts as one number, an exchange of two joints as two."""
GAIN = 1.0
"""Smallest reduction of the cost, after the penalty, by an accepted explanation."""
SIGNIFICANT = 4.0
"""Smallest ratio of a fitted number to its standard deviation."""
INFORMATIVE = 1e-12
"""Smallest eigenvalue of a normalised information matrix, relative to its largest one, at which the
samples determine the combination of coefficients along its eigenvector."""
UNIT_SCALES = (0.75, 1.35)
"""Smallest and largest scale of effort that friction, a payload or inaccurate masses explain."""
EXPLAINED = 0.5
"""Largest misfit after a scale is applied, as a fraction of the effort."""
LEAST_MASS = 0.15
"""Smallest payload that is reported [kg]."""
LEAST_TILT = 2.0
"""Smallest tilt that is reported [deg]."""
FIELDS = (0.7, 1.4)
"""Bounds of the length of a fitted gravity vector, as multiples of the model's."""
LEAST_NEED = 1e-6
"""RMS torque of the model below which it is rounding error [N·m or N]; also the torque per kg and
kg·m of a payload, and per m/s² of gravity."""
MOST = 12
"""Largest number of explanations."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """One explanation of the misfit."""

    kind: str
    """``scale`` (unit or sign of efforts), ``rotor`` (missing inertia), ``gravity`` (included in
    the effort or not), ``payload``, ``tilt`` (of the base), ``swapped effort`` or
    ``swapped joints`` (efforts or names of two joints exchanged)."""
    joints: tuple[int, ...]
    """Indices in v of the joints concerned; empty for the whole arm."""
    values: Array
    """The fitted numbers: scales, rotor inertias [kg·m² or kg], payload (m, m x, m y, m z)
    [kg, kg·m], or the gravity vector [m/s²]; empty for the other kinds."""
    evidence: Evidence
    """The evidence after this explanation is applied."""
    price: float
    """Penalty of the fitted numbers, which is subtracted from the reduction of the cost."""


def explain_in_steps(
    evidence: Evidence,
    level: Array,
    alive: NDArray[np.bool_],
    exchanged: Callable[[int, int], Evidence | None],
    *,
    has_gravity: bool = True,
) -> Generator[None, None, tuple[tuple[Explanation, ...], Evidence]]:
    """Search the explanations of the misfit; yield after each explanation that was tried.

    The caller can thus divide the computation. Exchanged names of joints are tried in the first
    step only, if no other explanation removes the misfit, and without a yield between them.

    Args:
        evidence: evidence of the recording.
        level: default contact threshold of each joint, (nv,) [N·m or N].
        alive: joints whose effort is measured, (nv,).
        exchanged: returns the evidence of the recording with the names of two joints, given by
            their indices in v, exchanged; None if there is no evidence.
        has_gravity: whether the declared effort includes the gravity torque.

    Returns:
        The explanations in the order of the search, and the evidence after them.
    """
    found: list[Explanation] = []
    while len(found) < MOST and _matters(evidence, level, alive):
        floor = np.maximum(FLOOR * level, 1e-9)
        options = []
        for option in _options(evidence, floor, alive, found, has_gravity):
            options.append(option)
            yield
        best = _best(options, evidence, floor, alive)
        if not found and (best is None or _matters(best.evidence, level, alive)):
            # Last, because every pair of joints needs the dynamics of the whole recording.
            options += list(_swapped_joints(exchanged, alive))
            best = _best(options, evidence, floor, alive)
        if best is None:
            break
        found.append(best)
        evidence = best.evidence
    return tuple(found), evidence


def finish(steps: Generator[None, None, Result]) -> Result:
    """Run a generator to its end and return its return value."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("Result", end.value)


def payload_fit(evidence: Evidence, alive: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return the payload at the last link that explains the efforts best.

    Args:
        evidence: the filtered samples.
        alive: joints whose effort counts, (nv,).

    Returns:
        Mass and first moments (m, m x, m y, m z) [kg, kg·m], and their standard deviations, (4,)
        each.
    """
    return _pooled(evidence.payload, evidence.effort - evidence.need, alive)


def field_fit(evidence: Evidence, alive: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return the gravity vector that explains the efforts best, and its standard deviations.

    Args:
        evidence: the filtered samples.
        alive: joints whose effort counts, (nv,).

    Returns:
        Both (3,), in the frame of the root [m/s²].
    """
    change, deviation = _pooled(evidence.gravity, evidence.effort - evidence.need, alive)
    return evidence.field + change, deviation


def tilt(field: Array, model_field: Array) -> float:
    """Return the angle between two gravity vectors [deg]; NaN where one is zero."""
    size = float(np.linalg.norm(field) * np.linalg.norm(model_field))
    if size == 0.0:
        return float("nan")
    cosine = float(np.clip(field @ model_field / size, -1.0, 1.0))
    return float(np.degrees(np.arccos(cosine)))


def tilt_deviation(deviation: Array, model_field: Array) -> float:
    """Return the standard deviation of the direction of a gravity vector [deg].

    Only the components across ``model_field`` count; infinite if one of them is not determined.

    Args:
        deviation: standard deviations of the components of the gravity vector, (3,) [m/s²].
        model_field: gravity vector of the model, (3,) [m/s²], not zero.
    """
    size = float(np.linalg.norm(model_field))
    share = 1.0 - (model_field / size) ** 2
    counted = share > 1e-9  # noqa: PLR2004 - rounding
    return float(np.degrees(np.sqrt((share[counted] * deviation[counted] ** 2).sum()) / size))


def scale_fit(evidence: Evidence, i: int) -> tuple[float, float, float]:
    """Fit the effort of one joint by a multiple of the model's torque.

    Args:
        evidence: the filtered samples.
        i: index of the joint in v.

    Returns:
        The scale (effort per torque of the model), its standard deviation, and the RMS effort that
        the fit leaves; scale 0 with an infinite deviation if the model needs no torque.
    """
    need, effort = evidence.need[:, i], evidence.effort[:, i]
    power = float(need @ need)
    if power <= need.size * LEAST_NEED**2:
        return 0.0, float("inf"), float(np.sqrt((effort**2).mean()))
    scale = float(effort @ need) / power
    left = effort - scale * need
    return scale, float(np.sqrt(_variance(left) / power)), float(np.sqrt((left**2).mean()))


def _matters(evidence: Evidence, level: Array, alive: NDArray[np.bool_]) -> bool:
    return bool((evidence.misfit > RELEVANT * level)[alive].any())


def _best(
    options: list[Explanation], evidence: Evidence, floor: Array, alive: NDArray[np.bool_]
) -> Explanation | None:
    """Return the option with the largest reduction of the cost; None if no reduction suffices."""
    before = _cost(evidence, floor, alive)
    gains = [before - _cost(o.evidence, floor, alive) - o.price for o in options]
    if not gains or max(gains) < GAIN:
        return None
    return options[int(np.argmax(gains))]


def _cost(evidence: Evidence, floor: Array, alive: NDArray[np.bool_]) -> float:
    return float(np.log(evidence.misfit**2 + floor**2)[alive].sum())


def _options(
    evidence: Evidence,
    floor: Array,
    alive: NDArray[np.bool_],
    found: list[Explanation],
    has_gravity: bool,
) -> Iterator[Explanation]:
    """Yield every explanation of the present evidence, except swapped names of joints."""
    known = {one.kind for one in found}
    yield from _scales(evidence, alive)
    yield from _rotors(evidence, alive)
    if "gravity" not in known:
        weight = evidence.raw[..., GRAVITY] @ evidence.field
        effort = evidence.raw[..., EFFORT] + (weight if has_gravity else -weight)
        changed = evidence.with_effort(effort)
        yield Explanation("gravity", (), np.empty(0), changed, PRICE)
    if "payload" not in known:
        yield from _payload(evidence, alive)
    if "tilt" not in known:
        yield from _tilt(evidence, alive)
    for i, j in combinations(np.flatnonzero(alive), 2):
        if np.maximum(evidence.misfit[i], evidence.misfit[j]) > 4.0 * max(floor[i], floor[j]):
            effort = evidence.raw[..., EFFORT].copy()
            effort[:, [i, j]] = effort[:, [j, i]]
            changed = evidence.with_effort(effort)
            yield Explanation("swapped effort", (int(i), int(j)), np.empty(0), changed, 2.0 * PRICE)


def _scales(evidence: Evidence, alive: NDArray[np.bool_]) -> Iterator[Explanation]:
    """Yield an explanation for each joint with another unit or sign, and one for all of them."""
    joints, scales = [], []
    for i in np.flatnonzero(alive):
        scale, deviation, left = scale_fit(evidence, int(i))
        size = float(np.sqrt((evidence.effort[:, i] ** 2).mean()))
        known = abs(scale) > SIGNIFICANT * deviation and left < EXPLAINED * size
        if known and not UNIT_SCALES[0] <= scale <= UNIT_SCALES[1]:
            joints.append(int(i))
            scales.append(scale)
    groups = [([i], [s]) for i, s in zip(joints, scales, strict=True)]
    if len(joints) > 1:
        groups.append((joints, scales))
    for rows, values in groups:
        effort = evidence.raw[..., EFFORT].copy()
        effort[:, rows] /= np.array(values)
        changed = evidence.with_effort(effort)
        yield Explanation("scale", tuple(rows), np.array(values), changed, PRICE * len(rows))


def _rotors(evidence: Evidence, alive: NDArray[np.bool_]) -> Iterator[Explanation]:
    """Yield each significant inertia of motor and gear that a joint lacks in the description."""
    for i in np.flatnonzero(alive):
        turn = evidence.rotor[:, i]
        power = float(turn @ turn)
        if power <= 0.0:
            continue
        wanted = evidence.effort[:, i] - evidence.need[:, i]
        inertia = float(wanted @ turn) / power
        if inertia > SIGNIFICANT * np.sqrt(_variance(wanted - inertia * turn) / power):
            need = evidence.raw[..., NEED].copy()
            need[:, i] += inertia * evidence.raw[:, i, ROTOR]
            changed = evidence.with_need(need)
            yield Explanation("rotor", (int(i),), np.array([inertia]), changed, PRICE)


def _payload(evidence: Evidence, alive: NDArray[np.bool_]) -> Iterator[Explanation]:
    theta, deviation = payload_fit(evidence, alive)
    if abs(theta[0]) > max(LEAST_MASS, SIGNIFICANT * float(deviation[0])):
        changed = evidence.with_need(evidence.raw[..., NEED] + evidence.raw[..., PAYLOAD] @ theta)
        yield Explanation("payload", (), theta, changed, 4.0 * PRICE)


def _tilt(evidence: Evidence, alive: NDArray[np.bool_]) -> Iterator[Explanation]:
    if not evidence.field.any():
        return
    field, deviation = field_fit(evidence, alive)
    size = float(np.linalg.norm(evidence.field))
    across = tilt_deviation(deviation, evidence.field)
    angle, ratio = tilt(field, evidence.field), float(np.linalg.norm(field)) / size
    if angle > max(LEAST_TILT, SIGNIFICANT * across) and FIELDS[0] < ratio < FIELDS[1]:
        need = evidence.raw[..., NEED] + evidence.raw[..., GRAVITY] @ (field - evidence.field)
        changed = evidence.with_need(need, field)
        yield Explanation("tilt", (), field, changed, 3.0 * PRICE)


def _swapped_joints(
    exchanged: Callable[[int, int], Evidence | None], alive: NDArray[np.bool_]
) -> Iterator[Explanation]:
    for i, j in combinations(np.flatnonzero(alive), 2):
        evidence = exchanged(int(i), int(j))
        if evidence is not None:
            pair = (int(i), int(j))
            yield Explanation("swapped joints", pair, np.empty(0), evidence, 2.0 * PRICE)


def _pooled(features: Array, wanted: Array, alive: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return the least-squares solution over all joints, each weighted by its inverse RMS error.

    Args:
        features: (n, nv, m).
        wanted: (n, nv).
        alive: joints that count, (nv,).

    Returns:
        Coefficients (m,), and their standard deviations (m,): infinite where the samples do not
        determine the coefficient.
    """
    features, wanted = features[:, alive], wanted[:, alive]
    # A lever that is rounding error measures nothing: normalised, it would look like any other.
    features = np.where((rms(features) > LEAST_NEED).any(axis=0), features, 0.0)
    spread = np.maximum(rms(wanted), 1e-9)
    theta = np.zeros(features.shape[-1])
    for _ in range(5):
        A = (features / spread[:, None]).reshape(-1, features.shape[-1])
        theta = np.asarray(np.linalg.lstsq(A, (wanted / spread).ravel(), rcond=None)[0])
        left = wanted - features @ theta
        spread = np.maximum(rms(left), 1e-9)
    inflated = max(_variance(column) / max(float(column.var()), 1e-18) for column in left.T)
    return theta, np.sqrt(_variances(A) * inflated)


def _variances(A: Array) -> Array:
    """Return the variance of each least-squares coefficient for errors of variance 1.

    ``diag((Aᵀ A)⁻¹)``, infinite for a coefficient with a part in the null space of ``A``.

    Args:
        A: (n, m).
    """
    length = np.linalg.norm(A, axis=0)
    unit = np.where(length > 0.0, length, 1.0)
    size, axes = np.linalg.eigh((A / unit).T @ (A / unit))
    known = size > INFORMATIVE * max(float(size[-1]), 1e-300)
    variance = (axes[:, known] ** 2 / size[known]).sum(axis=1) / unit**2
    lost = (axes[:, ~known] ** 2).sum(axis=1)
    return np.asarray(np.where(lost > INFORMATIVE, np.inf, variance))


def _variance(x: Array) -> float:
    """Return the variance of samples, increased for their correlation in time."""
    centred = x - x.mean()
    variance = float((centred**2).mean())
    if variance == 0.0:
        return 0.0
    correlation = float((centred[1:] * centred[:-1]).mean()) / variance
    correlation = min(max(correlation, 0.0), 0.95)
    return variance * (1.0 + correlation) / (1.0 - correlation)
