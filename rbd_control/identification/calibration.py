"""Calibration of the detector's parameters from motions without contact.

0. For efforts that are currents, the gains of the drives:
   :mod:`~rbd_control.identification.drive_gains`.
1. Friction and corrections of masses: :mod:`~rbd_control.identification.regression`; and the delay
   of the velocity: :mod:`~rbd_control.identification.delays`.
2. Observer gains with the shortest detection delay:
   :mod:`~rbd_control.identification.threshold_calibration`.
3. Contact thresholds for a rate of false alarms:
   :mod:`~rbd_control.identification.threshold_calibration`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.errors import InputError, RecordingError
from rbd_control.estimation.detector_parameters import LEAST_TORQUE_NOISE, DetectorParameters
from rbd_control.estimation.observers import LONGEST_DELAY
from rbd_control.estimation.thresholds import BLOCK
from rbd_control.identification.delays import Delay, delay_note, estimate_delay, with_delay
from rbd_control.identification.diagnosis import diagnose
from rbd_control.identification.drive_gains import (
    DriveGain,
    GainEvidence,
    KnownPayload,
    drive_gains,
)
from rbd_control.identification.efforts import are_unknown_currents, usable_efforts
from rbd_control.identification.motion import (
    SLOW,
    RecordedMotion,
    judged_samples,
    refuse_little_motion,
    torque_noise,
)
from rbd_control.identification.motion_errors import MotionErrors, estimate_motion_errors
from rbd_control.identification.regression import (
    FOLDS,
    Identification,
    best_model,
    external_means,
    filtered_columns,
    filtered_external,
    filtered_parts,
    identify,
    means,
)
from rbd_control.identification.threshold_calibration import (
    SETTLING,
    START,
    CalibratedParameters,
    FreeMotion,
    choose_gains,
    high_thresholds,
    refuse_contact,
    with_thresholds,
    worse_than_none,
)
from rbd_control.robot.friction import IDENTIFIED, Friction
from rbd_control.robot.inertial_corrections import CORRECTIONS, variations
from rbd_control.wording import rounded

Array = NDArray[np.float64]

LEAST_TIME = 20.0
"""Shortest motion that suffices to estimate the distribution of the residuals [s]."""
MOST_ROUNDS = 5
"""Largest number of rounds; each identifies friction and masses, then the velocity's delay."""
DELAY_TOLERANCE = 0.05
"""Change of the delay of the velocity below which the rounds end, as a fraction of the delay."""
SURE = 4.0
"""Number of its standard errors that a delay of the velocity must exceed to be corrected."""
CHANGED, LEAST_CHANGE = 2.0, 0.05
"""Change of friction that is reported: in standard errors, and as a share of the friction."""
PARTS = 5
"""Number of parts of a third of the motion from which the standard error is computed."""
WARM_UP = 20.0
"""Motion after which the friction of most arms changes little [min]."""
LEAST_GAIN = SETTLING / 10.0
"""Lowest observer gain that may be kept [1/s]; a lower gain needs a ``settling_time`` above its
upper bound of 10 s."""


@dataclass(frozen=True)
class JointCalibration:
    """Results of the calibration for one joint; residuals and threshold in N·m or N.

    A residual is the filtered external torque that a model leaves in motions without contact.
    """

    joint: str
    rms_before: float
    """RMS residual of the model as described, without friction."""
    rms_after: float
    """RMS residual of the identified model."""
    prediction_error: float
    """RMS error of the identified model in parts of the motion that it was not fitted to."""
    largest: float
    """Largest absolute residual of the identified model."""
    threshold: float
    """The parameter ``contact_threshold`` of the joint, to which its speed adds."""
    unit: str = "N·m"
    """``N·m``, or ``N`` for a prismatic joint."""


