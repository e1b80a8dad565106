"""Kind of each joint's effort: torque, current, without gravity, reversed, not measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.check.explanations import (
    EFFORT,
    NEED,
    SIGNIFICANT,
    UNIT_SCALES,
    Evidence,
    Explanation,
    scale_fit,
)
from rbd_control.check.findings import Level, Line
from rbd_control.dynamics import Model
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.identification.effort_scale import DEAD_SHARE
from rbd_control.identification.effort_scale import SIGNIFICANT as CERTAIN_FRICTION
from rbd_control.identification.motion import SLOW, RecordedMotion
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
DEPENDENT = 1e-3
"""Relative singular value of the columns of friction, scaled to norm 1, below which the motion does
not determine a combination of their coefficients."""
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

    def to_json(self) -> dict[str, Any]:
        """Return the result, without remedy, as plain values for ``json``; NaN and inf are None."""
        coulomb, viscous, offset = self.friction
        known = np.isfinite(self.scale)
        return {
            "joint": self.joint,
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
    more than 10 % of the samples in which the joint moves. The text of a measured effort is empty.
    """
    tau, v = (np.concatenate(x) for x in zip(*((m.tau, m.v) for m in motions), strict=True))
    said = []
    for i in range(tau.shape[1]):
        moving = np.abs(v[:, i]) > SLOW
        zero = float((tau[moving, i] == 0.0).mean()) if moving.any() else 0.0
        if not tau[:, i].any():
            said.append("exactly zero throughout")
        elif zero > DEAD_SHARE:
            said.append(f"exactly zero in {zero:.0%} of the samples in which the joint moves")
        elif np.ptp(tau[:, i]) == 0.0:
            said.append(f"constant at {tau[0, i]:.4g}, although the arm moves")
        else:
            said.append("")
    return np.array([not text for text in said]), tuple(said)


def joint_efforts(
    model: Model,
    parameters: DetectorParameters,
    motions: Sequence[RecordedMotion],
    found: Sequence[Explanation],
    evidence: Evidence,
    level: Array,
) -> tuple[JointEffort, ...]:
    """Return whether the effort of each joint is a torque, a current, or something else.

    Args:
        model: the robot.
        parameters: parameters of the detector, with the declared kind and gains of the efforts.
        motions: the recorded motions.
        found: the differences between model and recording that were found, such as a payload.
        evidence: the filtered samples, with the torque of ``model`` corrected by ``found``.
        level: default contact threshold of each joint, (nv,) [N·m or N].

    Returns:
        For each joint the kind, the scale (effort per torque of the model), and the finding as
        text. A joint without a measured effort has the kind ``not measured``.
    """
    alive, why = measured(motions)
    efforts = [
        _of_joint(model, parameters, i, found, evidence, float(level[i]))
        if alive[i]
        else _not_measured(joint, why[i])
        for i, joint in enumerate(model.joint_names, model.nv - len(model.joint_names))
    ]
    odd = sum(one.kind in ("current", "unit") for one in efforts)
    if odd >= MAJORITY * alive.sum():
        efforts = [_doubted(one) for one in efforts]
    return tuple(efforts)


def _doubted(effort: JointEffort) -> JointEffort:
    """Return the effort, marked as unclear if it is a torque whose scale is not determined.

    Call it if most other joints have another unit.
    """
    low, high = UNIT_SCALES
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
    found: Sequence[Explanation],
    evidence: Evidence,
    level: float,
) -> JointEffort:
    """Return the result for the joint ``i`` (index in v), whose effort is measured.

    ``level`` is the default contact threshold of the joint [N·m or N]; the other arguments are as
    for :func:`joint_efforts`.
    """
    factor = 1.0
    for one in found:
        if one.kind == "scale" and i in one.joints:
            factor *= float(one.values[one.joints.index(i)])
    scale, deviation, _ = scale_fit(evidence, i)
    scale, deviation = scale * factor, deviation * abs(factor)
    friction, errors = _friction(evidence, i)
    misfit = float(evidence.misfit[i])
    limit = float(limits_or(model.effort_limit, np.inf)[i])
    largest = float(np.abs(evidence.raw[:, i, EFFORT]).max())
    is_torque = True
    if factor != 1.0:
        need = float(np.sqrt((evidence.need[:, i] ** 2).mean()))
        present = float(parameters.for_joints("effort_gain", model.nv)[i])
        verdict = _of_scale(factor, need > LOADED * limit, present)
        if verdict.kind == "unclear":
            # The scale is doubtful, so friction and misfit are given in the recorded unit.
            friction = (factor * friction[0], factor * friction[1], factor * friction[2])
            misfit *= abs(factor)
            is_torque = False
    elif friction[0] < -CERTAIN_FRICTION * errors[0] and friction[1] <= 0.0:
        verdict = _Verdict("reversed", "bad", "has friction that drives the joint", _REVERSE)
        is_torque = False
    elif largest > parameters.implausible_effort * limit:
        finding = f"reaches {largest:.4g}, its limit is {limit:.4g} N·m or N"
        verdict = _Verdict("unit", "bad", finding, "set effort_gain, or fix the driver")
        is_torque = False
    elif any(one.kind == "gravity" for one in found):
        verdict = _of_gravity(parameters)
    elif misfit > UNCLEAR * level:
        verdict = _Verdict("unclear", "doubtful", f"has {misfit:.2g} N·m or N unexplained (RMS)")
    else:
        verdict = _Verdict(parameters.effort_kind)
    known = abs(scale) > SIGNIFICANT * deviation
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
        float(errors[0]),
        misfit,
    )


