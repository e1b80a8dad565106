"""Comparison of observers on one arm by the delay with which they detect contacts.

All observers use the same friction. The thresholds of each observer are proportional to its largest
residuals in a contact-free motion, and just high enough that other contact-free motions raise no
alarm. Observers are then compared by their delays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bench.contacts.arms import arm
from bench.contacts.episode import Episode, simulate
from bench.contacts.plant import PERIOD, Plant
from bench.contacts.touch import draw, end_of
from rbd_control.dynamics import Model
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.identification import RecordedMotion, calibrate

OTHERS = 3
"""Number of contact-free motions in which no alarm may be raised."""
SETTLED = 0.5
"""Time at the start of a motion in which residuals are ignored [s]."""
MARGIN = 1.05
"""Ratio of the thresholds to the largest residuals in motions without contact."""
LATE = 0.05
"""Longest time after the end of a contact in which a rising flag still belongs to it [s]."""
GAINS = {
    "momentum": (25.0, 50.0, 100.0, 200.0),
    "second_order": (100.0, 200.0, 300.0, 400.0),
    "kalman": (3.0, 10.0, 20.0, 30.0),
}
"""Candidate values of observer_gain [1/s], or of torque_drift in torque noises per √s."""
DAMPINGS = (1.0, 0.7)


@dataclass(frozen=True)
class Candidate:
    """An observer with its tuning.

    ``observer``, ``gain`` and ``damping`` are the detector's parameters ``observer``,
    ``observer_gain`` [1/s] and ``observer_damping``; for the Kalman observer ``gain`` is
    ``torque_drift`` in torque noises per √s. ``statistic`` selects whether the statistic of the
    residuals of all joints raises the flag as well.
    """

    observer: str
    gain: float
    damping: float = 1.0
    statistic: bool = False

    @property
    def name(self) -> str:
        """Name of the candidate in the table."""
        unit = "" if self.observer == "kalman" else "/s"
        damping = f", damping {self.damping}" if self.observer == "second_order" else ""
        return f"{self.observer} {self.gain:g}{unit}{damping}"


@dataclass(frozen=True)
class Outcome:
    """Result of a candidate on one arm; a kind of contact is ``8 N``, ``20 N`` or ``collision``."""

    arm: str
    candidate: Candidate
    threshold: float
    """Geometric mean of the thresholds over the joints [N·m]."""
    delays: dict[str, list[float]]
    """Delays of the detected contacts of each kind [s]."""
    missed: dict[str, int]
    false_alarms: int
    """Number of events between the contacts."""


def candidates() -> Iterator[Candidate]:
    """Yield all candidates: each observer with each tuning, without and with the statistic."""
    for statistic in (False, True):
        for observer, gains in GAINS.items():
            for gain in gains:
                for damping in DAMPINGS if observer == "second_order" else (1.0,):
                    yield Candidate(observer, gain, damping, statistic)


def study(name: str, seed: int, rounds: int, free_time: float) -> Iterator[Outcome]:
    """Yield the result of every candidate on the arm called ``name``.

    Args:
        name: the arm.
        seed: seed of the specimen and of its motions.
        rounds: number of rounds of contacts, each with a push of 8 N, a push of 20 N and a
            collision, from which the delays are measured.
        free_time: length of the contact-free motion that gives friction and the ratios of the
            thresholds [s]. Further motions of this length scale the thresholds, so that they raise
            no alarm.
    """
    plant = Plant(arm(name), seed)
    model = plant.arm.model
    free = [simulate(plant, seed + 20 + k, free_time) for k in range(1 + OTHERS)]
    touches = draw(seed, rounds=rounds)
    touched = simulate(plant, seed + 12, end_of(touches), touches)
    motion = RecordedMotion("free", free[0].t, free[0].q, free[0].v, free[0].tau)
    found = calibrate([motion], model).parameters
    friction = {
        field: getattr(found, field) for field in vars(found) if field.startswith("friction")
    }
    base = DetectorParameters(onset_debounce=0.0, **friction)
    for candidate in candidates():
        parameters = _tuned(base, candidate, model, free[0])
        parameters = _with_thresholds(parameters, candidate, model, free[0])
        factor = MARGIN * max(_highest(parameters, model, other) for other in free[1:])
        yield _judged(name, candidate, _raised(parameters, factor), model, touched)


def interval_noises(x: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the standard deviations of torque and momentum samples, for the Kalman observer.

    White noise ``w`` of the torque and ``n`` of the momentum make the mean external torque of an
    interval ``x = w + (n_k - n_(k-1)) / dt``; neighbours have the covariance ``-var(n) / dt²``.

    Args:
        x: mean external torque of successive intervals without contact, (k, nv) [N·m].
        dt: length of the intervals [s].

    Returns:
        Standard deviations of torque [N·m] and momentum [N·m·s], (nv,) each.
    """
    x = x - x.mean(axis=0)
    variance, next_one = (x * x).mean(axis=0), (x[1:] * x[:-1]).mean(axis=0)
    momentum = np.maximum(-next_one, 0.01 * variance) * dt**2
    torque = np.maximum(variance + 2.0 * next_one, 0.01 * variance)
    return np.sqrt(2.0 * torque), np.sqrt(momentum)


