"""Thresholds for a rate of false alarms, and the fastest observer.

**Contact thresholds from the residuals of motions without contact.**

The residual exceeds the threshold of its joint at the required rate of false alarms
(:mod:`~rbd_control.estimation.thresholds`).

Limits of the calibration data. Some tens of seconds contain every kind of noise, but not every
posture and speed, and other motions have other model errors. The identification estimates the size
of these errors: the error ``e`` of the prediction of parts of the motion that were left out of the
fit. It grows with the motion, and so does the threshold of a joint::

    threshold(v) = MARGIN level + REVERSAL coulomb + MODEL_MARGIN (e / rms(v)) |v|

with ``level`` from :mod:`~rbd_control.estimation.thresholds`, and ``coulomb`` the Coulomb
friction of the joint. The second term is for reversals. Each reversal causes a peak of different
height, a part of the Coulomb friction that passes the filter, and tens of seconds contain few
reversals. Away from reversals the first two terms are smaller by the factor ``moving_ratio``, from
the residuals there.

The implied rate of false alarms holds for motions like the recorded ones; both margins are for
other motions.

**Observer gains with the shortest detection delay, from recorded motions.**

A high gain responds fast to a push, but passes noise and therefore needs a high threshold. The best
gain depends on the noise of each joint. For each candidate gain, the residual of the contact-free
motions is filtered, a threshold well above it is chosen, and the time is computed in which the
response to a push reaches this threshold. The push is the median torque of a joint under pushes of
:data:`FORCES` anywhere on the arm in postures of the motions, with a rise time of :data:`RISE`. A
gain for stronger pushes would miss weak ones, and a gain for the weakest would delay all others.

Velocity noise is correlated between joints in another way than a push. Besides the thresholds of
single joints there is therefore a threshold of ``s = sqrt(rᵀ Sigma^-1 r)``, with ``Sigma`` the
covariance of the residual: :func:`covariance` and :func:`statistic`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, frame_jacobian, gravity_torque, momentum_terms
from rbd_control.errors import RecordingError
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.observers import MomentumObserver, Observer
from rbd_control.estimation.thresholds import (
    AWAY,
    BLOCK,
    SEEN,
    alarm_levels,
    block_maxima,
    default_contact_thresholds,
    least_collision_thresholds,
    motion_errors,
    reversals,
)
from rbd_control.identification.motion import SLOW, RecordedMotion
from rbd_control.identification.regression import external_means
from rbd_control.robot.inertial_corrections import InertialCorrections


@dataclass(frozen=True)
class CalibratedParameters(DetectorParameters, InertialCorrections):
    """Results of a calibration: parameters of the detector, and corrections of the arm's model.

    The corrections are of masses, centres of mass and rotor inertias; :meth:`corrected` applies
    them to a model.

    Raises:
        ParameterError: as :class:`~rbd_control.estimation.DetectorParameters`.
    """


START = CalibratedParameters(observer="second_order", observer_damping=0.7)
"""Default parameters from which a calibration starts: the observer with the best measured results
(docs/detection_measurements.md)."""


Array = NDArray[np.float64]

MARGIN = 1.2
"""Ratio of a threshold to the level of the required false-alarm rate."""
REVERSAL = 0.4
"""Margin of the thresholds for reversals, as a share of the joint's Coulomb friction."""
STATISTIC_MARGIN = 1.5
"""Ratio of ``statistic_threshold`` to its level."""
MODEL_MARGIN = 2.0
"""Margin of the thresholds for model errors, in standard deviations of the prediction error."""
RATE_GAIN = 50.0
"""Gain of the filter of the rates that ``calibrate`` reports [1/s]."""
LEAST_MOVING_TIME = 10.0
"""Shortest motion away from reversals from which ``moving_ratio`` is estimated [s]."""
SUSPICIOUS = 8.0
"""Smallest residual of an apparent contact, in robust standard deviations."""
SUSPICIOUS_FRICTION = 0.5
"""Additional residual of an apparent contact, as a share of the joint's Coulomb friction."""
SUSPICIOUS_TIME = 0.05
"""Shortest duration of an apparent contact [s]."""


