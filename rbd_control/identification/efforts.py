"""Kind of each joint's effort: torque, current, without gravity, reversed, not measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.errors import RecordingError
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.identification.causes import SCALES, Fit, Search
from rbd_control.identification.delays import velocity_fits, wrong_velocities
from rbd_control.identification.findings import Level, Line
from rbd_control.identification.motion import (
    SLOW,
    RecordedMotion,
    implausible,
    in_range,
    stray_bounds,
)
from rbd_control.joint_states.plausibility import limits_or

Array = NDArray[np.float64]

UNITS = ((1000.0, "mN·m"), (0.001, "kN·m"))
"""Scales of efforts that are torques in other units, and these units."""
LIKE = 0.1
"""Largest relative deviation from a scale of :data:`UNITS` at which the unit is named."""
MAJORITY = 0.5
"""Share of the measured joints with a wrong unit from which the units of all other joints are
doubtful, unless the motion determines them."""
LARGE = 100.0
"""Smallest scale of an effort that an error of the masses cannot explain, even at low torque."""
CONFIDENT = 20.0
"""Ratio of a scale to its standard deviation from which the confidence is high."""
LOADED = 0.01
"""RMS torque of the model, as a fraction of the effort limit, above which a scale of the effort up
to :data:`LARGE` determines its unit."""
DEAD_SHARE = 0.1
"""Largest fraction of efforts of a moving joint that may be exactly zero."""
DRIVES = 6.0
"""Number of standard errors by which friction acts along the motion if the effort is reversed."""
STRAY_SHARE = 0.01
"""Largest fraction of implausible samples that are left out; more are refused."""
KNOWN = 4.0
"""Ratio of a scale to its standard error from which it is determined."""
STEPS = 0.2
"""Largest number of different values of efforts that are rounded, as a share of the samples."""
ROUNDING = 0.01
"""Largest deviation of a difference of rounded efforts from a multiple of their step."""
UNCLEAR = 0.3
"""Unexplained RMS effort above which the kind is unclear, as a fraction of the default contact
threshold."""


@dataclass(frozen=True)
class JointEffort:
    """Kind, scale and friction of the effort of one joint."""

    joint: str
    kind: str
    """``torque``, ``torque_without_gravity``, ``current`` (or another unit with numbers smaller
    than the torque), ``unit`` (another unit), ``reversed`` (wrong sign), ``not measured`` or
    ``unclear``."""
    level: Level
    finding: str
    """The finding with its numbers; empty for an effort as declared."""
    remedy: str
    """The remedy; empty for an effort as declared, and if none is known."""
    is_torque: bool
    """Whether friction and misfit are torques or forces: the effort is a torque, or its scale is
    known. Otherwise they are in the unit of the driver."""
    scale: float
    """Effort, converted by the declared kind and gain, per torque of the model: about 1 if these
    are right; NaN if the effort is not measured."""
    deviation: float
    """Standard deviation of ``scale``; NaN if the effort is not measured, infinite if the model
    needs no torque."""
    confidence: str
    """``high`` if the scale is more than 20 standard deviations (:data:`CONFIDENT`), ``fair`` if it
    is more than 4, otherwise ``none``: the motion does not determine the scale."""
    friction: tuple[float, float, float]
    """Coulomb [N·m or N], viscous [N·m·s/rad or N·s/m] and constant friction [N·m or N]; zero if
    the effort is not measured."""
    coulomb_deviation: float
    """Standard deviation of the Coulomb friction, infinite if the motion does not determine it
    [N·m or N]."""
    misfit: float
    """RMS of the effort that neither model nor friction explains [N·m or N]; zero if the effort is
    not measured."""
    unit: str = "N·m"
    """Unit of a torque of the joint: ``N·m``, or ``N`` if it is prismatic."""

    def to_json(self) -> dict[str, Any]:
        """Return the result, without remedy, as plain values for ``json``; NaN and inf are None."""
        coulomb, viscous, offset = self.friction
        known = np.isfinite(self.scale)
        return {
            "joint": self.joint,
            "unit": self.unit,
            "kind": self.kind,
            "level": self.level,
            "finding": self.finding,
            "scale": self.scale if known else None,
            "deviation": self.deviation if known and np.isfinite(self.deviation) else None,
            "confidence": self.confidence,
            "coulomb": coulomb,
            "viscous": viscous,
            "offset": offset,
            "misfit": self.misfit,
        }


def measured(motions: Sequence[RecordedMotion]) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """Return which joints measure effort, (nv,) bool, and why the others do not, (nv,) texts.

    An effort is not measured if it is exactly zero or constant in all motions, or exactly zero in
    more than 10 % of the samples in which the joint moves, unless it is rounded to steps of which
    zero is one. The text of a measured effort is empty.
    """
    tau, v = (np.concatenate(x) for x in zip(*((m.tau, m.v) for m in motions), strict=True))
    said = []
    for i in range(tau.shape[1]):
        moving = np.abs(v[:, i]) > SLOW
        zero = float((tau[moving, i] == 0.0).mean()) if moving.any() else 0.0
        if not tau[:, i].any():
            said.append("exactly zero throughout")
        elif zero > DEAD_SHARE and not effort_step(tau[:, i]):
            said.append(f"exactly zero in {zero:.0%} of the samples in which the joint moves")
        elif np.ptp(tau[:, i]) == 0.0:
            said.append(f"constant at {tau[0, i]:.4g}, although the arm moves")
        else:
            said.append("")
    return np.array([not text for text in said]), tuple(said)


def effort_step(tau: Array) -> float:
    """Return the step to which the efforts of a joint are rounded, zero if they are not.

    Args:
        tau: efforts, (k,).
    """
    values = np.unique(tau)
    if not 2 < values.size < STEPS * tau.size:
        return 0.0
    steps = np.diff(values)
    least = float(steps.min())
    whole = np.abs(steps / least - np.round(steps / least)) < ROUNDING * np.round(steps / least)
    return least if whole.all() else 0.0


def joint_efforts(
    model: Model,
    parameters: DetectorParameters,
    motions: Sequence[RecordedMotion],
    search: Search,
    fit: Fit,
    level: Array,
) -> tuple[JointEffort, ...]:
    """Return whether the effort of each joint is a torque, a current, or something else.

    Args:
        model: the robot.
        parameters: parameters of the detector, with the declared kind and gains of the efforts.
        motions: the recorded motions.
        search: the search for causes in these motions.
        fit: its result.
        level: default contact threshold of each joint, (nv,) [N·m or N].

    Returns:
        For each joint the kind, the scale (effort per torque of the model), and the finding as
        text. A joint without a measured effort has the kind ``not measured``.
    """
    alive, why = measured(motions)
    efforts = [
        _of_joint(model, parameters, i, search, fit, float(level[i]))
        if alive[i]
        else _not_measured(joint, why[i])
        for i, joint in enumerate(model.joint_names, model.nv - len(model.joint_names))
    ]
    odd = sum(one.kind in ("current", "unit") for one in efforts)
    if odd >= MAJORITY * alive.sum():
        efforts = [_doubted(one) for one in efforts]
    return tuple(efforts)


def unmeasured(motions: Sequence[RecordedMotion], model: Model) -> tuple[JointEffort, ...]:
    """Return the efforts of motions in which no joint measures its effort."""
    _, why = measured(motions)
    first = model.nv - len(model.joint_names)
    return tuple(_not_measured(joint, why[first + i]) for i, joint in enumerate(model.joint_names))


def _doubted(effort: JointEffort) -> JointEffort:
    """Return the effort, marked as unclear if it is a torque whose scale is not determined.

    Call it if most other joints have another unit.
    """
    low, high = SCALES
    if effort.kind != "torque" or (effort.confidence != "none" and low <= effort.scale <= high):
        return effort
    finding = (
        "has a scale that this motion does not determine, and most other joints have another unit"
    )
    return replace(effort, kind="unclear", level="doubtful", finding=finding, remedy=_CALIBRATE)


def _not_measured(joint: str, why: str) -> JointEffort:
    none = (0.0, 0.0, 0.0)
    return JointEffort(
        joint, "not measured", "bad", why, _MEND, False, nan, nan, "none", none, inf, 0.0
    )


@dataclass(frozen=True)
class _Verdict:
    """Kind, level, finding and remedy of an effort."""

    kind: str = "torque"
    level: Level = "good"
    finding: str = ""
    remedy: str = ""


_MEND = "fix the driver"
_REVERSE = "change the sign of effort_gain, or fix the driver"
_CALIBRATE = (
    "set effort_kind to current and effort_gain, or run rbd-control calibrate with --effort"
)


def _of_joint(
    model: Model,
    parameters: DetectorParameters,
    i: int,
    search: Search,
    fit: Fit,
    level: float,
) -> JointEffort:
    """Return the result for the joint ``i`` (index in v), whose effort is measured.

    ``level`` is the default contact threshold of the joint [N·m or N]; the other arguments are as
    for :func:`joint_efforts`.
    """
    h = fit.hypothesis
    scale, deviation = search.scale_after(fit, i)
    (coulomb, viscous, offset), errors = search.friction(fit, i)
    friction, coulomb_deviation = (float(coulomb), float(viscous), float(offset)), float(errors[0])
    size = float(abs(h.scale[i]))
    misfit = float(fit.sigma[i]) / size
    limit = float(limits_or(model.effort_limit, np.inf)[i])
    L, columns = search.layout, search.evidence.columns
    largest = float(np.abs(columns[:, i, i]).max())
    resistance, uncertainty = search.resistance(fit, i)
    is_torque, unit = True, model.torque_unit(i)
    if h.has("scale", i):
        need = float(np.sqrt((columns[:, i, L.need] ** 2).mean()))
        present = float(parameters.for_joints("effort_gain", model.nv)[i])
        scale = float(search.values(fit, f"scale {i}")[0][0])
        verdict = _of_scale(scale, need > LOADED * limit, present, unit)
        if verdict.kind == "unclear":
            # The scale is doubtful, so friction and misfit are given in the recorded unit.
            friction = (size * friction[0], size * friction[1], size * friction[2])
            misfit *= size
            is_torque = False
    elif resistance < -DRIVES * uncertainty:
        verdict = _Verdict("reversed", "bad", "has friction that drives the joint", _REVERSE)
        is_torque = False
    elif largest > parameters.implausible_effort * limit:
        finding = f"reaches {largest:.4g}, its limit is {limit:.4g} {unit}"
        verdict = _Verdict("unit", "bad", finding, "set effort_gain, or fix the driver")
        is_torque = False
    elif h.has("gravity"):
        verdict = _of_gravity(parameters)
    elif misfit > UNCLEAR * level:
        verdict = _Verdict("unclear", "doubtful", f"has {misfit:.2g} {unit} unexplained (RMS)")
    else:
        verdict = _Verdict(parameters.effort_kind)
    known = abs(scale) > KNOWN * deviation
    sure = "high" if abs(scale) > CONFIDENT * deviation else "fair"
    return JointEffort(
        model.joint_names[i - model.nv],
        verdict.kind,
        verdict.level,
        verdict.finding,
        verdict.remedy,
        is_torque,
        scale,
        deviation,
        sure if known else "none",
        friction,
        coulomb_deviation,
        misfit,
        unit,
    )


def _of_scale(scale: float, loaded: bool, present: float, unit: str) -> _Verdict:
    """Return the kind of an effort that is ``scale`` times the model's torque.

    ``loaded`` says whether the model needs enough torque to determine the unit (:data:`LOADED`);
    ``present`` is the ``effort_gain`` by which the recorded effort has been multiplied.
    """
    low, high = SCALES
    size = f"{scale:.3g} times the model's torque"
    if -high / low <= scale <= -low / high:
        return _Verdict("reversed", "bad", size, _REVERSE)
    if high < scale < LARGE and not loaded:
        remedy = "look for friction or wrong masses, or load the joint more"
        text = f"{size}, which is too small here to determine the unit"
        return _Verdict("unclear", "doubtful", text, remedy)
    for factor, other in UNITS:
        if abs(abs(scale) / factor - 1.0) < LIKE:
            sign = "-" if scale < 0.0 else ""
            gain = float(f"{sign}{1.0 / factor:g}") * present
            remedy = f"set effort_gain to {gain:g}"
            return _Verdict("unit", "bad", f"{size}, so torque in {other}", remedy)
    kind = "current" if abs(scale) < low else "unit"
    per_unit = f"{present / scale:.3g} {unit} per unit of effort"
    return _Verdict(kind, "bad", f"{size}, {per_unit}", _CALIBRATE)


def _of_gravity(parameters: DetectorParameters) -> _Verdict:
    """Return the kind of an effort whose gravity share differs from the declaration."""
    if parameters.effort_kind == "torque_without_gravity":
        return _Verdict("torque", "bad", "with gravity", "set effort_kind to torque")
    remedy = "set effort_kind to torque_without_gravity"
    return _Verdict("torque_without_gravity", "bad", "without gravity", remedy)


def effort_lines(efforts: Sequence[JointEffort]) -> tuple[Line, ...]:
    """Return the lines of the check about the efforts, one for each kind and level.

    The joints with the same kind and level share a line. There is a single line if no effort is
    measured, or if the motion does not determine the kind of any effort.
    """
    if efforts and all(one.kind == "not measured" for one in efforts):
        text = "effort not measured on any joint (exactly zero or constant): no verdict is possible"
        return (Line("effort", "bad", text + "; fix the driver, or record another topic"),)
    if all(one.confidence == "none" and one.level == "good" for one in efforts):
        text = "the motion does not determine the kind of effort; move every joint back and forth"
        return (Line("effort", "doubtful", text, is_finding=False),)
    lines = []
    for kind in dict.fromkeys((one.kind, one.level) for one in efforts):
        alike = [one for one in efforts if (one.kind, one.level) == kind]
        named = "all joints" if len(alike) == len(efforts) else ", ".join(o.joint for o in alike)
        if kind[1] == "good":
            text = f"{_NAMES[kind[0]]}, as declared, on {named}{_scales(alike)}"
        else:
            findings = dict.fromkeys(one.finding for one in alike)
            said = [f"{one.joint} {one.finding}" for one in alike]
            if len(findings) == 1:
                said = [f"{named} {alike[0].finding}"]
            remedies = dict.fromkeys(one.remedy for one in alike if one.remedy)
            text = f"{_NAMES[kind[0]]}: " + "; ".join([*said, *remedies])
        values = {"kind": kind[0], "joints": [one.joint for one in alike]}
        is_known = kind[0] != "unclear"
        lines.append(Line("effort", kind[1], text, values, is_finding=is_known))
    return tuple(lines)


_NAMES = {
    "torque": "torque",
    "torque_without_gravity": "torque without gravity",
    "current": "motor current (or another unit)",
    "unit": "another unit than N·m, or than N of a prismatic joint",
    "reversed": "reversed",
    "not measured": "not measured",
    "unclear": "unclear",
}


def _scales(efforts: Sequence[JointEffort]) -> str:
    """Return a text with the range of the known scales, and the unknown scales."""
    known = [one.scale for one in efforts if one.confidence != "none"]
    if not known:
        return "; the motion does not determine its scale"
    unknown = [one.joint for one in efforts if one.confidence == "none"]
    more = f"; the motion does not determine the scale on {', '.join(unknown)}" if unknown else ""
    low, high = f"{min(known):.2f}", f"{max(known):.2f}"
    return f", {low if low == high else f'{low} to {high}'} times the model's{more}"


def usable_efforts(
    motions: Sequence[RecordedMotion], model: Model, parameters: DetectorParameters
) -> tuple[list[RecordedMotion], tuple[str, ...]]:
    """Drop samples with outliers; raise an error for wrong velocities and for unusable efforts.

    Args:
        motions: motions without contact, ``tau`` as ``parameters.effort_kind`` declares.
        model: the robot.
        parameters: kind and gains of the efforts; currents whose gains are all one have unknown
            gains, and are compared with :func:`stray_bounds` only.

    Returns:
        The motions without implausible samples, and notes for the user with the number of the
        samples that were dropped.

    Raises:
        RecordingError: for velocities that contradict the positions, an effort that is missing or
            constant, or more than 1 % implausible samples of a joint; the message has the problem
            and the joint, unless the effort is zero on all joints.
        ParameterError: for a per-joint parameter of the wrong length.
    """
    usable, notes = [], []
    several = len({motion.name for motion in motions}) > 1
    wrong = wrong_velocities(velocity_fits(motions, model))
    if wrong:
        raise RecordingError(wrong)
    _refuse_dead(motions, model)
    for motion in motions:
        fine = in_range(motion)
        bad = ~(np.abs(motion.tau) <= stray_bounds(motion.tau))
        if not are_unknown_currents(model, parameters):
            bad |= implausible(motion, model, parameters)
        _refuse_absurd(motion, bad, model, f"{motion.name}: " if several else "")
        dropped = bad.any(axis=1) | ~fine
        if dropped.any():
            joint = model.joint_names[int(np.argmax(bad.sum(axis=0))) - model.nv]
            notes.append(
                f"{motion.name}: {dropped.sum()} of {dropped.size} samples are left out: "
                f"implausible effort or speed on {joint}"
            )
            motion = motion.only(~dropped)
        usable.append(motion)
    return usable, tuple(notes)


def are_unknown_currents(model: Model, parameters: DetectorParameters) -> bool:
    """Return whether efforts are currents whose gains are not known yet.

    This is the case if ``effort_kind`` is ``current`` and every ``effort_gain`` is 1, the default.

    Raises:
        ParameterError: for an ``effort_gain`` of the wrong length.
    """
    gain = parameters.for_joints("effort_gain", model.nv)
    return parameters.effort_kind == "current" and bool((gain == 1.0).all())


def _refuse_dead(motions: Sequence[RecordedMotion], model: Model) -> None:
    """Raise an error for an effort that is not measured."""
    alive, why = measured(motions)
    first = model.nv - len(model.joint_names)
    if not alive[first:].any():
        raise RecordingError(
            f"effort is not measured on any joint: {why[first]}; fix the driver, or record a topic "
            f"that carries it"
        )
    for i, joint in enumerate(model.joint_names, first):
        if not alive[i]:
            raise RecordingError(f"the effort of {joint} is not measured: {why[i]}; fix the driver")


def _refuse_absurd(
    motion: RecordedMotion, bad: NDArray[np.bool_], model: Model, where: str
) -> None:
    """Raise an error if more than :data:`STRAY_SHARE` of the samples of a joint are ``bad``.

    ``bad``, (k, nv), marks implausible efforts and speeds; the message begins with ``where``.
    """
    share = bad.mean(axis=0)
    i = int(np.argmax(share))
    if share[i] <= STRAY_SHARE:
        return
    joint = model.joint_names[i - model.nv]
    worst = float(np.abs(motion.tau[:, i]).max())
    raise RecordingError(
        f"{where}effort or speed of joint {joint!r} is implausible in {share[i]:.0%} of "
        f"the samples: the effort reaches {worst:.4g}, the effort limit is "
        f"{float(model.effort_limit[i]):.4g} {model.torque_unit(i)}; declare what the effort is "
        f"(--effort), or fix the driver"
    )