def _tuned(
    base: DetectorParameters, candidate: Candidate, model: Model, free: Episode
) -> DetectorParameters:
    if candidate.observer != "kalman":
        return replace(
            base,
            observer=candidate.observer,
            observer_gain=(candidate.gain,),
            observer_damping=candidate.damping,
        )
    balance = base.balance(model).run(free.q, free.v, free.tau)
    rate = 0.5 * (balance.rate[1:] + balance.rate[:-1])
    x = np.diff(balance.p, axis=0) / PERIOD - rate
    torque, momentum = interval_noises(x, PERIOD)
    return replace(
        base,
        observer="kalman",
        torque_noise=tuple(torque),
        momentum_noise=tuple(momentum),
        torque_drift=tuple(candidate.gain * torque),
    )


def _settled_residual(parameters: DetectorParameters, model: Model, motion: Episode) -> np.ndarray:
    """Return residuals (k, nv) without the start of the motion."""
    r = parameters.make_observer(model).run(motion.t, motion.q, motion.v, motion.tau)
    return r[motion.t > SETTLED]


def _statistic(covariance: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Return the norm of residuals (k, nv) in standard deviations, (k,)."""
    return np.asarray(np.linalg.norm(np.linalg.solve(np.linalg.cholesky(covariance), r.T), axis=0))


def _with_thresholds(
    parameters: DetectorParameters, candidate: Candidate, model: Model, free: Episode
) -> DetectorParameters:
    """Return the parameters with thresholds proportional to the residuals without contact."""
    r = _settled_residual(parameters, model, free)
    threshold = np.abs(r).max(axis=0)
    parameters = replace(
        parameters,
        contact_threshold=tuple(threshold),
        collision_threshold=tuple(10.0 * threshold),
    )
    if not candidate.statistic:
        return parameters
    covariance = r.T @ r / len(r)
    return replace(
        parameters,
        residual_covariance=tuple(covariance.ravel()),
        statistic_threshold=float(_statistic(covariance, r).max()),
    )


def _highest(parameters: DetectorParameters, model: Model, motion: Episode) -> float:
    """Return the largest ratio of residual to threshold in a contact-free motion."""
    r = _settled_residual(parameters, model, motion)
    highest = float((np.abs(r) / parameters.for_joints("contact_threshold", model.nv)).max())
    covariance = parameters.covariance(model.nv)
    if covariance is not None:
        s = _statistic(covariance, r).max() / parameters.statistic_threshold
        highest = max(highest, float(s))
    return highest


def _raised(parameters: DetectorParameters, factor: float) -> DetectorParameters:
    return replace(
        parameters,
        contact_threshold=tuple(factor * x for x in parameters.contact_threshold),
        collision_threshold=tuple(factor * x for x in parameters.collision_threshold),
        statistic_threshold=factor * parameters.statistic_threshold,
    )


def _judged(
    name: str,
    candidate: Candidate,
    parameters: DetectorParameters,
    model: Model,
    touched: Episode,
) -> Outcome:
    flags = _flags(parameters, model, touched)
    delays: dict[str, list[float]] = {}
    missed: dict[str, int] = {}
    explained = 0
    for contact in touched.contacts:
        kind = "collision" if contact.kind == "collision" else f"{contact.size:.0f} N"
        during = [t for t in flags if contact.start <= t <= contact.end + LATE]
        explained += len(during)
        delays.setdefault(kind, [])
        missed.setdefault(kind, 0)
        if during:
            delays[kind].append(during[0] - contact.start)
        else:
            missed[kind] += 1
    threshold = float(np.exp(np.log(parameters.contact_threshold).mean()))
    return Outcome(name, candidate, threshold, delays, missed, len(flags) - explained)


def _flags(parameters: DetectorParameters, model: Model, episode: Episode) -> list[float]:
    """Return the times at which contacts were reported [s]."""
    detector = ContactDetector(model, parameters)
    block = detector.update_block(episode.t, episode.q, episode.v, episode.tau)
    return [event.detected for _, event in block.events if event.phase == "onset"]