@dataclass(frozen=True)
class FrictionChange:
    """Change of a joint's friction from the first to the last third of the motion."""

    joint: str
    share: float
    """Change as a share of the friction in the first third."""
    error: float
    """Its standard error."""

    @property
    def text(self) -> str:
        """The change and what to do."""
        if self.share < 0.0:
            verb, reason = "fell", "the arm was still warming up"
        else:
            verb, reason = "rose", "the arm cooled down, or friction depends on the posture"
        return (
            f"friction of {self.joint} {verb} by {100.0 * abs(self.share):.0f} ± "
            f"{100.0 * self.error:.0f} % from the first to the last third of the motion: {reason}; "
            f"record again after {WARM_UP:g} minutes of motion, or leave follow_friction on"
        )


@dataclass(frozen=True, eq=False)
class Calibration:
    """The calibrated parameters, and the data on which they are based.

    ``joints`` has the results of each joint, in the order of ``model.joint_names``.
    """

    parameters: CalibratedParameters
    """Parameters of the detector, for the corrected model ``parameters.corrected(model)``."""
    joints: tuple[JointCalibration, ...]
    duration: float
    """Total duration of the motions that were used, without the settling of the observer [s]."""
    false_alarms_per_hour: float
    """Required rate of false alarms over all joints, from which the thresholds are computed [1/h].

    The rate holds for motions like the recorded motions.
    """
    notes: tuple[str, ...]
    """Notes for the user, the most serious first: thresholds above those without a calibration,
    efforts that do not fit the model, samples that are left out, and unidentified or implausible
    results."""
    residuals: tuple[tuple[str, Array, Array, Array, Array], ...]
    """For each stretch of motion without gaps, after the observer has settled: the name of the
    recording, times (k,) [s], and three arrays (k, nv) [N·m or N]: residuals of the model as
    described, residuals of the identified model, and contact thresholds at the motion of each
    sample."""
    gains: tuple[DriveGain, ...] = ()
    """Gains of the drives in the order of the joints; empty if no gains were identified."""
    support: str = ""
    """Text on the accelerations that the motions contain, and how thresholds grow beyond them."""
    worse: str = ""
    """Why the arm is better off without this calibration; empty if it is not."""
    moving: float = 0.0
    """Time for which a joint moved in the motions [s]; friction falls as the joints warm up."""
    friction_change: FrictionChange | None = None
    """The largest change of a joint's friction during the motions; None if none is significant."""


