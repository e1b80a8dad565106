"""What explains the efforts of an arm: hypotheses, compared by their evidence.

A hypothesis says which effort each joint has published, and which causes add unknown numbers
``theta`` with normal priors to the equations of :mod:`~rbd_control.identification.evidence`::

    effort_i = s_i (need_i + X_i theta) + friction_i + error        error ~ N(0, sigma_i²)

Friction, errors of the described masses and centres of mass, and small errors of gains and times
are always unknown. Their priors bound what they may explain, so that an arm whose masses are some
per cent off needs no further cause. Two hypotheses are compared by the probability of the same
recorded efforts (their evidence, MacKay, *Bayesian Interpolation*, 1992)::

    log p(effort) = -½ sum_i n_i log sigma_i² - ½ chi² - ½ log det(1 + S A S) + constant

with the information matrix ``A`` and the priors' standard deviations ``S``. All misfits are those
of the efforts as they were recorded, so that a hypothesis with another unit gains nothing by making
numbers smaller; the determinant is the price of numbers that could have been anything. Residuals
are correlated in time, and ``n_i`` counts independent samples. The search is greedy: it accepts the
cause with the largest evidence until none gains :data:`LEAST_GAIN`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rbd_control.identification.evidence import Evidence

Array = NDArray[np.float64]

LEAST_GAIN = 3.0
"""Smallest increase of the logarithmic evidence by an accepted cause, after its price."""
LEAST_MISFIT = 0.05
"""Misfit that needs no explanation, as a share of the default contact threshold."""
STICTION = 0.3
"""Standard deviation of the static friction of a resting joint, as a share of this threshold.