@dataclass(frozen=True, eq=False)
class FreeMotion:
    """Residuals of one motion without contact and gaps, after the observer has settled.

    ``name`` is the name of the motion, for messages; k is the number of samples.
    """

    name: str
    t: Array
    """(k,) times [s]."""
    speed: Array
    """(k, nv) magnitudes of the joint velocities [rad/s or m/s]."""
    described: Array
    """(k, nv) residuals of the arm as described, without friction [N·m or N]."""
    residual: Array
    """(k, nv) residuals with the identified model [N·m or N]."""
    trace: Array
    """(k, nv) traces of reversals, one while a joint reverses or is at rest, then decaying to zero
    (:mod:`~rbd_control.estimation.thresholds`)."""
    error: Array
    """(k, nv) torques that ``inertia_error`` and ``delay_error`` explain [N·m or N]."""
    largest_rates: Array
    """(2, nv) largest rates of the momentum [N·m or N] and of the motor torque [N·m/s or N/s],
    filtered by :data:`RATE_GAIN`."""

    @classmethod
    def of(
        cls,
        part: RecordedMotion,
        known: CalibratedParameters,
        model: Model,
        noise: tuple[Array, Array],
    ) -> FreeMotion:
        """Return the residuals of a motion without gaps, without its first ``settling_time``.

        Args:
            part: the motion, m + 1 samples, ``tau`` as joint torque [N·m or N].
            known: the identified parameters with the observer's gains.
            model: the robot as described, with the gravity that ``tau`` contains.
            noise: times of the samples (m + 1,) [s], and the mean external torques between them by
                the identified model with friction, (m, nv) [N·m or N].
        """
        true, dt = known.corrected(model), np.diff(part.t)
        observer = known.make_observer(true)
        settled = part.t[1:] - part.t[0] >= known.settling_time
        pole, slow, inertia = (
            known.for_joints(name, model.nv)
            for name in ("observer_gain", "reversal_speed", "inertia_error")
        )
        delay = known.delay_error
        p, _, _ = momentum_terms(true, part.q, part.v)
        drive = np.ascontiguousarray(part.tau - gravity_torque(true, part.q))
        error = motion_errors(dt, p, drive, inertia, delay, pole)
        smooth = MomentumObserver(true, RATE_GAIN)
        rates = [
            np.abs(smooth.filter(dt, np.diff(each, axis=0) / dt[:, None]))[settled]
            for each in (p, drive)
        ]
        return cls(
            name=part.name,
            t=part.t[1:][settled],
            speed=np.abs(part.v[1:][settled]),
            described=observer.filter(dt, external_means(part, model))[settled],
            residual=observer.filter(np.diff(noise[0]), noise[1])[settled],
            trace=reversals(dt, part.v, slow, pole, delay)[settled],
            error=error[settled],
            largest_rates=np.array([rate.max(axis=0, initial=0.0) for rate in rates]),
        )

    def thresholds(self, known: CalibratedParameters) -> Array:
        """Return the contact thresholds of ``known`` at each sample, (k, nv) [N·m or N].

        They grow with the speed, and are smaller away from reversals (``moving_ratio``).
        """
        at_rest, per_speed, moving = (
            known.for_joints(name, self.speed.shape[1])
            for name in ("contact_threshold", "threshold_speed", "moving_ratio")
        )
        return at_rest - at_rest * (1.0 - moving) * (1.0 - self.trace) + per_speed * self.speed