def calibrate(
    motions: Sequence[RecordedMotion],
    model: Model,
    parameters: DetectorParameters | None = None,
    *,
    alone: Model | None = None,
    false_alarms_per_hour: float = 1.0,
    keep_gain: bool = False,
    evidence: GainEvidence | None = None,
    least_time: float = LEAST_TIME,
) -> Calibration:
    """Identify errors of the model from motions without contact; choose gains and thresholds.

    Friction, corrections of masses, the delay of the velocity and, for currents, the gains of the
    drives are identified. Then observer gains and thresholds of the detector are chosen.

    Args:
        motions: contact-free motions of the arm, at least twenty seconds in total; ``tau`` is the
            effort as published.
        model: the robot as described, without corrections.
        parameters: kind of observer, kind of effort, and timing; by default a first-order observer,
            and efforts that are torques. For currents, an ``effort_gain`` of 1
            on all joints means that the gains are unknown and are identified. A ``velocity_delay``
            above 0 is kept.
        alone: the robot without its payload, by default ``model``. Corrections leave its bodies
            with mass, so that they hold with any payload.
        false_alarms_per_hour: required rate of false alarms over all joints [1/h].
        keep_gain: whether to keep the ``observer_gain`` of ``parameters``.
        evidence: known payloads and known gains of drives, for currents whose ``effort_gain`` is to
            be identified.
        least_time: shortest total duration of the motions after the observer has settled [s];
            thresholds from less than twenty seconds are an estimate for a report, not for a running
            detector.

    Returns:
        The calibrated parameters, the data on which they are based, and notes. In the parameters
        ``onset_debounce`` is 0, and ``settling_time`` is at least six time constants of the slowest
        observer.

    Raises:
        RecordingError: for too little motion, apparent contact, velocities that contradict the
            positions, or an effort that is missing, implausible, reversed or in another unit than
            declared; the message names the joint or the time. Also if the efforts refute
            ``effort_kind`` while ``check_effort_kind`` is true.
        DriveGainError: when the gain of a drive cannot be identified accurately enough.
        InputError: for a known gain of a joint that the model lacks, a rate of false alarms that is
            not above 0 and below ``3600 / BLOCK`` per hour, a model with a floating base, and an
            ``observer_gain`` to keep that is below :data:`LEAST_GAIN`.
        ParameterError: for a per-joint parameter of the wrong length.
    """
    start = _start(parameters or START)
    _refuse_unsupported(model, false_alarms_per_hour, start.observer_gain if keep_gain else ())
    motions = _with_motion(motions, model)
    motions, notes = usable_efforts(motions, model, start)
    gap = start.maximum_gap
    wrong: tuple[str, ...] = ()
    if not are_unknown_currents(model, start):
        wrong = _refuse_what_is_wrong(motions, model, start)
    recorded, gain, drives, said = _in_torque(motions, model, start, evidence or GainEvidence())
    felt = _felt(model, start.effort_kind)
    start = replace(
        start,
        effort_gain=tuple(gain),
        onset_debounce=0.0,
        torque_noise=tuple(np.maximum(torque_noise(recorded), LEAST_TORQUE_NOISE)),
    )
    if drives:
        unknown = np.zeros(model.nv)
        unknown[model.nv - len(drives) :] = [drive.relative_error for drive in drives]
        start = replace(start, effort_gain_error=tuple(unknown))
    recorded, found, known, rest, held_out = _identified(recorded, felt, alone or model, start)
    stretches = [part for motion in recorded for part in motion.stretches(gap, 4.0 * BLOCK)]
    _refuse_short(_duration(stretches), least_time)
    friction, true = known.friction(model.nv), known.corrected(felt)
    noise = [
        (part.t, external_means(part, true) + means(friction.torque(part.v))) for part in stretches
    ]
    unfitted = _held_out_means(stretches, felt, held_out)
    errors = estimate_motion_errors(stretches, unfitted, true, rest, known.velocity_delay)
    known = replace(
        known,
        inertia_error=tuple(errors.inertia),
        delay_error=errors.delay,
        calibrated_rate=1.0 / float(np.median(np.concatenate([np.diff(t) for t, _ in noise]))),
    )
    if not keep_gain:
        gains = choose_gains(
            model,
            [(t, x) for (t, _), x in zip(noise, unfitted, strict=True)],
            np.concatenate([part.q for part in stretches]),
            lambda K: replace(start, observer_gain=(K,)).make_observer(model),
            0.5 * false_alarms_per_hour / model.nv,
        )
        known = replace(known, observer_gain=tuple(gains))
    settling = max(start.settling_time, round(SETTLING / min(known.observer_gain), 3))
    known = replace(known, settling_time=settling)
    if drives:
        # Identified gains have standard errors, which contain that the description is wrong.
        as_torque = replace(start, effort_kind="torque", effort_gain=(1.0,))
        found_wrong = diagnose(recorded, model, as_torque).lines
        wrong = tuple(line.text for line in found_wrong if line.level == "bad")
    free = _free_motions(stretches, known, felt, noise, unfitted, least_time)
    refuse_contact(free, found.friction.dry(felt.nv), felt)
    known = with_thresholds(
        known,
        felt,
        free,
        prediction_error=found.error,
        false_alarms_per_hour=false_alarms_per_hour,
    )
    support = _support(free, errors, model)
    return Calibration(
        known,
        _joints(free, known, found.error, model),
        _duration(free),
        false_alarms_per_hour,
        (*high_thresholds(known, model), *wrong, *notes, *said, *found.notes),
        tuple((x.name, x.t, x.described, x.residual, x.thresholds(known)) for x in free),
        drives,
        support,
        worse_than_none(known, free, felt),
        _moving_time(recorded, gap),
        _friction_change(stretches, true, friction, gap),
    )


