"""Thresholds for a rate of false alarms, and the fastest observer.

**Contact thresholds from the residuals of motions without contact.**

Thresholds come from the residuals ``r`` of parts of the motion by models that were identified from
the other parts, so that they contain the errors of the model in motions that it was not fitted to.
The threshold of a joint grows with its speed v::

    threshold(v) = level(|r| - slope |v|) + slope |v|        slope = SPEED_SHARE e / rms(v)

with ``level`` from :mod:`~rbd_control.estimation.thresholds` for the required rate of false alarms,
and ``e`` the error of the prediction of parts that were left out of the fit. The slope is for
motions faster than the recorded ones. Away from reversals the level is smaller by the factor
``moving_ratio``, from the residuals there.

At rest, friction holds any torque up to the static friction. The threshold at rest is so high
that this friction cannot keep a contact from ending, and the threshold of changes
(``rest_threshold``) is above its change at the start of a motion.

The implied rate of false alarms holds for motions like the recorded ones.

**Observer gains with the shortest detection delay, from recorded motions.**

A high gain responds fast to a push, but passes noise and therefore needs a high threshold. The best
gain depends on the noise of each joint. For each candidate gain, the residual of the contact-free
motions is filtered, its level is computed as for the thresholds, and then the time in which the
response to a push reaches this level. The pushes are torques of a joint under pushes of
:data:`FORCES` anywhere on the arm in postures of the motions, with a rise time of :data:`RISE`. The
mean of these times decides, each at most :data:`LATEST`: a gain for the weakest pushes would delay
all others.

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
    MARGIN,
    REST_SHARE,
    REST_TIME,
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


START = CalibratedParameters()
"""Default parameters from which a calibration starts."""


Array = NDArray[np.float64]

SPEED_SHARE = 0.5
"""Increase of the thresholds at the speed of the recorded motion, in standard deviations of the
prediction error."""
STATIC_FRICTION = 1.4
"""Largest static friction, as a multiple of the Coulomb friction. Such a residual may remain after
a contact of an arm at rest, and must not keep the contact from ending."""
RATE_GAIN = 50.0
"""Gain of the filter of the rates that ``calibrate`` reports [1/s]."""
LEAST_REST = 10.0
"""Shortest rest from which ``rest_threshold`` is estimated [s]."""
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
    held_out: Array
    """(k, nv) residuals with models that were not fitted to this part of the motion [N·m or N]."""
    error: Array
    """(k, nv) torques that errors of inertia, gain and delay explain [N·m or N]."""
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
        held_out: Array,
    ) -> FreeMotion:
        """Return the residuals of a motion without gaps, without its first ``settling_time``.

        Args:
            part: the motion, m + 1 samples, ``tau`` as joint torque [N·m or N].
            known: the identified parameters with the observer's gains.
            model: the robot as described, with the gravity that ``tau`` contains.
            noise: times of the samples (m + 1,) [s], and the mean external torques between them by
                the identified model with friction, (m, nv) [N·m or N].
            held_out: the same means by models that were not fitted to them, (m, nv) [N·m or N].
        """
        true, dt = known.corrected(model), np.diff(part.t)
        observer = known.make_observer(true)
        settled = part.t[1:] - part.t[0] >= known.settling_time
        pole, slow, inertia, gain = (
            known.for_joints(name, model.nv)
            for name in ("observer_gain", "reversal_speed", "inertia_error", "effort_gain_error")
        )
        p, _, _ = momentum_terms(true, part.q, part.v)
        drive = np.ascontiguousarray(part.tau - gravity_torque(true, part.q))
        error = motion_errors(dt, p, drive, part.tau, inertia, gain, known.delay_error, pole)
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
            # Without the delay, with which the detector's allowance is larger.
            trace=reversals(dt, part.v, slow, pole)[settled],
            held_out=observer.filter(dt, held_out)[settled],
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
    ``covered_error``, ``rest_threshold``, ``collision_threshold``, ``statistic_threshold`` and
    ``statistic_speed``.

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
    slope = SPEED_SHARE * prediction_error / np.sqrt((speed**2).mean(axis=0))
    excess = [np.maximum(np.abs(part.held_out) - slope * part.speed, 0.0) for part in motions]
    maxima = [block_maxima(part.t, x) for part, x in zip(motions, excess, strict=True)]
    static = STATIC_FRICTION * known.friction(model.nv).dry(model.nv)
    level = alarm_levels(np.concatenate(maxima), half / model.nv)
    threshold = np.maximum(level, static / known.release_ratio)
    away = threshold * _moving_ratio(motions, excess, threshold, half / model.nv)
    # The statistic subtracts what a reversal adds, so that this must cover the static friction.
    threshold = np.maximum(threshold, away + static)
    moving = away / threshold
    known = _with_statistic(known, motions, threshold * (1.0 - moving), half, prediction_error)
    return replace(
        known,
        covered_error=tuple(_covered_error(motions)),
        contact_threshold=tuple(threshold),
        rest_threshold=tuple(_rest_threshold(motions, known, threshold)),
        threshold_speed=tuple(slope),
        moving_ratio=tuple(moving),
        collision_threshold=tuple(least_collision_thresholds(model, threshold)),
    )


def _rest_threshold(
    motions: Sequence[FreeMotion], known: CalibratedParameters, threshold: Array
) -> Array:
    """Return the threshold of changes of the residual at rest, (nv,) [N·m or N].

    It is :data:`MARGIN` times the largest change in :data:`LEAST_REST` of rest, or, if the motions
    contain less rest, the default share of the contact threshold; and at least the change from the
    static friction of one direction to that of the other.

    Args:
        motions: residuals of the motions without contact.
        known: the identified parameters.
        threshold: contact thresholds, (nv,) [N·m or N].
    """
    n, rested = threshold.size, 0.0
    slow, largest = known.for_joints("reversal_speed", n), np.zeros(n)
    for part in motions:
        rests = (part.speed < slow).all(axis=1)
        edges = np.flatnonzero(np.diff(rests, prepend=False, append=False))
        for begin, end in edges.reshape(-1, 2):
            settled = part.t[begin:end] - part.t[begin] >= REST_TIME
            if settled.any():
                r = part.held_out[begin:end]
                change = np.abs(r[settled] - r[~settled].mean(axis=0))
                largest = np.maximum(largest, change.max(axis=0))
                rested += float(part.t[end - 1] - part.t[begin]) - REST_TIME
    level = MARGIN * largest if rested >= LEAST_REST else REST_SHARE * threshold
    return np.maximum(level, 2.0 * STATIC_FRICTION * known.friction(n).dry(n))


def _covered_error(motions: Sequence[FreeMotion]) -> Array:
    """Return the ``error`` of each joint that the contact threshold covers, (nv,) [N·m or N].

    It is the largest one in the motions, divided by ``MARGIN``, away from reversals of the joint,
    where the threshold is higher and a larger ``error`` says nothing.
    """
    away = [np.where(part.trace < AWAY, part.error, 0.0).max(axis=0) for part in motions]
    return np.asarray(np.max(away, axis=0) / MARGIN)


HIGHER = 1.05
"""Ratio of a threshold to that without a calibration above which it is reported."""


def high_thresholds(known: CalibratedParameters, model: Model) -> tuple[str, ...]:
    """Return a note about joints whose threshold is higher than without a calibration, or none.

    Args:
        known: the calibrated parameters.
        model: the robot.
    """
    found = known.for_joints("contact_threshold", model.nv)
    usual = default_contact_thresholds(model)
    said = [
        f"{joint} {found[i]:.3g} instead of {usual[i]:.3g} {model.torque_unit(i)}"
        for i, joint in enumerate(model.joint_names, model.nv - len(model.joint_names))
        if found[i] > HIGHER * usual[i]
    ]
    if not said:
        return ()
    return (
        f"contact thresholds are higher than without calibration: {', '.join(said)}; "
        f"contacts below them are missed: before use, look for drifting torque sensors, contact in "
        f"the recordings, wrong stamps, and friction that changes",
    )


def worse_than_none(
    known: CalibratedParameters, motions: Sequence[FreeMotion], model: Model
) -> str:
    """Return why the arm is better off without the calibration; empty if it is not.

    It is if the identified model fits worse than the description, or if the thresholds are higher
    than the default ones in the geometric mean over the joints, although the default ones raise no
    false alarm in the motions with the description.
    """
    described = np.concatenate([motion.described for motion in motions])
    residual = np.concatenate([motion.residual for motion in motions])
    before, after = (float(np.sqrt(np.mean(each**2))) for each in (described, residual))
    if after > before:
        return (
            f"the RMS residual is {after:.3g} {model.torque_unit()} with the identified model, and "
            f"{before:.3g} without friction and corrections"
        )
    usual = default_contact_thresholds(model)
    ratio = float(np.exp(np.mean(np.log(known.for_joints("contact_threshold", model.nv) / usual))))
    if ratio > 1.0 and (np.abs(described) < usual).all():
        return (
            f"thresholds are {ratio:.2g} times those without a calibration, which raise no false "
            "alarm in these recordings"
        )
    return ""


def _moving_ratio(
    motions: Sequence[FreeMotion],
    excess: Sequence[Array],
    threshold: Array,
    alarms_per_hour: float,
) -> Array:
    """Return the share of the thresholds that suffices away from reversals, (nv,).

    It is 1 for joints with less than :data:`LEAST_MOVING_TIME` of motion away from reversals.
    ``excess`` are the magnitudes of the residuals beyond the growth with speed, (k, nv) each.
    """
    r = np.concatenate(excess)
    trace = np.concatenate([motion.trace for motion in motions])
    away = [np.where(part.trace < AWAY, x, 0.0) for part, x in zip(motions, excess, strict=True)]
    maxima = np.concatenate(
        [block_maxima(part.t, x) for part, x in zip(motions, away, strict=True)]
    )
    ratio = np.ones_like(threshold)
    for i, column in enumerate(maxima.T):
        # Blocks in which the joint only reverses are excluded.
        told = column[column > 0.0]
        if told.size * BLOCK >= LEAST_MOVING_TIME:
            level = alarm_levels(told[:, None], alarms_per_hour)[0] / threshold[i]
            # While the allowance of a reversal decays, it must still cover the residual.
            fading = trace[:, i] < 1.0
            w = trace[fading, i]
            seen = (MARGIN * r[fading, i] / threshold[i] - w) / (1.0 - w)
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
        part.held_out - np.clip(part.held_out, -reversal * part.trace, reversal * part.trace)
        for part in motions
    ]
    matrix, whitening = covariance(unexplained)
    # The model error is assumed to occur in all joints at the same time, independently.
    error = SPEED_SHARE * float(np.linalg.norm(whitening * prediction_error))
    fastest = [part.speed.max(axis=1) for part in motions]
    slope = error / float(np.sqrt(np.mean(np.square(np.concatenate(fastest)))))
    highest = np.concatenate(
        [
            block_maxima(part.t, np.maximum(statistic(r, whitening) - slope * v, 0.0)[:, None])
            for part, r, v in zip(motions, unexplained, fastest, strict=True)
        ]
    )
    return replace(
        known,
        residual_covariance=tuple(matrix.ravel()),
        statistic_threshold=float(alarm_levels(highest, alarms_per_hour)[0]),
        statistic_speed=slope,
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
                        f"reaches {peak:.2f} {model.torque_unit(i)} and stays above "
                        f"{limit[i]:.2f} for {t[end - 1] - t[begin]:.2f} s, its usual spread "
                        f"being {spread[i]:.2g}: this looks like contact; remove this "
                        f"part, or record a motion without contact"
                    )


GAINS = (15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 100.0, 130.0, 160.0, 200.0, 250.0, 300.0, 400.0, 600.0)
"""Candidate gains [1/s]."""
PER_RATE = 1.0
"""Largest product of a candidate gain and the sample period."""
LATEST = 0.05
"""Delay with which a push counts that is detected later, or not at all [s]."""
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
NEARLY = 1.02
"""Largest mean delay, relative to the shortest, at which a lower gain is preferred; its lower
threshold detects weaker pushes."""


def push_torques(model: Model, postures: Array, seed: int = 0) -> list[Array]:
    """Return the torques that pushes cause at each joint [N·m or N], one array for each joint.

    The pushes have the forces :data:`FORCES` and random directions, and act about
    :data:`OFF_ORIGIN` from the origin of every link, in :data:`POSTURES` random postures. Torques
    below :data:`FELT` of a joint's maximum are left out.

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
    return [column[column > FELT * column.max()] for column in every.T]


