"""Calibration of the detector's parameters from motions without contact.

0. For efforts that are currents, the gains of the drives:
   :mod:`~rbd_control.estimation.drive_gains`.
1. Friction and corrections of masses: :mod:`~rbd_control.estimation.identification`; and the delay
   of the velocity: :mod:`~rbd_control.estimation.delay_fit`.
2. Observer gains with the shortest detection delay: :mod:`~rbd_control.estimation.tuning`.
3. Contact thresholds. The residual exceeds the threshold of its joint at the required rate of false
   alarms: :mod:`~rbd_control.estimation.alarm_levels`.

Limits of the calibration data. Some tens of seconds contain every kind of noise, but not every
posture and speed, and other motions have other model errors. The identification estimates the size
of these errors: the error ``e`` of the prediction of parts of the motion that were left out of the
fit. It grows with the motion, and so does the threshold of a joint::

    threshold(v) = MARGIN level + REVERSAL coulomb + MODEL_MARGIN (e / rms(v)) |v|

The second term is for reversals. Each reversal causes a peak of different height, a part of the
Coulomb friction that passes the filter, and tens of seconds contain few reversals. Away from
reversals the first two terms are smaller by the factor ``moving_ratio``, from the residuals there.

The implied rate of false alarms holds for motions like the recorded ones; both margins are for
other motions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.errors import RecordingError
from rbd_control.estimation.alarm_levels import BLOCK, SEEN, alarm_levels, block_maxima
from rbd_control.estimation.default_thresholds import least_collision_thresholds
from rbd_control.estimation.delay_fit import estimate_delay, with_delay
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.drive_gains import DriveGain, GainEvidence, KnownPayload, drive_gains
from rbd_control.estimation.effort_kind import refuse_effort_kind
from rbd_control.estimation.effort_scale import (
    CERTAIN,
    are_unknown_currents,
    effort_scales,
    usable_efforts,
)
from rbd_control.estimation.identification import Identification, external_means, identify, means
from rbd_control.estimation.mismatch import Mismatch, find_mismatches
from rbd_control.estimation.motion import SLOW, Motion, refuse_little_motion
from rbd_control.estimation.reversals import AWAY, reversals
from rbd_control.estimation.tuning import SETTLING, choose_gains, covariance, statistic
from rbd_control.robot.inertial_corrections import CORRECTIONS, InertialCorrections

Array = NDArray[np.float64]

LEAST_TIME = 20.0
"""Shortest motion that suffices to estimate the distribution of the residual [s]."""
MARGIN = 1.2
"""Ratio of a threshold to the level of the required false-alarm rate."""
REVERSAL = 0.4
"""Margin of the thresholds for reversals, as a share of the joint's Coulomb friction."""
STATISTIC_MARGIN = 1.5
"""Ratio of ``statistic_threshold`` to its level."""
MODEL_MARGIN = 2.0
"""Margin of the thresholds for model errors, in standard deviations of the prediction error."""
SUSPICIOUS = 8.0
"""Residual of an apparent contact, in robust standard deviations."""
SUSPICIOUS_FRICTION = 0.5
"""Additional residual of an apparent contact, as a share of the joint's Coulomb friction."""
SUSPICIOUS_TIME = 0.05
"""Duration of an apparent contact [s]."""
MOST_ROUNDS = 5
"""Largest number of identifications of friction and masses with the delay of the velocity."""
DELAY_TOLERANCE = 0.05
"""Relative change of the delay at which its identification ends."""
SURE = 4.0
"""Number of standard errors above which a delay is kept."""
LONGEST_DELAY = 0.05
"""Longest delay, the bound of the parameter [s]."""
GROSS_FRICTION = 4.0
"""Errors below half of this multiple of the Coulomb friction are not reported as mismatches."""
GROSS_SHARE = 0.05
"""Errors below half of this share of the effort limit are not reported as mismatches."""


@dataclass(frozen=True)
class CalibratedParameters(DetectorParameters, InertialCorrections):
    """Results of the calibration: parameters of the detector, and corrections of the arm."""


START = CalibratedParameters(observer="second_order", observer_damping=0.7)
"""Initial parameters: the observer with the best measured results (docs/detection.md)."""