def with_thresholds(
    known: CalibratedParameters,
    model: Model,
    motions: Sequence[FreeMotion],
    *,
    prediction_error: Array,
    false_alarms_per_hour: float,
) -> CalibratedParameters:
    """Return the parameters with all thresholds and the covariance of the residual.

    The thresholds are ``contact_threshold``, ``threshold_speed``, ``moving_ratio``,
    ``covered_error``, ``collision_threshold``, ``statistic_threshold`` and ``statistic_speed``.

    Args:
        known: the identified parameters with the observer's gains.
        model: the robot as described.
        motions: residuals of the motions without contact.
        prediction_error: RMS error of the model in parts it was not fitted to, (nv,) [N·m or N].
        false_alarms_per_hour: required rate over all joints [1/h]; half of it is for the single
            joints, half for the statistic of all residuals.
    """
    half = 0.5 * false_alarms_per_hour
    speed = np.concatenate([motion.speed for motion in motions])
    maxima = np.concatenate([block_maxima(part.t, np.abs(part.residual)) for part in motions])
    coulomb = known.friction(model.nv).dry(model.nv)
    threshold = MARGIN * alarm_levels(maxima, half / model.nv) + REVERSAL * coulomb
    moving = _moving_ratio(motions, threshold, half / model.nv)
    known = _with_statistic(known, motions, threshold * (1.0 - moving), half, prediction_error)
    return replace(
        known,
        covered_error=tuple(_covered_error(motions)),
        contact_threshold=tuple(threshold),
        threshold_speed=tuple(MODEL_MARGIN * prediction_error / np.sqrt((speed**2).mean(axis=0))),
        moving_ratio=tuple(moving),
        collision_threshold=tuple(least_collision_thresholds(model, threshold)),
    )


def _covered_error(motions: Sequence[FreeMotion]) -> Array:
    """Return the largest ``error`` of each joint in the motions, away from its reversals, (nv,).

    At reversals the contact threshold is higher, so that a larger ``error`` there says nothing.
    """
    away = [np.where(part.trace < AWAY, part.error, 0.0).max(axis=0) for part in motions]
    return np.asarray(np.max(away, axis=0))


def high_thresholds(known: CalibratedParameters, model: Model) -> tuple[str, ...]:
    """Return a note about joints whose threshold is higher than without a calibration, or none.

    Args:
        known: the calibrated parameters.
        model: the robot.
    """
    found = known.for_joints("contact_threshold", model.nv)
    usual = default_contact_thresholds(model)
    said = [
        f"{joint} {found[i]:.3g} instead of {usual[i]:.3g}"
        for i, joint in enumerate(model.joint_names, model.nv - len(model.joint_names))
        if found[i] > usual[i]
    ]
    if not said:
        return ()
    return (
        f"contact thresholds are higher than without calibration [N·m or N]: {', '.join(said)}; "
        f"weak contacts will be missed: look for drifting torque sensors, contact in the "
        f"recordings, wrong stamps, and friction that changes",
    )


def _moving_ratio(motions: Sequence[FreeMotion], threshold: Array, alarms_per_hour: float) -> Array:
    """Return the share of the thresholds that suffices away from reversals, (nv,).

    It is 1 for joints with less than :data:`LEAST_MOVING_TIME` of motion away from reversals.
    """
    r = np.abs(np.concatenate([motion.residual for motion in motions]))
    trace = np.concatenate([motion.trace for motion in motions])
    away = [np.where(part.trace < AWAY, np.abs(part.residual), 0.0) for part in motions]
    maxima = np.concatenate(
        [block_maxima(part.t, x) for part, x in zip(motions, away, strict=True)]
    )
    ratio = np.ones_like(threshold)
    for i, column in enumerate(maxima.T):
        # Blocks in which the joint only reverses are excluded.
        told = column[column > 0.0]
        if told.size * BLOCK >= LEAST_MOVING_TIME:
            level = MARGIN * alarm_levels(told[:, None], alarms_per_hour)[0] / threshold[i]
            # While the allowance of a reversal decays, it must still cover the residual.
            fading = trace[:, i] < 1.0
            w = trace[fading, i]
            seen = (SEEN * r[fading, i] / threshold[i] - w) / (1.0 - w)
            ratio[i] = min(max(level, float(seen.max(initial=0.0))), 1.0)
    return ratio


def _with_statistic(
    known: CalibratedParameters,
    motions: Sequence[FreeMotion],
    reversal: Array,
    alarms_per_hour: float,
    prediction_error: Array,
) -> CalibratedParameters:
    """Return the parameters with the covariance of the residual and the statistic's threshold.

    ``reversal`` is the allowance for friction while a joint reverses, (nv,) [N·m or N].
    """
    unexplained = [
        part.residual - np.clip(part.residual, -reversal * part.trace, reversal * part.trace)
        for part in motions
    ]
    matrix, whitening = covariance(unexplained)
    # A sum of squares has the exponential tail that the extreme-value fit assumes.
    highest = np.concatenate(
        [
            block_maxima(part.t, statistic(r, whitening)[:, None])
            for part, r in zip(motions, unexplained, strict=True)
        ]
    )
    level = np.sqrt(alarm_levels(np.square(highest), alarms_per_hour)[0])
    # The model error is assumed to occur in all joints at the same time, independently.
    error = float(np.linalg.norm(whitening * prediction_error))
    fastest = np.concatenate([part.speed for part in motions]).max(axis=1)
    return replace(
        known,
        residual_covariance=tuple(matrix.ravel()),
        statistic_threshold=float(STATISTIC_MARGIN * level),
        statistic_speed=float(error / np.sqrt(np.mean(fastest**2))),
    )


