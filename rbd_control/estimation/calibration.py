"""Everything the detector needs to know of an arm, from motions without contact.

0. For efforts that are currents, the gains of the drives:
   :mod:`~rbd_control.estimation.drive_gains`.
1. Friction and corrections of masses: :mod:`~rbd_control.estimation.identification`.
2. Observer gains, the ones that would notice pushes soonest: :mod:`~rbd_control.estimation.tuning`.
3. Contact thresholds. The residual that is left passes the threshold of its joint as seldom as
   wanted: :mod:`~rbd_control.estimation.alarm_levels`.

What the motions do not show. Some tens of seconds hold every kind of noise, but not every posture
and speed, and another motion brings other errors of the model. How large these are, identification
tells: it is the error ``e`` of predicting parts of the motion from others. It grows with the
motion, so the threshold of a joint does::

    threshold(v) = MARGIN level + REVERSAL coulomb + MODEL_MARGIN (e / rms(v)) |v|

The second part is for reversals: each leaves a peak of its own height, a part of dry friction that
the filter lets through, and tens of seconds hold few of them. Away from reversals the first two
parts are smaller, by ``moving_ratio``, whose level is taken from what was recorded there.

The rate of false alarms that is promised holds for motions like the recorded ones, with both
margins to spare for others.
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
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.drive_gains import DriveGain, GainEvidence, KnownPayload, drive_gains
from rbd_control.estimation.effort_scale import CERTAIN, effort_scales, usable_efforts
from rbd_control.estimation.identification import Identification, external_means, identify, means
from rbd_control.estimation.mismatch import Mismatch, find_mismatches
from rbd_control.estimation.motion import SLOW, Motion, refuse_little_motion
from rbd_control.estimation.reversals import reversals
from rbd_control.estimation.tuning import SETTLING, choose_gains, covariance, statistic
from rbd_control.robot.inertial_corrections import CORRECTIONS, InertialCorrections

Array = NDArray[np.float64]

LEAST_TIME = 20.0
"""Motion that is needed [s]: less is too little to tell a distribution from."""
MARGIN = 1.2
"""Thresholds are this many times the level of the wanted false-alarm rate."""
REVERSAL = 0.4
"""Part of a joint's Coulomb friction that thresholds leave room for besides."""
AWAY = 0.05
"""A joint is away from its reversals where less than this is left of their trace."""
STATISTIC_MARGIN = 1.5
"""That of the statistic over all joints is this many times its level."""
MODEL_MARGIN = 2.0
"""Standard deviations of the model's error elsewhere that thresholds leave room for."""
SUSPICIOUS = 8.0
"""A residual this many robust standard deviations large ..."""
SUSPICIOUS_FRICTION = 0.5
"""... and this part of the joint's Coulomb friction besides ..."""
SUSPICIOUS_TIME = 0.05
"""... for this long [s] looks like contact."""
GROSS_FRICTION = 4.0
"""An error of half of so many times a joint's Coulomb friction ..."""
GROSS_SHARE = 0.05
"""... and of half this share of its effort limit is worth an explanation."""


@dataclass(frozen=True)
class CalibratedParameters(DetectorParameters, InertialCorrections):
    """What calibration finds: the detector's parameters, and what it corrects of the arm."""


START = CalibratedParameters(observer="second_order", observer_damping=0.7)
"""What calibration begins with: the observer that measured best (see docs/detection.md)."""


@dataclass(frozen=True)
class JointCalibration:
    """What calibration found of one joint [N·m or N]."""

    joint: str
    rms_before: float
    """Residual of the URDF's model without friction."""
    rms_after: float
    """Residual with what was identified."""
    prediction_error: float
    """RMS error of the model in parts of the motion it was not fitted to."""
    largest: float
    """Largest absolute residual with what was identified."""
    threshold: float
    """Contact threshold at rest."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """What was found of the arm and the detector's parameters, and what they rest on."""

    parameters: CalibratedParameters
    """The detector takes them with the corrected model, ``parameters.corrected(model)``."""
    joints: tuple[JointCalibration, ...]
    duration: float
    """Motion that was used [s]."""
    false_alarms_per_hour: float
    """What the thresholds imply, for motions like the recorded ones."""
    notes: tuple[str, ...]
    """What could not be identified and what looks implausible."""
    residuals: tuple[tuple[str, Array, Array, Array, Array], ...]
    """Of each stretch: name, times (k,) [s]; before and after, and thresholds, (k, nv)."""
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
        motions: contact-free motions of the arm, twenty seconds in all at the least.
        model: the robot, as described.
        parameters: the kind of observer, the kind of effort and timing; for currents
            ``effort_gain`` too, unless it is 1, which is to be identified.
        false_alarms_per_hour: wanted over all joints.
        keep_gain: whether ``observer_gain`` is taken from ``parameters``, not chosen.
        evidence: known payloads and known gains of drives, for currents whose ``effort_gain`` is to
            be identified.
        least_time: motion that is needed [s]; thresholds from less than twenty seconds are an
            estimate for a report, and none to run a detector with.

    Returns:
        The parameters, what they rest on, and notes on everything that is doubtful.

    Raises:
        RecordingError: naming the joint or the moment, when there is too little motion, what looks
            like contact, or a joint whose effort is missing, absurd, reversed or in another unit
            than declared.
        DriveGainError: when the gain of a drive cannot be identified.
    """
    start = _start(parameters or START)
    refuse_little_motion(motions, model)
    motions, notes = usable_efforts(motions, model, start)
    gap = start.maximum_gap
    recorded, gain, drives, said = _in_torque(motions, model, start, evidence or GainEvidence())
    notes = (*notes, *said)
    felt = _felt(model, start.effort_kind)
    found = identify(recorded, felt, gap)
    corrections: dict[str, Any] = dict(
        zip(CORRECTIONS, map(tuple, found.corrections.T), strict=True)
    )
    known = replace(
        start,
        effort_gain=tuple(gain),
        friction_model="stribeck" if found.stribeck.any() else "coulomb_viscous",
        friction_coulomb=tuple(found.coulomb),
        friction_viscous=tuple(found.viscous),
        friction_offset=tuple(found.offset),
        friction_velocity_scale=tuple(found.velocity_scale),
        friction_stribeck=tuple(found.stribeck),
        friction_stribeck_velocity=tuple(found.stribeck_velocity),
        onset_debounce=0.0,
        **corrections,
    )
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
    # Identified gains are known with their errors; the scales below know nothing of rotors.
    if not drives and not any(mismatch.kind == "gravity" for mismatch in mismatches):
        notes = (*notes, *_refuse_other_efforts(recorded, felt, gap))
    calibration = _with_thresholds(
        known, felt, found, stretches, noise, false_alarms_per_hour, notes, least_time
    )
    return replace(calibration, gains=drives)


def _in_torque(
    motions: Sequence[Motion], model: Model, start: DetectorParameters, evidence: GainEvidence
) -> tuple[list[Motion], Array, tuple[DriveGain, ...], tuple[str, ...]]:
    """Return the motions with efforts in N·m or N, the gains of all joints, and how they are known.

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
    """Return the parameters with room for what will be identified."""
    names = [item.name for item in fields(parameters)]
    return CalibratedParameters(**{name: getattr(parameters, name) for name in names})