It is beside that of a torque anywhere up to the Coulomb friction, whose variance is a third of its
square.
"""
COULOMB, VISCOUS, OFFSET = 1.5, 3.0, 0.15
"""Prior standard deviations of Coulomb friction [N·m or N], of viscous friction [N·m·s/rad or
N·s/m] and of a constant effort [N·m or N], as multiples of this threshold."""
SMALL_ROTOR = 0.05
"""Prior standard deviation of the inertia of a motor that every description lacks, per default
contact threshold [s²]: at 20 rad/s² it needs this threshold. All joints together look like a delay.
"""
GAIN_ERROR = 0.04
"""Prior standard deviation of the gain of a torque sensor or drive, as a share."""
TIME_ERROR, LATE = 0.002, 0.02
"""Prior standard deviations of a delay: one that every driver has, and one that is a cause [s]."""
SCALES = (0.75, 1.35)
"""Smallest and largest scale of an effort that errors of masses and gains explain."""
ALIKE = 0.5
"""Prior standard deviation of the scale of another unit, as a share of its first estimate."""
KNOWN = 0.25
"""Largest ratio of the standard error of a scale to its value."""
HEAVY, WIDE = 2.0, 0.2
"""Prior standard deviations of the mass of a payload [kg] and of its first moments [kg·m]."""
ANOTHER, SIZES = 0.3, (0.5, 2.0)
"""Prior standard deviation of the relative change of all masses together, and the smallest and
largest ratio of the torque of the arm to that of the description that it explains."""
FEW = 0.3
"""Share of the joints whose scales may differ from the one that masses or one gain cause."""
CHANGED = 0.3
"""Prior standard deviation of a change of friction, as a share."""
TILTED = 3.0
"""Prior standard deviation of the change of gravity across its direction [m/s²]: 18°."""
BIASED = 2.0
"""Prior standard deviation of a constant effort that is a cause, as a multiple of the default
contact threshold."""
ROTOR = 0.3
"""Prior standard deviation of a rotor inertia that the description lacks [kg·m² or kg]."""
CORRELATION = (2.0, 40.0)
"""Least and largest number of successive samples that count as one."""
USUAL = 10.0
"""The same number for motions that are compared with each other."""
CORRELATED = 0.05
"""Autocorrelation of the residual below which samples are independent."""
MOST_CAUSES = 12
"""Largest number of accepted causes."""
ROUNDS = 8
"""Number of alternate estimates of the unknowns and of the standard deviations of the errors."""
LEAST_NEED = 1e-6
"""RMS torque below which a column is rounding error [N·m or N per unit]."""


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """What the efforts are, and what may explain them."""

    effort: Array
    """(nv, K) the published effort of each joint as a combination of its columns."""
    scale: Array
    """(nv,) effort per torque; 1 for efforts as declared."""
    terms: tuple[str, ...]
    """Names of the unknowns, see :class:`Unknowns`."""
    causes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """The accepted causes: kind, and the indices in v of the joints concerned, none for all."""

    def has(self, kind: str, joint: int | None = None) -> bool:
        """Return whether a cause of this kind is accepted, for a joint or for any."""
        return any(k == kind and (joint is None or joint in joints) for k, joints in self.causes)

    def joints(self, kind: str) -> tuple[int, ...]:
        """Return the joints of all causes of a kind, in the order in which they were accepted."""
        return tuple(joint for k, joints in self.causes if k == kind for joint in joints)


@dataclass(frozen=True, eq=False)
class Fit:
    """The estimates of a hypothesis."""

    hypothesis: Hypothesis
    evidence: float
    """Logarithm of the evidence."""
    rows: NDArray[np.int64]
    """Indices of the unknowns in :class:`Unknowns`."""
    theta: Array
    """The unknowns."""
    covariance: Array
    """Their covariance."""
    sigma: Array
    """(nv,) standard deviation of the error of each joint, in the unit of the effort."""


class Unknowns:
    """All unknowns of an arm: their columns, in the layout of the evidence, and their priors.

    Args:
        evidence: the evidence; its layout and ``spread`` are used.
        level: default contact threshold of each joint, (nv,) [N·m or N].

    Attributes:
        columns: (P, nv, K) the columns of each unknown.
        spread: (P,) prior standard deviation; scales have :attr:`Hypothesis.scale` instead.
        rows: indices of the unknowns by name.
        scaled: (P,) whether the unknown acts behind the scale of the effort.
    """

    def __init__(self, evidence: Evidence, level: Array) -> None:
        L, nv = evidence.layout, evidence.layout.nv
        self.rows: dict[str, NDArray[np.int64]] = {}
        self._columns: list[Array] = []
        self._spread: list[float] = []
        unit = np.eye(L.size)
        size = float(np.linalg.norm(evidence.field)) or 1.0

        def shared(name: str, rows: Array, spread: Array | list[float]) -> None:
            self._add(name, np.repeat(rows[:, None, :], nv, axis=1), spread)

        def own(name: str, i: int, rows: Array, spread: Array | list[float]) -> None:
            columns = np.zeros((len(rows), nv, L.size))
            columns[:, i] = rows
            self._add(name, columns, spread)

        shared("masses", unit[L.masses], evidence.spread)
        for i in range(nv):
            own(
                f"friction {i}",
                i,
                unit[L.friction],
                level[i] * np.array([COULOMB, VISCOUS, OFFSET]),
            )
            own(f"small rotor {i}", i, unit[[L.rotor]], [SMALL_ROTOR * level[i]])
            own(f"gain {i}", i, unit[[L.need]], [GAIN_ERROR])
            own(f"scale {i}", i, unit[[L.need]], [1.0])
            own(f"rotor {i}", i, unit[[L.rotor]], [ROTOR])
            own(f"offset {i}", i, unit[[L.friction.stop - 1]], [BIASED * level[i]])
        effort_late, velocity_late = unit[[L.late.start]], -unit[L.late].sum(axis=0)[None]
        for name, spread in (("", TIME_ERROR), ("cause ", LATE)):
            shared(f"{name}effort late", effort_late, [spread])
            shared(f"{name}velocity late", velocity_late, [spread])
        shared("friction since", unit[[L.resistance]], [CHANGED])
        shared("payload", unit[L.payload], [HEAVY, WIDE, WIDE, WIDE])
        shared("all masses", unit[[L.need]], [ANOTHER])
        across = np.linalg.svd(evidence.field[None] / size)[2][1:]
        shared("tilt", across @ unit[L.field], [TILTED, TILTED])
        self.across = across
        self.columns = np.concatenate(self._columns)
        self.spread = np.array(self._spread)
        behind = np.zeros(self.spread.size, dtype=bool)
        for name, rows in self.rows.items():
            behind[rows] = not name.startswith(("scale", "friction", "offset"))
        self.scaled = behind

    @staticmethod
    def always(nv: int) -> tuple[str, ...]:
        """Return the names of the unknowns of every hypothesis."""
        each = (f"{kind} {i}" for i in range(nv) for kind in ("friction", "small rotor", "gain"))
        return ("masses", *each, "effort late", "velocity late")

    def of(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        """Return the indices of the unknowns with these names."""
        return np.concatenate([self.rows[name] for name in names])

    def _add(self, name: str, columns: Array, spread: Array | list[float]) -> None:
        self.rows[name] = np.arange(len(columns)) + len(self._spread)
        self._columns.append(columns)
        self._spread.extend(spread)


class Cause:
    """A kind of cause.

    Attributes:
        kind: its name.
        price: decrease of the logarithmic evidence, for what is rarely wrong with an arm.
        exchanges: whether it compares joints with the efforts of others.
    """

    kind: ClassVar[str]
    price: ClassVar[float] = 1.0
    exchanges: ClassVar[bool] = False

    @staticmethod
    def options(search: Search, fit: Fit) -> Iterator[Hypothesis]:
        """Yield the hypotheses that add this cause to the one of ``fit``."""
        raise NotImplementedError


def _with(h: Hypothesis, kind: str, joints: tuple[int, ...], *terms: str) -> Hypothesis:
    return replace(h, terms=(*h.terms, *terms), causes=(*h.causes, (kind, joints)))


class Scale(Cause):
    """The effort of a joint, or of several, is in another unit or has the wrong sign."""

    kind, price = "scale", 2.0

    @staticmethod
    def options(search: Search, fit: Fit) -> Iterator[Hypothesis]:  # noqa: D102 - as the base
        known, common = search.known_scales(fit.hypothesis), search.common_scale(fit.hypothesis)
        scales = _unlike(known, 1.0)
        if common is not None and len(_unlike(known, common)) < FEW * len(known):
            # Masses, or one gain, explain what most joints share.
            scales = _unlike(known, common)
        groups = [{i: scale} for i, scale in scales.items()]
        # A joint at rest tells its sign, if it carries more than its static friction.
        groups += [
            {i: -1.0}
            for i in search.joints
            if not (i in known or fit.hypothesis.has("scale", i)) and search.is_loaded(i)
        ]
        if len(scales) > 1:
            # The drives of an arm share a unit, which small torques of wrists do not determine.
            usual = float(np.median(list(scales.values())))
            unknown = [
                i for i in search.joints if not (i in known or fit.hypothesis.has("scale", i))
            ]
            alike = scales | dict.fromkeys(unknown, usual)
            groups += [scales, alike] if len(alike) > len(scales) else [scales]
        for group in groups:
            h = _with(fit.hypothesis, "scale", tuple(group), *(f"scale {i}" for i in group))
            scale = h.scale.copy()
            for i, value in group.items():
                scale[i] = value
            yield replace(h, scale=scale)


def _unlike(scales: dict[int, tuple[float, float]], common: float) -> dict[int, float]:
    """Return the scales that errors of masses and gains do not explain beside a common one.

    Their own standard errors, twice, do not explain them either.
    """
    return {
        i: x
        for i, (x, error) in scales.items()
        if x + 2.0 * error < SCALES[0] * common or x - 2.0 * error > SCALES[1] * common
    }


class Gravity(Cause):
    """The effort lacks the gravity torque, or includes it although it is declared not to."""

    # Some errors of masses beside a small effort imitate it.
    kind, price = "gravity", 5.0

    @staticmethod
    def options(search: Search, fit: Fit) -> Iterator[Hypothesis]:  # noqa: D102 - as the base
        h = _with(fit.hypothesis, "gravity", ())
        effort = h.effort.copy()
        effort[:, search.layout.weight] += 1.0 if search.has_gravity else -1.0
        yield replace(h, effort=effort)


class Payload(Cause):
    """The arm carries a payload at the last link, or lacks a hand that is described."""

    kind, price = "payload", 0.0

    @staticmethod
    def options(search: Search, fit: Fit) -> Iterator[Hypothesis]:  # noqa: ARG004, D102
        yield _with(fit.hypothesis, "payload", (), "payload")


class Masses(Cause):
    """All masses are those of another arm, or of another version of it.

    The torque of the arm is ``1 + theta`` times that of the description. The gain of all efforts
    does the same to this torque, and changes friction too; see :meth:`Search.friction_ratio`.
    """

    kind, price = "all masses", 3.0

    @staticmethod
    def options(search: Search, fit: Fit) -> Iterator[Hypothesis]:  # noqa: D102 - as the base
        if search.common_scale(fit.hypothesis) is not None:
            yield _with(fit.hypothesis, "all masses", (), "all masses")


class Tilt(Cause):
    """The base is tilted against the description."""

    kind, price = "tilt", 3.0

    @staticmethod
    def options(search: Search, fit: Fit) -> Iterator[Hypothesis]:  # noqa: D102 - as the base
        if search.evidence.field.any():
            yield _with(fit.hypothesis, "tilt", (), "tilt")


class FrictionSince(Cause):
    """The friction of all joints has changed, if the friction of the parameters counts since then.

    It is for evidence whose earlier samples have none, see
    :class:`~rbd_control.identification.diagnosis.PayloadWatch`.
    """

    kind, price = "friction since", 0.0

    @staticmethod
    def options(search: Search, fit: Fit) -> Iterator[Hypothesis]:  # noqa: D102 - as the base
        if search.evidence.columns[..., search.layout.resistance].any():
            yield _with(fit.hypothesis, "friction since", (), "friction since")


class Rotor(Cause):
    """The description lacks the inertia of the motor and gear of a joint."""

    kind, price = "rotor", 1.0

    @staticmethod
    def options(search: Search, fit: Fit) -> Iterator[Hypothesis]:  # noqa: D102 - as the base
        for i in search.joints:
            if not fit.hypothesis.has("rotor", i):
                yield _with(fit.hypothesis, "rotor", (i,), f"rotor {i}")


class Offset(Cause):
    """The effort of a joint has a constant part, as of a sensor that has drifted."""

    kind, price = "offset", 1.0

    @staticmethod
    def options(search: Search, fit: Fit) -> Iterator[Hypothesis]:  # noqa: D102 - as the base
        for i in search.joints:
            if not fit.hypothesis.has("offset", i):
                yield _with(fit.hypothesis, "offset", (i,), f"offset {i}")


class EffortLate(Cause):
    """The effort is later than the velocity."""

    kind, price = "effort late", 2.0

    @staticmethod
    def options(search: Search, fit: Fit) -> Iterator[Hypothesis]:  # noqa: ARG004, D102
        if not fit.hypothesis.has("velocity late"):
            yield _with(fit.hypothesis, "effort late", (), "cause effort late")


class VelocityLate(Cause):
    """The velocity is later than effort and position."""

    kind, price = "velocity late", 2.0

    @staticmethod
    def options(search: Search, fit: Fit) -> Iterator[Hypothesis]:  # noqa: ARG004, D102
        if not fit.hypothesis.has("effort late"):
            yield _with(fit.hypothesis, "velocity late", (), "cause velocity late")


class SwappedEfforts(Cause):
    """The efforts of two joints are exchanged."""

    kind, price, exchanges = "swapped efforts", 5.0, True

    @staticmethod
    def options(search: Search, fit: Fit) -> Iterator[Hypothesis]:  # noqa: D102 - as the base
        swapped = fit.hypothesis.joints("swapped efforts")
        for i, j in combinations(search.joints, 2):
            if i not in swapped and j not in swapped:
                h = _with(fit.hypothesis, "swapped efforts", (i, j))
                effort = h.effort.copy()
                effort[[i, j]] = effort[[j, i]]
                yield replace(h, effort=effort)


CAUSES: tuple[type[Cause], ...] = (
    Scale,
    Gravity,
    Payload,
    Masses,
    Tilt,
    Rotor,
    Offset,
    EffortLate,
    VelocityLate,
    SwappedEfforts,
)
"""The causes that are searched for."""

_REPEATED = ("scale", "rotor", "offset", "swapped efforts")


class Search:
    """Compares hypotheses about the efforts in one motion.

    Args:
        evidence: the evidence of the motion.
        level: default contact threshold of each joint, (nv,) [N·m or N].
        alive: joints whose effort is measured, (nv,).
        has_gravity: whether the declared effort includes the gravity torque.
        causes: causes that are searched for.
    """

    def __init__(
        self,
        evidence: Evidence,
        level: Array,
        alive: NDArray[np.bool_],
        *,
        has_gravity: bool = True,
        causes: tuple[type[Cause], ...] = CAUSES,
    ) -> None:
        self.evidence, self.layout, self.has_gravity = evidence, evidence.layout, has_gravity
        self.joints: list[int] = np.flatnonzero(alive).tolist()
        self.unknowns = Unknowns(evidence, level)
        self._causes, self._level, self._alive = causes, level, alive
        self._nv = self.layout.nv
        self._is_scale = np.zeros(self.unknowns.spread.size, dtype=bool)
        for i in range(self._nv):
            self._is_scale[self.unknowns.rows[f"scale {i}"]] = True
        # The rests of a joint are a channel of their own, with static friction as their error.
        moving, resting = evidence.grams()
        self._gram = np.concatenate([moving, resting])
        self._samples = evidence.moving.sum(axis=0).astype(float)
        self._rests = evidence.rest.sum(axis=0)
        self._alike = np.full(self._nv, USUAL)
        each = self.unknowns.columns.transpose(1, 0, 2)
        both = np.concatenate([each, each])
        self._products = both @ self._gram
        self._information = self._products @ both.swapaxes(1, 2)

    def base(self) -> Hypothesis:
        """Return the hypothesis that the arm and its efforts are as described."""
        effort = np.eye(self.layout.size)[: self._nv]
        return Hypothesis(effort, np.ones(self._nv), Unknowns.always(self._nv))

    def run(self) -> Generator[None, None, Fit]:
        """Yield after each hypothesis, and return the fit of the most probable one."""
        best = self.fit(self.base())
        best = self._again(best)
        while len(best.hypothesis.causes) < MOST_CAUSES:
            options: list[tuple[float, Fit]] = []
            for cause in self._causes:
                if cause.kind not in _REPEATED and best.hypothesis.has(cause.kind):
                    continue
                for option in cause.options(self, best):
                    fit = self.fit(option)
                    gain = fit.evidence - best.evidence
                    if cause.exchanges:
                        # Residuals correlated in time count less, also those of another joint.
                        same = self.comparable(option) - self.comparable(best.hypothesis)
                        gain = min(gain, same)
                    options.append((gain - cause.price, fit))
                    yield
            gain, found = max(options, key=lambda option: option[0], default=(0.0, best))
            if gain < LEAST_GAIN:
                break
            best = self._again(found)
        return best

    def gain(self, fit: Fit, cause: type[Cause]) -> tuple[float, Fit]:
        """Return the gain of evidence by one more cause, after its price, and the fit with it."""
        fits = [self.fit(option) for option in cause.options(self, fit)]
        best = max(fits, key=lambda one: one.evidence)
        return best.evidence - cause.price - fit.evidence, best

    def without(self, fit: Fit, cause: type[Cause]) -> Fit:
        """Return the fit without a cause of all joints, whose unknowns have the same name."""
        h = fit.hypothesis
        terms = tuple(name for name in h.terms if name != cause.kind)
        causes = tuple(each for each in h.causes if each[0] != cause.kind)
        return self.fit(replace(h, terms=terms, causes=causes))

    def values(self, fit: Fit, name: str) -> tuple[Array, Array]:
        """Return the estimates of the unknowns with a name, and their standard errors."""
        here = np.isin(fit.rows, self.unknowns.rows[name])
        return fit.theta[here], np.sqrt(np.diag(fit.covariance)[here])

    def friction(self, fit: Fit, i: int) -> tuple[Array, Array]:
        """Return Coulomb and viscous friction and constant effort of a joint, and their errors.

        They are in N·m or N, N·m·s/rad or N·s/m, and N·m or N, (3,) each.
        """
        values, errors = self.values(fit, f"friction {i}")
        if fit.hypothesis.has("offset", i):
            values[2] += float(self.values(fit, f"offset {i}")[0][0])
        return values, errors

    def resistance(self, fit: Fit, i: int) -> tuple[float, float]:
        """Return the mean torque of friction against the motion of a joint, and its error.

        It is negative if the friction in the effort drives the joint [N·m or N].
        """
        L = self.layout
        columns = self.evidence.columns[self.evidence.moving[:, i], i]
        if not len(columns):
            return 0.0, np.inf
        size = np.abs(columns[:, L.friction]).mean(axis=0) * (1.0, 1.0, 0.0)
        here = np.isin(fit.rows, self.unknowns.rows[f"friction {i}"])
        error = np.sqrt(size @ fit.covariance[np.ix_(here, here)] @ size)
        return float(size @ fit.theta[here]), float(error)

    def payload(self, fit: Fit) -> tuple[Array, Array]:
        """Return the payload of a fit, (m, m x, m y, m z) [kg, kg·m], and its standard errors."""
        return self.values(fit, "payload")

    def rotor(self, fit: Fit, i: int) -> float:
        """Return the rotor inertia that the description of a joint lacks [kg·m² or kg]."""
        return float(
            sum(self.values(fit, f"{name} {i}")[0][0] for name in ("small rotor", "rotor"))
        )

    def field(self, fit: Fit) -> tuple[Array, float]:
        """Return the gravity vector of a fit, (3,) [m/s²], and the error of its direction [rad]."""
        change, error = self.values(fit, "tilt")
        size = float(np.linalg.norm(self.evidence.field))
        return self.evidence.field + change @ self.unknowns.across, float(error.max()) / size

    def size(self, fit: Fit) -> tuple[float, float]:
        """Return the torque of the arm per torque of the description, and its standard error."""
        (change,), (error,) = self.values(fit, "all masses")
        return 1.0 + float(change), float(error)

    def friction_ratio(self, fit: Fit) -> tuple[float, float] | None:
        """Return the friction in the efforts per friction of the parameters, and its error.

        Median over the joints whose friction the parameters have and the motion determines, and
        the standard error of that median; None for fewer than three.
        """
        L, unit = self.layout, np.eye(self.layout.size)
        ratios = []
        for i in self.joints:
            need = unit[L.need] + self._explained(fit, i)
            beside = np.vstack([need, unit[L.friction.stop - 1]])
            ratio, error = self._regressed(fit.hypothesis.effort[i], unit[L.resistance], i, beside)
            if error < KNOWN * abs(ratio):
                ratios.append(ratio)
        if len(ratios) < 3:
            return None
        median = float(np.median(ratios))
        spread = 1.4826 * float(np.median(np.abs(np.array(ratios) - median)))
        return median, 1.2533 * spread / float(np.sqrt(len(ratios)))

    def scale(self, h: Hypothesis, i: int) -> tuple[float, float]:
        """Return the effort of a joint per torque of the model beside friction, and its error.

        Args:
            h: the hypothesis; what it explains of the torque is not used.
            i: index of the joint in v.
        """
        L = self.layout
        return self._regressed(h.effort[i], np.eye(L.size)[L.need], i)

    def is_loaded(self, i: int) -> bool:
        """Return whether a joint rests under torque that static friction hardly carries."""
        square = self._gram[self._nv + i, self.layout.need, self.layout.need]
        return bool(square > self._rests[i] * (STICTION * self._level[i]) ** 2)

    def known_scales(self, h: Hypothesis) -> dict[int, tuple[float, float]]:
        """Return the scales that the motion determines, by joint, without those of causes.

        Each comes with its standard error.
        """
        found = {i: self.scale(h, i) for i in self.joints if not h.has("scale", i)}
        return {i: known for i, known in found.items() if known[1] < KNOWN * abs(known[0])}

    def common_scale(self, h: Hypothesis) -> float | None:
        """Return the median scale of the joints if masses of another arm may cause it, or None.

        A driver that subtracts gravity uses masses of its own, and there is none either.
        """
        known = [scale for scale, _ in self.known_scales(h).values()]
        if not known or not self.has_gravity or h.has("gravity"):
            return None
        common = float(np.median(known))
        return common if SIZES[0] < common < SIZES[1] else None

    def scale_after(self, fit: Fit, i: int) -> tuple[float, float]:
        """Return the same with the torque that the causes of a fit add to the need of the arm."""
        need = np.eye(self.layout.size)[self.layout.need] + self._explained(fit, i)
        return self._regressed(fit.hypothesis.effort[i], need, i)

    def residual(self, fit: Fit) -> Array:
        """Return what a fit leaves of the efforts, (n, nv), in their unit."""
        y, D = self._equations(fit.hypothesis, fit.rows)
        left = y - np.einsum("p,pik->ik", fit.theta - self._mean(fit), D)
        return np.asarray(np.einsum("nik,ik->ni", self.evidence.columns, left))

    def projected(self) -> tuple[Array, Array]:
        """Return torque of the described arm and effort, (n, nv) each, without friction's part."""
        L, columns = self.layout, self.evidence.columns
        need, effort = np.empty((2, *columns.shape[:2]))
        for i in range(self._nv):
            friction = columns[:, i, L.friction]
            both = columns[:, i][:, [L.need, i]]
            left = both - friction @ np.linalg.lstsq(friction, both, rcond=None)[0]
            need[:, i], effort[:, i] = left.T
        return need, effort

    def fit(self, h: Hypothesis) -> Fit:
        """Return the estimates of a hypothesis and its evidence."""
        nv, rows = self._nv, self.unknowns.of(h.terms)
        factors = np.where(self.unknowns.scaled[rows], 1.0, 0.0)
        # (nv, P): behind the scale, the scale itself, and friction in the unit of the effort.
        behind = h.scale[:, None] * factors + (1.0 - factors)
        friction = (factors == 0.0) & ~self._is_scale[rows]
        behind = np.where(friction, np.abs(h.scale)[:, None], behind)
        behind = np.concatenate([behind, behind])
        spread, mean = self._spread(h, rows), self._prior_mean(h, rows)
        fixed = self._fixed(h)
        y = np.concatenate([fixed, fixed])
        A = self._information[:, rows[:, None], rows] * behind[:, :, None] * behind[:, None, :]
        b = np.einsum("ipk,ik->ip", self._products[:, rows], y) * behind - A @ mean
        yy = np.einsum("ik,ikl,il->i", y, self._gram, y)
        yy += mean @ (A @ mean[:, None])[:, :, 0].T - 2.0 * (b + A @ mean) @ mean
        size = np.abs(h.scale)
        least = (LEAST_MISFIT * self._level * size) ** 2
        following_static = stiction = (STICTION * self._level * size) ** 2
        coulomb = [self.unknowns.rows[f"friction {i}"][0] for i in range(nv)]
        dry = np.array([np.flatnonzero(rows == row)[0] for row in coulomb])
        alike = np.concatenate([self._alike, np.ones(nv)])
        n = self._samples / self._alike
        alive = np.concatenate([self._alive, self._alive])
        following = np.maximum(yy[:nv] / np.maximum(self._samples, 1.0), least)
        for _ in range(ROUNDS):
            variance, static = following, following_static
            w = alive / (alike * np.concatenate([variance, variance + static]))
            H = np.tensordot(w, A, 1)
            covariance = np.linalg.inv(np.eye(spread.size) + (spread[:, None] * H) * spread)
            covariance = (spread[:, None] * covariance) * spread
            theta = covariance @ (w @ b)
            left = (
                yy - 2.0 * b @ theta + (A @ theta) @ theta + np.einsum("ipq,qp->i", A, covariance)
            )
            following = (least + np.maximum(left[:nv], 0.0) / self._alike) / (1.0 + n)
            following_static = stiction + np.square(size * theta[dry]) / 3.0
        _, logdet = np.linalg.slogdet(np.eye(spread.size) + (spread[:, None] * H) * spread)
        chi = float(w @ yy - (w @ b) @ theta)
        of_errors = n * np.log(variance) + np.log(variance / least) + least / variance
        of_errors += self._rests * np.log(variance + static)
        sigma = np.asarray(np.sqrt(variance), float)
        evidence = -0.5 * (chi + logdet + float(of_errors[self._alive].sum()))
        return Fit(h, evidence, rows, theta + mean, np.asarray(covariance, float), sigma)

    def comparable(self, h: Hypothesis) -> float:
        """Return the logarithmic evidence of a hypothesis, to compare it with other evidence.

        It assumes the usual correlation in time instead of that of the residuals.
        """
        alike, self._alike = self._alike, np.full(self._nv, USUAL)
        evidence = self.fit(h).evidence
        self._alike = alike
        return evidence

    def _again(self, fit: Fit) -> Fit:
        """Return the fit with the correlation of its own residuals in time."""
        for i, e in enumerate(self.residual(fit).T):
            e = np.where(self.evidence.moving[:, i], e, 0.0)
            square, total = float(e @ e), 1.0
            for lag in range(1, e.size // 4):
                rho = float(e[lag:] @ e[:-lag]) / square if square else 0.0
                if rho < CORRELATED:
                    break
                total += 2.0 * rho
            self._alike[i] = np.clip(total, *CORRELATION)
        return self.fit(fit.hypothesis)

    def _fixed(self, h: Hypothesis) -> Array:
        """Return the efforts less the torque of the described arm, as combinations of columns.

        A joint whose scale is a cause has the whole effort; its torque is an unknown then.
        """
        need = np.zeros((self._nv, self.layout.size))
        need[:, self.layout.need] = h.scale
        need[list(h.joints("scale"))] = 0.0
        return h.effort - need

    def _equations(self, h: Hypothesis, rows: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return the known part (nv, K) and the columns (P, nv, K) of the equations."""
        D = self.unknowns.columns[rows]
        scaled = self.unknowns.scaled[rows]
        friction = ~scaled & ~self._is_scale[rows]
        D = D * np.where(scaled[:, None], h.scale, 1.0)[:, :, None]
        D = D * np.where(friction[:, None], np.abs(h.scale), 1.0)[:, :, None]
        y = self._fixed(h) - np.einsum("p,pik->ik", self._prior_mean(h, rows), D)
        return y, D

    def _mean(self, fit: Fit) -> Array:
        return self._prior_mean(fit.hypothesis, fit.rows)

    def _prior_mean(self, h: Hypothesis, rows: NDArray[np.int64]) -> Array:
        """Return the prior means of the unknowns: zero, but a first estimate for scales."""
        mean = np.zeros(self.unknowns.spread.size)
        for i in h.joints("scale"):
            mean[self.unknowns.rows[f"scale {i}"]] = h.scale[i]
        return mean[rows]

    def _spread(self, h: Hypothesis, rows: NDArray[np.int64]) -> Array:
        spread = self.unknowns.spread.copy()
        for i in h.joints("scale"):
            spread[self.unknowns.rows[f"scale {i}"]] = ALIKE * abs(h.scale[i])
        return spread[rows]

    def _explained(self, fit: Fit, i: int) -> Array:
        """Return the torque that the causes of a fit add for a joint, (K,)."""
        names = [
            name
            for name in fit.hypothesis.terms
            if not name.startswith(("scale", "friction", "offset"))
        ]
        here = np.isin(fit.rows, self.unknowns.of(tuple(n for n in names if n != f"gain {i}")))
        return np.asarray(fit.theta[here] @ self.unknowns.columns[fit.rows[here], i])

    def _regressed(
        self, effort: Array, of: Array, i: int, beside: Array | None = None
    ) -> tuple[float, float]:
        """Return the coefficient of ``of`` (K,) in the effort (K,), and its error.

        It is beside the coefficients of ``beside`` (m, K), by default friction.
        """
        L, G = self.layout, self._gram[i]
        X = np.vstack([of, np.eye(L.size)[L.friction] if beside is None else beside])
        A, b = X @ G @ X.T, X @ (G @ effort)
        size = np.sqrt(np.maximum(np.diag(A), 0.0))
        if size[0] ** 2 <= self._samples[i] * LEAST_NEED**2:
            return 0.0, np.inf
        size[size == 0.0] = 1.0
        inverse = np.linalg.pinv(A / np.outer(size, size), rcond=1e-9) / np.outer(size, size)
        found = inverse @ b
        left = max(float(effort @ G @ effort - b @ found), 0.0)
        variance = left / self._samples[i] * self._alike[i]
        return float(found[0]), float(np.sqrt(variance * max(inverse[0, 0], 0.0)))
