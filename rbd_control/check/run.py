"""The check of a recording: timing, efforts, arm, and weakest detectable pushes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.check.timing import timing_lines, velocity_line
from rbd_control.check.verdicts import with_verdicts
from rbd_control.check.weakest_push import WeakestPush, weakest_pushes_in
from rbd_control.dynamics import Model
from rbd_control.errors import RbdControlError, RecordingError
from rbd_control.estimation import DetectorParameters
from rbd_control.estimation.thresholds import with_default_thresholds
from rbd_control.identification import RecordedMotion, calibrate
from rbd_control.identification.diagnosis import Diagnosis, diagnose
from rbd_control.identification.efforts import JointEffort, effort_lines, measured, unmeasured
from rbd_control.identification.evidence import Evidence, gather
from rbd_control.identification.findings import Level, Line, worst
from rbd_control.identification.threshold_calibration import START
from rbd_control.playback.motions import read_motions, without_true_contact
from rbd_control.playback.recording import Recording
from rbd_control.robot import EffortParameters
from rbd_control.wording import listed

Array = NDArray[np.float64]

LEAST_TIME = 8.0
"""Shortest motion for estimated thresholds [s]; the command ``calibrate`` needs more."""


@dataclass(frozen=True, eq=False)
class CheckResult:
    """The result of a check of a recording, whose path is ``recording``."""

    recording: str
    duration: float
    """Time from the first to the last sample [s]."""
    lines: tuple[Line, ...]
    """The findings, each with topic, level and text."""
    efforts: tuple[JointEffort, ...]
    """The effort of each joint; empty without usable motion, with wrong velocities, or if no part
    of the motion is long enough."""
    pushes: tuple[WeakestPush, ...]
    """The weakest detectable push on each link; empty if the arm cannot be checked, or if the
    detector cannot be used with the thresholds."""
    thresholds: str
    """Source of the thresholds for ``pushes``, as text; empty without pushes."""
    evidence: tuple[Array, Array] | None = field(default=None, repr=False)
    """Torque that the described arm needs and recorded effort, converted by the declared kind and
    gain [N·m or N if these are right], (n, nv) each, both without apparent contacts and without the
    part that friction explains; None if the arm cannot be checked."""

    @property
    def level(self) -> Level:
        """The worst level of the lines."""
        return worst(self.lines)

    @property
    def level_for_calibration(self) -> Level:
        """The worst level of the lines that ``calibrate`` does not correct."""
        return _worst_for_calibration(self.lines)

    def to_json(self) -> dict[str, Any]:
        """Return the result, without ``evidence``, as plain values for ``json``."""
        return {
            "recording": self.recording,
            "duration": self.duration,
            "level": self.level,
            "lines": [line.to_json() for line in self.lines],
            "efforts": [effort.to_json() for effort in self.efforts],
            "thresholds": self.thresholds,
            "weakest_pushes": [push.to_json() for push in self.pushes],
        }


def _worst_for_calibration(lines: Sequence[Line]) -> Level:
    return worst(tuple(line for line in lines if line.topic != "masses"))


def check_recording(
    recording: Recording,
    model: Model,
    parameters: DetectorParameters | None = None,
    *,
    joints: Sequence[str] | None = None,
    file: str = "the parameter file",
) -> CheckResult:
    """Check a recording of an arm, preferably of a free motion in which every joint moves.

    Args:
        recording: the recording from :func:`~rbd_control.playback.recording.read_recording`.
        model: the robot; with a calibration, the corrected one.
        parameters: of the detector, per-joint values in the order of the model. Without them,
            efforts count as torques. Without a contact threshold above zero, thresholds are
            estimated from the recording if no finding is bad and a calibration is possible,
            otherwise from effort limits and reach; ``thresholds`` of the result tells which.
        joints: recorded names of the model's joints, in the order of the model; by default the
            names of the model, or names that differ from all of them by one prefix.
        file: name of the parameter file, for the line about thresholds.

    Returns:
        The findings. Without usable motion, velocity or effort there are only the findings about
        the messages and the cause, and no pushes. There are no pushes either if the detector has no
        verdict, or reports contact for much of the motion.

    Raises:
        RecordingError: naming the file, when the recording lacks joints of the model or is damaged.
        ParameterError: for a per-joint parameter of the wrong length.
    """
    declared = parameters or DetectorParameters()
    recorded = read_motions(recording, model, joints, declared.velocity_filter)
    lines = list(timing_lines(recorded, model, declared))
    duration = float(recorded.times[-1]) if recorded.times.size else 0.0
    motions, touched = without_true_contact(recording, recorded)
    name = str(recording.path)
    if not motions:
        why = recorded.unused or "too few samples"
        text = f"no motion with velocity and effort ({why}): the arm cannot be checked"
        return CheckResult(name, duration, (*lines, Line("effort", "bad", text)), (), (), "")
    lines.append(velocity := velocity_line(motions, model))
    if velocity.level == "bad":
        return CheckResult(name, duration, tuple(lines), (), (), "")
    if not measured(motions)[0].any():
        efforts = unmeasured(motions, model)
        return CheckResult(name, duration, (*lines, *effort_lines(efforts)), efforts, (), "")
    try:
        found = _diagnosed(motions, model, declared)
    except RecordingError as error:
        line = Line("effort", "bad", f"the arm cannot be checked: {error.message}")
        return CheckResult(name, duration, (*lines, line), (), (), "")
    lines += found.lines
    detection, pushes, source = _detection(
        motions, model, parameters, _worst_for_calibration(lines), file
    )
    unknown = "" if velocity.values["scale"] else "no joint moves"
    if detection[0].values.get("contacts"):
        unknown = "the residual has no outliers, but the detector reports contact, see thresholds"
    told = touched / max(duration, 1e-9)
    lines += _contact(found.touched, found.outlying, told, unknown), *detection
    return CheckResult(name, duration, tuple(lines), found.efforts, pushes, source, found.recorded)


def _diagnosed(
    motions: Sequence[RecordedMotion], model: Model, declared: DetectorParameters
) -> Diagnosis:
    """Return the diagnosis of the motions, with exchanged names of joints as a cause."""

    def exchanged(i: int, j: int) -> Evidence | None:
        try:
            return gather([_exchanged(motion, i, j) for motion in motions], model, declared)
        except RecordingError:
            return None

    return diagnose(motions, model, declared, exchanged)


def _exchanged(motion: RecordedMotion, i: int, j: int) -> RecordedMotion:
    """Return the motion with the names of two joints exchanged."""
    order = np.arange(motion.v.shape[1])
    order[[i, j]] = order[[j, i]]
    base = motion.q.shape[1] - order.size
    q = np.concatenate([motion.q[:, :base], motion.q[:, base:][:, order]], axis=1)
    return RecordedMotion(motion.name, motion.t, q, motion.v[:, order], motion.tau[:, order])


def _contact(touched: float, joints: Sequence[str], told: float, unknown: str) -> Line:
    """Return the line about contacts.

    Args:
        touched: share of the samples that look like contact.
        joints: joints whose residual is an outlier in these samples.
        told: share of the time in true contact according to the recording.
        unknown: why contact is not determined without outliers; empty if it is.
    """
    values = {"touched": touched, "joints": list(joints), "told": told}
    said = f"{told:.1%} of the time is true contact in the recording, and left out"
    if touched:
        text = (
            f"the residual of {listed(joints)} is an outlier in {touched:.1%} of the time, which "
            f"is left out: something touches the arm, or a joint sticks"
        )
        if told:
            text += f"; {said}"
        return Line("contact", "doubtful", text + "; record a free motion for the check", values)
    if unknown and not told:
        return Line("contact", "doubtful", f"not determined: {unknown}", values, is_finding=False)
    return Line("contact", "good", said if told else "no outliers of the residual", values)


def _detection(
    motions: Sequence[RecordedMotion],
    model: Model,
    parameters: DetectorParameters | None,
    level: Level,
    file: str,
) -> tuple[tuple[Line, Line], tuple[WeakestPush, ...], str]:
    """Return the lines about thresholds and weakest push, the pushes, and the thresholds' source.

    There are no pushes if the detector cannot be used with these thresholds; the source is then
    empty. ``file`` names the source of given thresholds. ``level`` is the worst level of the other
    lines; after a red line default thresholds are
    not tested, because model or efforts are wrong.
    """
    known, known_model, line = _thresholds(motions, model, parameters, level, file)
    source = line.text
    if level != "bad" or line.level == "good":
        line = with_verdicts(line, known_model, known, motions)
        if line.level == "bad":
            text = "not determined: with these thresholds the detector cannot be used"
            return (line, Line("weakest push", "bad", text)), (), ""
    pushes = weakest_pushes_in(known_model, known, motions)
    return (line, push_line(pushes)), pushes, source


def _thresholds(
    motions: Sequence[RecordedMotion],
    model: Model,
    parameters: DetectorParameters | None,
    level: Level,
    file: str,
) -> tuple[DetectorParameters, Model, Line]:
    """Return the detector's parameters and model for the weakest push, and their source."""
    if parameters is not None and max(parameters.contact_threshold) > 0.0:
        return parameters, model, Line("thresholds", "good", f"from {file}")
    declared = parameters or DetectorParameters()
    why = "solve the lines marked WRONG first"
    seconds = sum(float(motion.t[-1] - motion.t[0]) for motion in motions)
    if level != "bad" and seconds < LEAST_TIME:
        why = f"{seconds:.0f} s of motion without contact, at least {LEAST_TIME:.0f} s are needed"
    elif level != "bad":
        effort = {name: getattr(declared, name) for name in EffortParameters.names()}
        start = replace(START, **effort)
        try:
            found = calibrate(motions, model, start, least_time=LEAST_TIME)
        except RbdControlError as error:
            why = error.message
        else:
            text = f"estimated by calibrate from these {found.duration:.0f} s of motion"
            corrected = found.parameters.corrected(model)
            return found.parameters, corrected, Line("thresholds", "good", text)
    text = f"uncalibrated, from effort limits and reach, as calibration is not possible: {why}"
    return with_default_thresholds(declared, model), model, Line("thresholds", "doubtful", text)