def _refuse_other_efforts(motions: Sequence[Motion], model: Model, gap: float) -> list[str]:
    """Refuse joints whose effort is no torque, and return what is doubtful about the others."""
    scales = effort_scales(motions, model, gap)
    for scale in scales:
        if scale.text and (scale.is_reversed or scale.ratio > CERTAIN):
            raise RecordingError(scale.text)
    return [scale.text for scale in scales if scale.text]


def _what_does_not_fit(
    motions: Sequence[Motion], model: Model, known: DetectorParameters
) -> tuple[Mismatch, ...]:
    """Return errors of the longest motion far larger than friction, which fits would only hide."""
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


# Long: every step needs arrays of several steps before it, so parts of it would have a dozen
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
    # Half of the alarms are left to the statistic.
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
    # A sum of squares has the exponential tail that its extremes are taken to have.
    highest = np.concatenate(
        [block_maxima(t, s[:, None]) for t, s in zip(times, statistics, strict=True)]
    )
    square = alarm_levels(np.square(highest), 0.5 * false_alarms_per_hour)[0]
    statistic_level = STATISTIC_MARGIN * np.sqrt(square)
    # The error of the model as the statistic sees it, were all joints wrong at once.
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
    """Part of the thresholds that suffices away from reversals, (nv,)."""
    r, trace = np.abs(np.concatenate(residuals)), np.concatenate(traces)
    away = [np.where(w < AWAY, np.abs(x), 0.0) for x, w in zip(residuals, traces, strict=True)]
    maxima = np.concatenate([block_maxima(t, x) for t, x in zip(times, away, strict=True)])
    ratio = np.ones_like(threshold)
    for i, column in enumerate(maxima.T):
        # Blocks in which the joint has done nothing but reverse say nothing.
        told = column[column > 0.0]
        if told.size * BLOCK >= 0.5 * LEAST_TIME:
            level = MARGIN * alarm_levels(told[:, None], alarms_per_hour)[0] / threshold[i]
            # While an allowance fades, what is seen has to pass too.
            fading = trace[:, i] < 1.0
            w = trace[fading, i]
            seen = (SEEN * r[fading, i] / threshold[i] - w) / (1.0 - w)
            ratio[i] = min(max(level, float(seen.max(initial=0.0))), 1.0)
    return ratio


def _felt(model: Model, effort_kind: str) -> Model:
    """Return the model of what the efforts hold: without gravity where the driver takes it off."""
    if effort_kind != "torque_without_gravity":
        return model
    return replace(model, arrays=model.arrays._replace(gravity=np.zeros(3)))


def _rms_statistic(whitening: Array, error: Array) -> float:
    """RMS of the statistic for independent errors of the joints of these sizes (nv,)."""
    return float(np.linalg.norm(whitening * error))


def _rms(x: Array) -> float:
    return float(np.sqrt((x**2).mean()))


def _refuse_contact(
    name: str, t: Array, r: Array, speed: Array, every: Array, coulomb: Array, model: Model
) -> None:
    """Refuse a motion whose residual stands out for a while: somebody touched the arm."""
    centre = np.median(every, axis=0)
    spread = 1.4826 * np.median(np.abs(every - centre), axis=0)
    limit = SUSPICIOUS * spread + SUSPICIOUS_FRICTION * coulomb
    # In a joint that hardly moves dry friction may be anything: that is no contact.
    out = (np.abs(r - centre) > limit) & (speed > SLOW)
    for i, joint in enumerate(model.joint_names):
        # Runs of samples that stand out, by their first and one past their last.
        edges = np.flatnonzero(np.diff(out[:, i].astype(int), prepend=0, append=0))
        for begin, end in edges.reshape(-1, 2):
            if t[end - 1] - t[begin] >= SUSPICIOUS_TIME:
                peak = float(np.abs(r[begin:end, i]).max())
                raise RecordingError(
                    f"{name}: the residual of joint {joint!r} at {t[begin]:.2f} s reaches "
                    f"{peak:.2f} N·m or N and stays above {limit[i]:.2f} for "
                    f"{t[end - 1] - t[begin]:.2f} s, its usual spread being {spread[i]:.2g}: this "
                    f"looks like contact; cut it out or record a motion without"
                )