def choose_gains(
    model: Model,
    noise: Sequence[tuple[Array, Array]],
    postures: Array,
    observer: Callable[[float], Observer],
    alarms_per_hour: float,
) -> Array:
    """Return the observer gain of each joint with a short detection delay, (nv,) [1/s].

    It is the smallest of :data:`GAINS` whose mean delay for the pushes of :func:`push_torques` is
    at most :data:`NEARLY` times the shortest; gains above :data:`PER_RATE` per sample period, the
    median of all stretches, are cut to this value.

    Args:
        model: the robot.
        noise: of each part of the motions without gaps, times (k + 1,) [s] and the mean external
            torque of each interval (k, nv) [N·m or N], friction subtracted.
        postures: joint positions of the motions, (m, nq) [rad or m].
        observer: returns an observer with a given gain [1/s] for all joints.
        alarms_per_hour: required rate of false alarms of a joint [1/h].
    """
    period = float(np.median(np.concatenate([np.diff(t) for t, _ in noise])))
    gains = np.unique(np.minimum(GAINS, PER_RATE / period))
    torques = push_torques(model, postures)
    times = np.arange(1, int((LATEST + RISE) / period) + 2) * period
    ramp = np.repeat(np.clip(times / RISE, 0.0, 1.0)[:, None], model.nv, axis=1)
    delay = np.empty((gains.size, model.nv))
    for g, gain in enumerate(gains):
        filtered, maxima = observer(gain), []
        for t, x in noise:
            settled = t[1:] - t[0] >= SETTLING / gain
            r = np.abs(filtered.filter(np.diff(t), x)[settled])
            maxima.append(block_maxima(t[1:][settled], r))
        level = alarm_levels(np.concatenate(maxima), alarms_per_hour)
        response = filtered.filter(np.full(times.size, period), ramp)
        response = np.maximum.accumulate(np.vstack([np.zeros(model.nv), response]))
        for i, torque in enumerate(torques):
            passed = np.interp(
                level[i] / torque, response[:, i], np.append(0.0, times), right=LATEST
            )
            delay[g, i] = np.minimum(passed, LATEST).mean()
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