@dataclass(frozen=True)
class JointCalibration:
    """Calibration of one joint, RMS values and thresholds [N·m or N]."""

    joint: str
    rms_before: float
    """Residual of the URDF's model without friction."""
    rms_after: float
    """Residual with the identified model."""
    prediction_error: float
    """RMS error of the model in parts of the motion it was not fitted to."""
    largest: float
    """Largest absolute residual with the identified model."""
    threshold: float
    """Contact threshold at rest."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """The calibrated parameters, and the data on which they are based."""

    parameters: CalibratedParameters
    """Parameters of the detector, for the corrected model ``parameters.corrected(model)``."""
    joints: tuple[JointCalibration, ...]
    duration: float
    """Duration of the motion that was used [s]."""
    false_alarms_per_hour: float
    """Rate of false alarms that the thresholds imply, for motions like the recorded ones [1/h]."""
    notes: tuple[str, ...]
    """Warnings about unidentified or implausible results."""
    residuals: tuple[tuple[str, Array, Array, Array, Array], ...]
    """Name, times (k,) [s], residuals before and after, and thresholds (k, nv) of each stretch."""
    gains: tuple[DriveGain, ...] = ()
    """Gains of the drives, if they were identified."""


def calibrate(
    motions: Sequence[Motion],
    model: Model,
    parameters: DetectorParameters | None = None,
    *,
    false_alarms_per_hour: float = 1.0,
    keep_gain: bool = False,
    evidence: GainEvidence | None = None,
    least_time: float = LEAST_TIME,
) -> Calibration:
    """Identify the model's errors, and choose observer gains and thresholds.

    Args:
        motions: contact-free motions of the arm, at least twenty seconds in total.
        model: the robot, as described.
        parameters: kind of observer, kind of effort, and timing. For currents, an
            ``effort_gain`` of 1 means that the gain is unknown and is identified.
        false_alarms_per_hour: required rate over all joints.
        keep_gain: whether to keep the ``observer_gain`` of ``parameters``.
        evidence: known payloads and known gains of drives, for currents whose ``effort_gain`` is to
            be identified.
        least_time: shortest duration of the motion [s]; thresholds from less than twenty seconds
            are an estimate for a report, not for a running detector.

    Returns:
        The parameters, their data, and warnings.

    Raises:
        RecordingError: for too little motion, apparent contact, or an effort that is missing,
            implausible, reversed or in another unit than declared; the message names the joint or
            the time. Also if the efforts refute ``effort_kind`` while ``check_effort_kind`` is
            true.
        DriveGainError: when the gain of a drive cannot be identified.
    """
    start = _start(parameters or START)
    refuse_little_motion(motions, model)
    motions, notes = usable_efforts(motions, model, start)
    gap = start.maximum_gap
    if not are_unknown_currents(model, start):
        refuse_effort_kind(motions, model, start)
    recorded, gain, drives, said = _in_torque(motions, model, start, evidence or GainEvidence())
    notes = (*notes, *said)
    felt = _felt(model, start.effort_kind)
    start = replace(start, effort_gain=tuple(gain), onset_debounce=0.0)
    recorded, found, known = _identified(recorded, felt, start)
    stretches = [part for motion in recorded for part in motion.stretches(gap, 4.0 * BLOCK)]
    friction, true = known.friction(model.nv), known.corrected(felt)
    noise = [
        (part.t, external_means(part, true) + means(friction.torque(part.v))) for part in stretches
    ]
    if not keep_gain:
        gains = choose_gains(
            model,
            noise,
            np.concatenate([part.q for part in stretches]),
            lambda K: replace(start, observer_gain=(K,)).make_observer(model),
        )
        known = replace(known, observer_gain=tuple(gains))
    settling = max(start.settling_time, round(SETTLING / min(known.observer_gain), 3))
    known = replace(known, settling_time=settling)
    mismatches = _what_does_not_fit(motions, model, known)
    notes = (*notes, *(mismatch.text for mismatch in mismatches))
    # Identified gains have standard errors; the scale check below does not include rotors.
    if not drives and not any(mismatch.kind == "gravity" for mismatch in mismatches):
        notes = (*notes, *_refuse_other_efforts(recorded, felt, gap))
    calibration = _with_thresholds(
        known, felt, found, stretches, noise, false_alarms_per_hour, notes, least_time
    )
    return replace(calibration, gains=drives)


def _identified(
    recorded: Sequence[Motion], felt: Model, start: CalibratedParameters
) -> tuple[list[Motion], Identification, CalibratedParameters]:
    """Return the motions with delayed torque, what was identified, and the parameters with it.

    Friction and masses are identified with a known delay of the velocity, and the delay with known
    friction and masses, alternately until it changes little. A delay in ``start`` is kept.
    """
    gap, delay = start.maximum_gap, start.velocity_delay
    for _ in range(MOST_ROUNDS):
        motions = [with_delay(motion, felt, delay) for motion in recorded]
        found = identify(motions, felt, gap)
        known = _with_model(replace(start, velocity_delay=delay), found)
        if start.velocity_delay > 0.0:
            break
        # The estimate is of first order, so it is repeated with what remains of the delay.
        rest = estimate_delay(motions, known.corrected(felt), known.friction(felt.nv), gap)
        if abs(rest.value) <= (DELAY_TOLERANCE * delay or SURE * rest.error):
            break
        before, delay = delay, round(min(max(delay + rest.value, 0.0), LONGEST_DELAY), 5)
        if delay == before:
            break
    return motions, found, known


def _with_model(start: CalibratedParameters, found: Identification) -> CalibratedParameters:
    """Return the parameters with the identified friction and corrections."""
    corrections: dict[str, Any] = dict(
        zip(CORRECTIONS, map(tuple, found.corrections.T), strict=True)
    )
    return replace(
        start,
        friction_model="stribeck" if found.stribeck.any() else "coulomb_viscous",
        friction_coulomb=tuple(found.coulomb),
        friction_viscous=tuple(found.viscous),
        friction_offset=tuple(found.offset),
        friction_velocity_scale=tuple(found.velocity_scale),
        friction_stribeck=tuple(found.stribeck),
        friction_stribeck_velocity=tuple(found.stribeck_velocity),
        **corrections,
    )


def _in_torque(
    motions: Sequence[Motion], model: Model, start: DetectorParameters, evidence: GainEvidence
) -> tuple[list[Motion], Array, tuple[DriveGain, ...], tuple[str, ...]]:
    """Return the motions with efforts in N·m or N, the gains of all joints, and their drives.

    Args:
        motions: motions as recorded.
        model: the robot as described.
        start: kind of the effort; currents with a gain of one have unknown gains.
        evidence: known payloads and gains.

    Returns:
        The motions, gains (nv,), the identified drives (none if the gains were known), and notes.
    """
    gain = start.for_joints("effort_gain", model.nv)
    if start.effort_kind != "current" or (gain != 1.0).any():
        return [replace(motion, tau=gain * motion.tau) for motion in motions], gain, (), ()
    payloads: list[KnownPayload] = []
    notes: list[str] = []
    for payload in evidence.payloads:
        usable, said = usable_efforts(payload.motions, model, start)
        payloads.append(replace(payload, motions=usable))
        notes += said
    drives, doubts = drive_gains(
        motions, model, start.maximum_gap, replace(evidence, payloads=tuple(payloads))
    )
    gain[model.nv - len(drives) :] = [drive.gain for drive in drives]
    recorded, dropped = usable_efforts(
        [replace(motion, tau=gain * motion.tau) for motion in motions],
        model,
        replace(start, effort_kind="torque"),
    )
    return recorded, gain, drives, (*notes, *doubts, *dropped)


def _start(parameters: DetectorParameters) -> CalibratedParameters:
    """Return the parameters as calibrated parameters, with corrections of zero."""
    names = [item.name for item in fields(parameters)]
    return CalibratedParameters(**{name: getattr(parameters, name) for name in names})


def _refuse_other_efforts(motions: Sequence[Motion], model: Model, gap: float) -> list[str]:
    """Raise an error for efforts that are not torques; return warnings about the others."""
    scales = effort_scales(motions, model, gap)
    for scale in scales:
        if scale.text and (scale.is_reversed or scale.ratio > CERTAIN):
            raise RecordingError(scale.text)
    return [scale.text for scale in scales if scale.text]


def _what_does_not_fit(
    motions: Sequence[Motion], model: Model, known: DetectorParameters
) -> tuple[Mismatch, ...]:
    """Return mismatches in the longest motion that are too large for friction; a fit hides them."""
    motion = max(motions, key=lambda m: float(m.t[-1] - m.t[0]))
    limit = np.where(np.isfinite(model.effort_limit), model.effort_limit, 0.0)
    large = np.maximum(GROSS_FRICTION * np.array(known.friction_coulomb), GROSS_SHARE * limit) + 0.1
    plain = replace(
        known,
        friction_offset=(0.0,),
        contact_threshold=tuple(large),
        collision_threshold=tuple(2.0 * large),
    )
    return find_mismatches(motion, model, plain)


# Long: each step needs arrays of several previous steps, so separate functions would have a dozen
# parameters each.
def _with_thresholds(
    known: CalibratedParameters,
    model: Model,
    found: Identification,
    stretches: Sequence[Motion],
    noise: Sequence[tuple[Array, Array]],
    false_alarms_per_hour: float,
    notes: tuple[str, ...],
    least_time: float,
) -> Calibration:
    observer = known.make_observer(known.corrected(model))
    settled = [part.t[1:] - part.t[0] >= known.settling_time for part in stretches]
    residuals = [
        observer.filter(np.diff(t), x)[rows] for (t, x), rows in zip(noise, settled, strict=True)
    ]
    described = [
        observer.filter(np.diff(part.t), external_means(part, model))[rows]
        for part, rows in zip(stretches, settled, strict=True)
    ]
    before, after = np.concatenate(described), np.concatenate(residuals)
    speeds = [np.abs(part.v[1:][rows]) for part, rows in zip(stretches, settled, strict=True)]
    times = [part.t[1:][rows] for part, rows in zip(stretches, settled, strict=True)]
    duration = sum(float(t[-1] - t[0]) for t in times)
    if duration < least_time:
        raise RecordingError(
            f"{duration:.0f} s of motion can be used; {least_time:.0f} s are needed: record "
            f"longer, or give several recordings"
        )
    for part, t, r, v in zip(stretches, times, residuals, speeds, strict=True):
        _refuse_contact(part.name, t, r, v, after, found.coulomb, model)
    rms_speed = np.sqrt((np.concatenate(speeds) ** 2).mean(axis=0))
    slope = MODEL_MARGIN * found.error / rms_speed
    maxima = np.concatenate(
        [block_maxima(t, np.abs(r)) for t, r in zip(times, residuals, strict=True)]
    )
    # Half of the false alarms are assigned to the statistic.
    alarms = 0.5 * false_alarms_per_hour / model.nv
    level = alarm_levels(maxima, alarms)
    threshold = MARGIN * level + REVERSAL * found.coulomb
    pole, slow = (known.for_joints(name, model.nv) for name in ("observer_gain", "reversal_speed"))
    traces = [
        reversals(np.diff(part.t), part.v, slow, pole)[rows]
        for part, rows in zip(stretches, settled, strict=True)
    ]
    moving = _moving_ratio(times, residuals, traces, threshold, alarms)
    known = replace(known, moving_ratio=tuple(moving))
    left = [threshold * (1.0 - moving) * trace for trace in traces]
    spared = [threshold * (1.0 - moving) * (1.0 - trace) for trace in traces]
    unexplained = [r - np.clip(r, -a, a) for r, a in zip(residuals, left, strict=True)]
    matrix, whitening = covariance(unexplained)
    statistics = [statistic(r, whitening) for r in unexplained]
    # A sum of squares has the exponential tail that the extreme-value fit assumes.
    highest = np.concatenate(
        [block_maxima(t, s[:, None]) for t, s in zip(times, statistics, strict=True)]
    )
    square = alarm_levels(np.square(highest), 0.5 * false_alarms_per_hour)[0]
    statistic_level = STATISTIC_MARGIN * np.sqrt(square)
    # The statistic of the model error if all joints are wrong at the same time.
    fastest = np.sqrt(np.mean(np.concatenate(speeds).max(axis=1) ** 2))
    statistic_slope = _rms_statistic(whitening, found.error) / fastest
    known = replace(
        known,
        contact_threshold=tuple(threshold),
        threshold_speed=tuple(slope),
        residual_covariance=tuple(matrix.ravel()),
        statistic_threshold=float(statistic_level),
        statistic_speed=float(statistic_slope),
        collision_threshold=tuple(least_collision_thresholds(model, threshold)),
    )
    joints = tuple(
        JointCalibration(
            joint=joint,
            rms_before=_rms(before[:, i]),
            rms_after=_rms(after[:, i]),
            prediction_error=float(found.error[i]),
            largest=float(np.abs(after[:, i]).max()),
            threshold=float(threshold[i]),
        )
        for i, joint in enumerate(model.joint_names)
    )
    series = tuple(
        (part.name, t, b, r, threshold - a + slope * v)
        for part, t, b, r, v, a in zip(
            stretches, times, described, residuals, speeds, spared, strict=True
        )
    )
    return Calibration(
        known, joints, duration, false_alarms_per_hour, (*notes, *found.notes), series
    )


def _moving_ratio(
    times: Sequence[Array],
    residuals: Sequence[Array],
    traces: Sequence[Array],
    threshold: Array,
    alarms_per_hour: float,
) -> Array:
    """Return the share of the thresholds that suffices away from reversals, (nv,)."""
    r, trace = np.abs(np.concatenate(residuals)), np.concatenate(traces)
    away = [np.where(w < AWAY, np.abs(x), 0.0) for x, w in zip(residuals, traces, strict=True)]
    maxima = np.concatenate([block_maxima(t, x) for t, x in zip(times, away, strict=True)])
    ratio = np.ones_like(threshold)
    for i, column in enumerate(maxima.T):
        # Blocks in which the joint only reverses are excluded.
        told = column[column > 0.0]
        if told.size * BLOCK >= 0.5 * LEAST_TIME:
            level = MARGIN * alarm_levels(told[:, None], alarms_per_hour)[0] / threshold[i]
            # While the allowance of a reversal decays, it must still cover the residual.
            fading = trace[:, i] < 1.0
            w = trace[fading, i]
            seen = (SEEN * r[fading, i] / threshold[i] - w) / (1.0 - w)
            ratio[i] = min(max(level, float(seen.max(initial=0.0))), 1.0)
    return ratio


def _felt(model: Model, effort_kind: str) -> Model:
    """Return the model of the efforts; without gravity if the driver subtracts it."""
    if effort_kind != "torque_without_gravity":
        return model
    return replace(model, arrays=model.arrays._replace(gravity=np.zeros(3)))


def _rms_statistic(whitening: Array, error: Array) -> float:
    """Return the RMS of the statistic for independent joint errors of these sizes (nv,)."""
    return float(np.linalg.norm(whitening * error))


def _rms(x: Array) -> float:
    return float(np.sqrt((x**2).mean()))


def _refuse_contact(
    name: str, t: Array, r: Array, speed: Array, every: Array, coulomb: Array, model: Model
) -> None:
    """Raise an error for a motion with apparent contact: a long outlier of the residual."""
    centre = np.median(every, axis=0)
    spread = 1.4826 * np.median(np.abs(every - centre), axis=0)
    limit = SUSPICIOUS * spread + SUSPICIOUS_FRICTION * coulomb
    # The static friction of a joint that hardly moves is unknown, so it is not checked.
    out = (np.abs(r - centre) > limit) & (speed > SLOW)
    for i, joint in enumerate(model.joint_names):
        # Runs of outliers, by their first index and the index after their last.
        edges = np.flatnonzero(np.diff(out[:, i].astype(int), prepend=0, append=0))
        for begin, end in edges.reshape(-1, 2):
            if t[end - 1] - t[begin] >= SUSPICIOUS_TIME:
                peak = float(np.abs(r[begin:end, i]).max())
                raise RecordingError(
                    f"{name}: the residual of joint {joint!r} at {t[begin]:.2f} s reaches "
                    f"{peak:.2f} N·m or N and stays above {limit[i]:.2f} for "
                    f"{t[end - 1] - t[begin]:.2f} s, its usual spread being {spread[i]:.2g}: this "
                    f"looks like contact; remove this part, or record a motion without contact"
                )