def _identified(
    recorded: Sequence[RecordedMotion], felt: Model, alone: Model, start: CalibratedParameters
) -> tuple[
    list[RecordedMotion], Identification, CalibratedParameters, Delay, list[CalibratedParameters]
]:
    """Return the motions with delayed torque, what was identified, and the parameters with it.

    The last two results are the delay of the velocity that remains, and for each of
    :data:`~rbd_control.identification.regression.FOLDS` shares of the motion (:func:`_folds`)
    the parameters with a model that was identified from the other shares.

    The motions have only samples that the detector judges, as the thresholds are for these.
    Friction and masses are identified with a known delay of the velocity, and the delay with known
    friction and masses, alternately until it changes little, for at most :data:`MOST_ROUNDS`
    rounds. A delay above 0 in ``start`` is kept.

    Raises:
        RecordingError: if the detector judges no sample, or no part of the motions without gaps is
            long enough.
    """
    gap, delay = start.maximum_gap, start.velocity_delay
    recorded, ignored = judged_samples(recorded, felt, start)
    if not recorded:
        raise RecordingError(f"the detector judges no sample: {'; '.join(ignored)}")
    note: tuple[str, ...] = ()
    # A delay changes the measured torque, and hardly how it depends on friction and masses.
    own = {(i, column) for i, column, _ in variations(alone)}
    changes = [change for change in variations(felt) if change[:2] in own]
    columns = [filtered_columns(recorded, felt, gap, changes, kind, alone) for kind in IDENTIFIED]
    for _ in range(MOST_ROUNDS):
        motions = [with_delay(motion, felt, delay) for motion in recorded]
        x = filtered_external(motions, felt, gap)
        found = best_model(identify(replace(each, x=x), alone) for each in columns)
        known = _with_model(replace(start, velocity_delay=delay), found)
        # The estimate is of first order, so it is repeated for the remaining delay.
        rest = estimate_delay(motions, known.corrected(felt), known.friction(felt.nv), gap, delay)
        if start.velocity_delay != 0.0:
            break
        note = delay_note(delay, rest)
        if abs(rest.value) <= (DELAY_TOLERANCE * abs(delay) or SURE * rest.error):
            break
        before = delay
        delay = round(float(np.clip(delay + rest.value, -LONGEST_DELAY, LONGEST_DELAY)), 5)
        if delay == before:
            break
    chosen = next(each for each in columns if each.model is type(found.friction))
    folds = _folds(len(x))
    others = [identify(replace(chosen, x=x).rows(folds != fold), alone) for fold in range(FOLDS)]
    held_out = [_with_model(known, other) for other in others]
    return motions, replace(found, notes=(*ignored, *found.notes, *note)), known, rest, held_out


ROUNDS = 2
"""Number of blocks of which each share of the motion consists, so that the shares are alike."""