def push_line(pushes: Sequence[WeakestPush]) -> Line:
    """Return the finding that sums up the weakest pushes.

    It is good if the weakest push at the last link is below :data:`HARMFUL`, bad if no push is
    detected at any link although pushes load joints, otherwise doubtful.

    Args:
        pushes: at least one, in the order of the links.
    """
    best = min(pushes, key=lambda push: push.best)
    if not any(push.loads for push in pushes):
        text = (
            "not determined: the origins of all links lie on joint axes, where a push loads no "
            "joint; pushes beside the axes may be detected"
        )
        return Line("weakest push", "doubtful", text)
    if np.isinf(best.best):
        text = "no push is detected at any link; lower the thresholds (or onset_debounce)"
        return Line("weakest push", "bad", text)
    tip = pushes[-1]
    never = [push.link for push in pushes if np.isinf(push.best)]
    partly = [push.link for push in pushes if np.isinf(push.worst) and push.link not in never]
    text = f"detected from {best.best:.1f} N at {best.link}"
    if tip is not best:
        text += f", from {tip.best:.1f} to {tip.worst:.1f} N at {tip.link}"
    for what, blind in (("no push is", never), ("some directions are never", partly)):
        if blind:
            text += f"; {what} detected at {', '.join(blind)}"
    level: Level = "good" if tip.best < HARMFUL else "doubtful"
    return Line("weakest push", level, text)


HARMFUL = 140.0
"""Largest force on a hand that ISO/TS 15066 allows [N]."""