def refuse_contact(motions: Sequence[FreeMotion], coulomb: Array, model: Model) -> None:
    """Raise an error for a motion with apparent contact: a long outlier of the residual.

    An outlier differs from the median by more than :data:`SUSPICIOUS` robust standard deviations
    plus :data:`SUSPICIOUS_FRICTION` of the Coulomb friction, for :data:`SUSPICIOUS_TIME` or longer,
    while the joint moves.

    Args:
        motions: residuals of all motions, which define what is usual.
        coulomb: identified Coulomb friction, (nv,) [N·m or N].
        model: the robot.

    Raises:
        RecordingError: naming the joint, the time and the residual.
    """
    every = np.concatenate([motion.residual for motion in motions])
    centre = np.median(every, axis=0)
    spread = 1.4826 * np.median(np.abs(every - centre), axis=0)
    limit = SUSPICIOUS * spread + SUSPICIOUS_FRICTION * coulomb
    for motion in motions:
        t, r = motion.t, motion.residual
        # The static friction of a joint that hardly moves is unknown, so it is not checked.
        out = (np.abs(r - centre) > limit) & (motion.speed > SLOW)
        for i, joint in enumerate(model.joint_names):
            # Runs of outliers, by their first index and the index after their last.
            edges = np.flatnonzero(np.diff(out[:, i].astype(int), prepend=0, append=0))
            for begin, end in edges.reshape(-1, 2):
                if t[end - 1] - t[begin] >= SUSPICIOUS_TIME:
                    peak = float(np.abs(r[begin:end, i]).max())
                    raise RecordingError(
                        f"{motion.name}: the residual of joint {joint!r} at {t[begin]:.2f} s "
                        f"reaches {peak:.2f} N·m or N and stays above {limit[i]:.2f} for "
                        f"{t[end - 1] - t[begin]:.2f} s, its usual spread being {spread[i]:.2g}: "
                        f"this looks like contact; remove this part, or record a motion without "
                        f"contact"
                    )


GAINS = (15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 100.0, 130.0, 160.0, 200.0, 250.0, 300.0, 400.0, 600.0)
"""Candidate gains [1/s]."""
PER_RATE = 0.6
"""Largest product of a candidate gain and the sample period."""
SETTLING = 6.0
"""Number of time constants after which the initial state has decayed to 2 %."""
FORCES = (8.0, 20.0)
"""Forces of a weak and of a usual push [N]."""
RISE = 0.02
"""Time in which a push grows to its force [s]."""
POSTURES = 100
"""Number of postures of the motions in which pushes are simulated."""
OFF_ORIGIN = 0.1
"""Typical distance of pushes from the origins of links [m]."""
FELT = 0.2
"""Joint torques below this fraction of the joint's maximum are ignored."""
RARE = 0.999
"""Quantile of the residual from which the threshold is estimated."""
ABOVE = 1.5
"""Ratio of the threshold to the quantile ``RARE`` of the residual."""
NEARLY = 1.15
"""Largest delay, relative to the fastest gain, at which a lower gain is preferred; its lower
threshold detects weaker pushes."""
RESPONSE = 6.0
"""Length of the computed step response in time constants."""