def _of_scale(scale: float, loaded: bool, present: float) -> _Verdict:
    """Return the kind of an effort that is ``scale`` times the model's torque.

    ``loaded`` says whether the model needs enough torque to determine the unit (:data:`LOADED`);
    ``present`` is the ``effort_gain`` by which the recorded effort has been multiplied.
    """
    low, high = UNIT_SCALES
    size = f"{scale:.3g} times the model's torque"
    if -high / low <= scale <= -low / high:
        return _Verdict("reversed", "bad", size, _REVERSE)
    if high < scale < LARGE and not loaded:
        remedy = "look for friction or wrong masses, or load the joint more"
        text = f"{size}, which is too small here to determine the unit"
        return _Verdict("unclear", "doubtful", text, remedy)
    for factor, unit in UNITS:
        if abs(abs(scale) / factor - 1.0) < LIKE:
            sign = "-" if scale < 0.0 else ""
            gain = float(f"{sign}{1.0 / factor:g}") * present
            remedy = f"set effort_gain to {gain:g}"
            return _Verdict("unit", "bad", f"{size}, so torque in {unit}", remedy)
    kind = "current" if abs(scale) < low else "unit"
    per_unit = f"{present / scale:.3g} N·m or N per unit of effort"
    return _Verdict(kind, "bad", f"{size}, {per_unit}", _CALIBRATE)


def _of_gravity(parameters: DetectorParameters) -> _Verdict:
    """Return the kind of an effort whose gravity share differs from the declaration."""
    if parameters.effort_kind == "torque_without_gravity":
        return _Verdict("torque", "bad", "includes gravity", "set effort_kind to torque")
    remedy = "set effort_kind to torque_without_gravity"
    return _Verdict("torque_without_gravity", "bad", "without gravity", remedy)


def _friction(evidence: Evidence, i: int) -> tuple[tuple[float, float, float], Array]:
    """Return Coulomb, viscous and constant friction of a joint, and standard deviations (3,).

    A coefficient that the motion does not determine has an infinite standard deviation: far below
    the velocity scale, for example, Coulomb and viscous friction are the same.
    """
    features = evidence.friction[:, i]
    rest = evidence.raw[:, i, EFFORT] - evidence.raw[:, i, NEED]
    size = np.linalg.norm(features, axis=0)
    size[size == 0.0] = 1.0
    u, s, v = np.linalg.svd(features / size, full_matrices=False)
    kept = s > DEPENDENT * s[0]
    theta = v[kept].T @ (u[:, kept].T @ rest / s[kept]) / size
    left = rest - features @ theta
    deviations = left.std() * np.linalg.norm(v[kept].T / s[kept], axis=1) / size
    deviations[(np.abs(v[~kept]) > DEPENDENT).any(axis=0)] = np.inf
    return (float(theta[0]), float(theta[1]), float(theta[2])), deviations


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
        return (Line("effort", "doubtful", text),)
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
        lines.append(Line("effort", kind[1], text, values))
    return tuple(lines)


_NAMES = {
    "torque": "torque",
    "torque_without_gravity": "torque without gravity",
    "current": "motor current (or another unit)",
    "unit": "another unit than N·m or N",
    "reversed": "reversed",
    "not measured": "not measured",
    "unclear": "unclear",
}


def _scales(efforts: Sequence[JointEffort]) -> str:
    """Return a text with the range of the scales of high confidence, and the unknown scales."""
    known = [one.scale for one in efforts if one.confidence == "high"]
    if not known:
        return "; the motion does not determine its scale"
    unknown = [one.joint for one in efforts if one.confidence == "none"]
    more = f"; the motion does not determine the scale on {', '.join(unknown)}" if unknown else ""
    low, high = f"{min(known):.2f}", f"{max(known):.2f}"
    return f", {low if low == high else f'{low} to {high}'} times the model's{more}"