def _folds(count: int) -> NDArray[np.int64]:
    """Return the share of the motion to which each of ``count`` rows in succession belongs.

    The rows are cut into ``ROUNDS`` times ``FOLDS`` blocks, which belong to the shares in turn.
    """
    return np.asarray(np.arange(count) * (ROUNDS * FOLDS) // max(count, 1) % FOLDS)


def _held_out_means(
    stretches: Sequence[RecordedMotion], felt: Model, held_out: Sequence[CalibratedParameters]
) -> list[Array]:
    """Return the mean external torques of each stretch by models that were not fitted to them.

    Args:
        stretches: parts of the motions without gaps, k + 1 samples each.
        felt: the robot, with the gravity that the efforts contain.
        held_out: for each share of the motion (:func:`_folds`) the parameters with a model that was
            identified from the other shares. The rows of the identification are spread evenly over
            the motions, so that the borders of the shares are the same up to its filter's time.

    Returns:
        Means between the samples, (k, nv) [N·m or N].
    """
    sizes = [part.t.size - 1 for part in stretches]
    folds = _folds(sum(sizes))
    models = [(known.corrected(felt), known.friction(felt.nv)) for known in held_out]
    found, first = [], 0
    for part, size in zip(stretches, sizes, strict=True):
        x, fold = np.empty((size, felt.nv)), folds[first : first + size]
        edges = [0, *(np.flatnonzero(np.diff(fold)) + 1).tolist(), size]
        for a, b in zip(edges[:-1], edges[1:], strict=True):
            true, friction = models[fold[a]]
            piece = part.only(np.arange(a, b + 1))
            x[a:b] = external_means(piece, true) + means(friction.torque(piece.v))
        found.append(x)
        first += size
    return found


def _with_model(start: CalibratedParameters, found: Identification) -> CalibratedParameters:
    """Return the parameters with the identified friction and corrections."""
    corrections: dict[str, Any] = dict(
        zip(CORRECTIONS, map(tuple, found.corrections.T), strict=True)
    )
    model, values = found.friction.named()
    corrections |= {name: tuple(value) for name, value in values.items()}
    return replace(
        start,
        friction_model=model,
        **corrections,
    )


def _in_torque(
    motions: Sequence[RecordedMotion],
    model: Model,
    start: DetectorParameters,
    evidence: GainEvidence,
) -> tuple[list[RecordedMotion], Array, tuple[DriveGain, ...], tuple[str, ...]]:
    """Return the motions with efforts in N·m or N, the gains of all joints, and their drives.

    Args:
        motions: motions as recorded.
        model: the robot as described.
        start: kind of the effort; currents whose gains are all one have unknown gains.
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
    """Return the parameters as calibrated parameters; corrections that they lack are zero."""
    names = [item.name for item in fields(parameters)]
    return CalibratedParameters(**{name: getattr(parameters, name) for name in names})


def _refuse_what_is_wrong(
    motions: Sequence[RecordedMotion], model: Model, start: DetectorParameters
) -> tuple[str, ...]:
    """Raise an error for what ``check`` calls wrong; return what it calls doubtful as notes.

    Friction, rotors, delays and biases are left out, because the calibration identifies them. It
    identifies masses as well, but those of another arm are noted.
    """
    lines = diagnose(motions, model, start).lines
    wrong = [line for line in lines if line.level == "bad" and line.topic in REFUSED]
    if not start.check_effort_kind:
        wrong = [line for line in wrong if line.values.get("kind") not in GRAVITY_KINDS]
    if wrong:
        raise RecordingError("; ".join(f"{line.topic}: {line.text}" for line in wrong))
    return tuple(
        CORRECTED.format(**line.values) if line.topic == "masses" else line.text
        for line in lines
        if (line.level == "doubtful" and line.topic in REFUSED and line.is_finding)
        or line.topic == "masses"
    )


CORRECTED = (
    "the masses of the description are {masses:.2f} ± {deviation:.2g} times those of this arm, or "
    "all efforts {gain:.2f} times the torque: this calibration corrects the masses; with the URDF "
    "of this arm, or the right effort_gain, it would be more exact"
)
"""Note about masses, which a calibration corrects."""


REFUSED = ("effort", "resolution", "order of joints", "payload", "mounting")
"""Topics of the check whose red lines end a calibration, and whose yellow lines are notes."""
GRAVITY_KINDS = ("torque", "torque_without_gravity")
"""Kinds of efforts of red lines that ``check_effort_kind: false`` permits."""


def _felt(model: Model, effort_kind: str) -> Model:
    """Return the model of the published torque: without gravity if the driver subtracts it."""
    if effort_kind != "torque_without_gravity":
        return model
    return replace(model, arrays=model.arrays._replace(gravity=np.zeros(3)))


def _support(free: Sequence[FreeMotion], errors: MotionErrors, model: Model) -> str:
    """Return a text on the accelerations that the motions contain, per joint.

    They are the largest rates of the momentum and of the motor torque.
    """
    rates = np.max([motion.largest_rates for motion in free], axis=0)
    first = model.nv - len(model.joint_names)
    said = ", ".join(
        f"{joint} {rounded(rates[0, i])} and {rounded(rates[1, i])}"
        for i, joint in enumerate(model.joint_names, first)
    )
    unit = model.torque_unit()
    return (
        f"the motions contain accelerations with torques up to [{unit}], and changes of the motor "
        f"torque up to [{unit} per s]: {said}; in faster motions, such as stops, thresholds "
        f"grow by {_percent(errors.inertia)} of the torque of the acceleration, and by the change "
        f"of the motor torque in {1e3 * errors.delay:.2g} ms; record fast starts and stops to make "
        f"them grow less"
    )


def _percent(shares: Array) -> str:
    """Return the range of shares as a text."""
    ends = (f"{100.0 * each:.0f}" for each in (shares.min(), shares.max()))
    return f"{' to '.join(dict.fromkeys(ends))} %"


def _free_motions(
    stretches: Sequence[RecordedMotion],
    known: CalibratedParameters,
    model: Model,
    noise: Sequence[tuple[Array, Array]],
    held_out: Sequence[Array],
    least_time: float,
) -> list[FreeMotion]:
    """Return the residuals of the stretches in which the observer settles.

    Raises:
        RecordingError: if they are shorter than ``least_time`` in total [s].
    """
    every = (
        FreeMotion.of(part, known, model, x, held)
        for part, x, held in zip(stretches, noise, held_out, strict=True)
    )
    free = [motion for motion in every if motion.t.size]
    _refuse_short(_duration(free), least_time)
    return free


def _refuse_short(duration: float, least_time: float) -> None:
    """Raise a RecordingError if ``duration`` is shorter than ``least_time`` [s]."""
    if duration < least_time:
        raise RecordingError(
            f"{duration:.0f} s of motion can be used; {least_time:.0f} s are needed: record "
            "longer, or give several recordings"
        )


def _refuse_unsupported(
    model: Model, false_alarms_per_hour: float, kept_gains: Sequence[float]
) -> None:
    """Raise an InputError for arguments with which no calibration is possible.

    A floating base is refused, because its six coordinates have no motors. So is a rate of false
    alarms [1/h] that is not above 0 and below one alarm per block. ``kept_gains`` are the given
    observer gains [1/s], none if the calibration chooses them; a gain below :data:`LEAST_GAIN` is
    refused.
    """
    if model.floating_base:
        raise InputError(
            "calibration of an arm with a floating base is not supported; fix the base to the "
            "world and calibrate the arm with a model without floating base"
        )
    highest = 3600.0 / BLOCK
    if not 0.0 < false_alarms_per_hour < highest:
        raise InputError(
            f"false_alarms_per_hour is {false_alarms_per_hour:g}; it must be above 0 and below "
            f"{highest:g}"
        )
    kept_gain = min(kept_gains, default=np.inf)
    if kept_gain < LEAST_GAIN:
        raise InputError(
            f"observer_gain (--gain) is {kept_gain:g} 1/s; it must be at least {LEAST_GAIN:g} 1/s, "
            "because the observer of a lower gain takes too long to settle"
        )


def _with_motion(motions: Sequence[RecordedMotion], model: Model) -> list[RecordedMotion]:
    """Return the motions of more than one sample.

    Raises:
        RecordingError: if there is none, or a joint moves too little in them.
    """
    moving = [motion for motion in motions if motion.t.size > 1]
    if not moving:
        raise RecordingError("there is no motion to calibrate with")
    refuse_little_motion(moving, model)
    return moving


def _duration(motions: Sequence[FreeMotion | RecordedMotion]) -> float:
    """Return the duration of all motions together [s]; each has at least one sample."""
    return sum(float(motion.t[-1] - motion.t[0]) for motion in motions)


def _moving_time(motions: Sequence[RecordedMotion], maximum_gap: float) -> float:
    """Return the time for which a joint is faster than :data:`~.motion.SLOW`, without gaps [s]."""
    steps = [(np.diff(m.t), (np.abs(m.v[1:]) > SLOW).any(axis=1)) for m in motions]
    return sum(float(dt[moves & (dt <= maximum_gap)].sum()) for dt, moves in steps)


def _friction_change(
    stretches: Sequence[RecordedMotion], true: Model, friction: Friction, maximum_gap: float
) -> FrictionChange | None:
    """Return the largest significant change of a joint's friction, or None.

    In each third, the residual is fitted by a share of the identified friction and a constant. The
    standard error comes from :data:`PARTS` parts of the third, within which errors of the model may
    be alike.

    Args:
        stretches: the motions without gaps, in their order.
        true: the identified model.
        friction: the identified friction.
        maximum_gap: longest time between two samples [s].
    """
    offset = friction.torque(np.zeros(true.nv))
    r, f = [], []
    for part in filtered_parts(stretches, true, maximum_gap):
        torque = means(friction.torque(part.motion.v))
        r.append(part.thin(external_means(part.motion, true) + torque))
        f.append(part.thin(torque - offset))
    thirds = zip(*(np.array_split(np.concatenate(x), 3)[::2] for x in (r, f)), strict=True)
    fits = np.array([_share(*third) for third in thirds])
    (first, last), errors = 1.0 + fits[:, 0], np.hypot(*fits[:, 1])
    with np.errstate(divide="ignore", invalid="ignore"):
        share, error = last / first - 1.0, errors / np.abs(first)
        significant = np.abs(share) > np.maximum(CHANGED * error, LEAST_CHANGE)
    if not significant.any():
        return None
    i = int(np.argmax(np.where(significant, np.abs(share), 0.0)))
    return FrictionChange(true.joint_names[i], float(share[i]), float(error[i]))


def _share(r: Array, f: Array) -> tuple[Array, Array]:
    """Return the share of the friction ``f`` (n, nv) that is missing in it, and its error, (nv,).

    The residual ``r`` (n, nv) is a constant less that share of ``f``.
    """
    f, r = f - f.mean(axis=0), r - r.mean(axis=0)
    square = np.square(f).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = -(f * r).sum(axis=0) / square
        parts = np.array_split(f * (r + share * f), PARTS)
        sums = np.array([part.sum(axis=0) for part in parts])
        error = np.sqrt(np.square(sums).sum(axis=0) * PARTS / (PARTS - 1.0)) / square
    return share, error


def _joints(
    free: Sequence[FreeMotion], known: CalibratedParameters, error: Array, model: Model
) -> tuple[JointCalibration, ...]:
    """Return the results of each joint; ``error`` is its prediction error, (nv,) [N·m or N]."""
    before = np.concatenate([motion.described for motion in free])
    after = np.concatenate([motion.residual for motion in free])
    threshold = known.for_joints("contact_threshold", model.nv)
    return tuple(
        JointCalibration(
            joint=joint,
            rms_before=_rms(before[:, i]),
            rms_after=_rms(after[:, i]),
            prediction_error=float(error[i]),
            largest=float(np.abs(after[:, i]).max()),
            threshold=float(threshold[i]),
            unit=model.torque_unit(model.joint_index(joint)),
        )
        for i, joint in enumerate(model.joint_names)
    )


def _rms(x: Array) -> float:
    return float(np.sqrt((x**2).mean()))