def usual_torque(model: Model, postures: Array, seed: int = 0) -> Array:
    """Return the median torque that a push causes at each joint it loads, (nv,) [N·m or N].

    The pushes have the forces :data:`FORCES` and random directions, and act about
    :data:`OFF_ORIGIN` from the origin of every link, in :data:`POSTURES` random postures. Torques
    below :data:`FELT` of a joint's maximum are left out of its median.

    Args:
        model: the robot.
        postures: joint positions from which the postures are drawn, (m, nq) [rad or m].
        seed: seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    chosen = postures[rng.integers(len(postures), size=POSTURES)]
    torques = []
    for link in model.joint_links:
        J = frame_jacobian(model, chosen, link)
        direction = rng.normal(size=(POSTURES, 3))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        offset = rng.normal(size=(POSTURES, 3)) * OFF_ORIGIN / np.sqrt(3.0)
        wrench = np.concatenate([np.cross(offset, direction), direction], axis=1)
        torque = np.abs(np.einsum("kai,ka->ki", J, wrench))
        torques += [force * torque for force in FORCES]
    every = np.concatenate(torques)
    felt = every > FELT * every.max(axis=0)
    return np.array([np.median(column[f]) for column, f in zip(every.T, felt.T, strict=True)])


def choose_gains(
    model: Model,
    noise: Sequence[tuple[Array, Array]],
    postures: Array,
    observer: Callable[[float], Observer],
) -> Array:
    """Return the observer gain of each joint with a short detection delay, (nv,) [1/s].

    It is the smallest of :data:`GAINS` whose delay for a push of :func:`usual_torque` is at most
    :data:`NEARLY` times the shortest; gains above :data:`PER_RATE` per sample period, the median
    of all stretches, are cut to this value. If no gain detects this push, it is the lowest.

    Args:
        model: the robot.
        noise: of each part of the motions without gaps, times (k + 1,) [s] and the mean external
            torque of each interval (k, nv) [N·m or N], friction subtracted.
        postures: joint positions of the motions, (m, nq) [rad or m].
        observer: returns an observer with a given gain [1/s] for all joints.
    """
    period = float(np.median(np.concatenate([np.diff(t) for t, _ in noise])))
    gains = np.unique(np.minimum(GAINS, PER_RATE / period))
    torque = usual_torque(model, postures)
    delay = np.empty((gains.size, model.nv))
    for g, gain in enumerate(gains):
        filtered = observer(gain)
        settled = [
            np.abs(filtered.filter(np.diff(t), x)[t[1:] - t[0] >= SETTLING / gain])
            for t, x in noise
        ]
        level = ABOVE * np.quantile(np.concatenate(settled), RARE, axis=0)
        times = np.arange(1, max(int((RESPONSE / gain + RISE) / period), 2) + 1) * period
        ramp = np.repeat(np.clip(times / RISE, 0.0, 1.0)[:, None], model.nv, axis=1)
        response = filtered.filter(np.full(times.size, period), ramp)
        response = np.maximum.accumulate(np.vstack([np.zeros(model.nv), response]))
        for i in range(model.nv):
            passed = np.interp(
                level[i] / torque[i], response[:, i], np.append(0.0, times), right=np.inf
            )
            delay[g, i] = passed
    # A push that is too weak for a gain has an infinite delay.
    near = delay <= NEARLY * delay.min(axis=0)
    return np.asarray(gains[np.argmax(near, axis=0)])


def covariance(residuals: Sequence[Array]) -> tuple[Array, Array]:
    """Return the covariance of residuals about zero, and its whitening matrix L, (nv, nv) each.

    The variances are increased by 0.01 %, so that the matrix can be inverted. L is the inverse of
    the lower Cholesky factor, so ``|L r|`` is the length of r in standard deviations.

    Args:
        residuals: residuals of each motion without contact, (k, nv) [N·m or N].
    """
    r = np.concatenate(residuals)
    matrix = r.T @ r / len(r)
    # No residual is predicted from the other joints better than to 1 % of its standard deviation.
    matrix += np.diag(1e-4 * np.diag(matrix))
    return matrix, np.linalg.inv(np.linalg.cholesky(matrix))


def statistic(residuals: Array, whitening: Array) -> Array:
    """Return the statistic ``|L r|`` of each residual, with the matrix L of :func:`covariance`.

    Args:
        residuals: r, (k, nv) [N·m or N].
        whitening: L, (nv, nv).

    Returns:
        The length of each residual in standard deviations, (k,).
    """
    return np.asarray(np.linalg.norm(residuals @ whitening.T, axis=1))
