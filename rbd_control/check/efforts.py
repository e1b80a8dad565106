"""What the effort of each joint is: torque, current, without gravity, reversed, not measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.check.evidence import EFFORT, NEED, Evidence
from rbd_control.check.explanations import SIGNIFICANT, UNIT_SCALES, Explanation, scale_fit
from rbd_control.check.findings import Level, Line
from rbd_control.dynamics import Model
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.effort_scale import DEAD_SHARE
from rbd_control.estimation.effort_scale import SIGNIFICANT as CERTAIN_FRICTION
from rbd_control.estimation.motion import SLOW, Motion
from rbd_control.joint_states.plausibility import limits_or

Array = NDArray[np.float64]

UNITS = ((1000.0, "mN·m"), (0.001, "kN·m"), (10.197, "kgf·cm"), (0.10197, "kgf·m"))
"""Scales of efforts that are torques in other units, and these units."""
LIKE = 0.1
"""Relative deviation from such a scale that still names the unit."""
LARGE = 100.0
"""Scale that no error of the masses explains."""
CONFIDENT = 20.0
"""A scale that is this many standard deviations large is known with high confidence."""
LOADED = 0.01
"""RMS torque, as a fraction of the effort limit, from which the size of an effort is certain."""
UNCLEAR = 0.3
"""Unexplained RMS effort that is doubtful, as a fraction of the default contact threshold."""


@dataclass(frozen=True)
class JointEffort:
    """What the effort of one joint is."""

    joint: str
    kind: str
    """``torque``, ``torque_without_gravity``, ``current``, ``unit``, ``reversed``,
    ``not measured`` or ``unclear``."""
    level: Level
    text: str
    """What to know or do about it; empty for a torque as declared."""
    scale: float
    """Effort per torque of the model; NaN where it is not measured."""
    deviation: float
    """Standard deviation of ``scale``."""
    confidence: str
    """``high``, ``fair``, or ``none`` where the motion does not tell the scale."""
    friction: tuple[float, float, float]
    """Coulomb [N·m or N], viscous [N·m·s/rad or N·s/m] and constant friction [N·m or N]."""
    misfit: float
    """RMS effort that nothing explains [N·m or N]."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        coulomb, viscous, offset = self.friction
        known = np.isfinite(self.scale)
        return {
            "joint": self.joint,
            "kind": self.kind,
            "level": self.level,
            "scale": self.scale if known else None,
            "deviation": self.deviation if known and np.isfinite(self.deviation) else None,
            "confidence": self.confidence,
            "coulomb": coulomb,
            "viscous": viscous,
            "offset": offset,
            "misfit": self.misfit,
        }


def measured(motions: Sequence[Motion]) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """Return which joints measure effort, (nv,) bool, and why the others do not, (nv,) texts."""
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
            said.append(f"{tau[0, i]:.4g} throughout, which no motion does")
        else:
            said.append("")
    return np.array([not text for text in said]), tuple(said)


def joint_efforts(
    model: Model,
    parameters: DetectorParameters,
    motions: Sequence[Motion],
    found: Sequence[Explanation],
    evidence: Evidence,
    level: Array,
) -> tuple[JointEffort, ...]:
    """Return what the effort of each joint is.

    Args:
        model: the robot.
        parameters: of the detector, with the declared kind and gains of the efforts.
        motions: the recorded motions.
        found: what is wrong.
        evidence: the evidence with ``found`` taken into account.
        level: default contact threshold of each joint, (nv,) [N·m or N].
    """
    alive, why = measured(motions)
    return tuple(
        _of_joint(model, parameters, i, found, evidence, float(level[i]))
        if alive[i]
        else _not_measured(joint, why[i])
        for i, joint in enumerate(model.joint_names, model.nv - len(model.joint_names))
    )


def _not_measured(joint: str, why: str) -> JointEffort:
    nan = float("nan")
    text = f"{joint} publishes no effort: it is {why}; mend the driver"
    return JointEffort(joint, "not measured", "bad", text, nan, nan, "none", (0.0, 0.0, 0.0), 0.0)


def _of_joint(
    model: Model,
    parameters: DetectorParameters,
    i: int,
    found: Sequence[Explanation],
    evidence: Evidence,
    level: float,
) -> JointEffort:
    """Return what a measured effort is."""
    joint = model.joint_names[i - model.nv]
    factor = 1.0
    for one in found:
        if one.kind == "scale" and i in one.joints:
            factor *= float(one.values[one.joints.index(i)])
    scale, deviation, _ = scale_fit(evidence, i)
    scale, deviation = scale * factor, deviation * abs(factor)
    known = abs(scale) > SIGNIFICANT * deviation
    friction, errors = _friction(evidence, i)
    drives = friction[0] < -CERTAIN_FRICTION * errors[0] and friction[1] <= 0.0
    misfit = float(evidence.misfit[i])
    limit = float(limits_or(model.effort_limit, np.inf)[i])
    gravity = any(one.kind == "gravity" for one in found)
    kind, worth, text = "torque", "good", ""
    if factor != 1.0:
        need = float(np.sqrt((evidence.need[:, i] ** 2).mean()))
        kind, worth, text = _of_scale(joint, factor, need > LOADED * limit)
    elif drives:
        kind, worth = "reversed", "bad"
        text = f"the effort of {joint} is reversed: its friction drives the joint; {_REVERSE}"
    elif float(np.abs(evidence.raw[:, i, EFFORT]).max()) > parameters.implausible_effort * limit:
        kind, worth = "unit", "bad"
        most = float(np.abs(evidence.raw[:, i, EFFORT]).max())
        text = (
            f"the effort of {joint} reaches {most:.4g}, its limit is {limit:.4g} N·m or N: it is "
            f"no torque in N·m; set effort_gain, or mend the driver"
        )
    elif gravity:
        kind, worth, text = _of_gravity(joint, parameters)
    elif misfit > UNCLEAR * level:
        kind, worth = "unclear", "doubtful"
        text = f"the effort of {joint} has {misfit:.2g} N·m or N (RMS) that nothing explains"
    elif parameters.effort_kind != "torque":
        kind = parameters.effort_kind
    sure = "high" if abs(scale) > CONFIDENT * deviation else "fair"
    return JointEffort(
        joint,
        kind,
        worth,  # type: ignore[arg-type]
        text,
        scale,
        deviation,
        sure if known else "none",
        friction,
        misfit,
    )


_REVERSE = "set its effort_gain to the negative, or mend the driver"


def _of_scale(joint: str, scale: float, loaded: bool) -> tuple[str, str, str]:
    """Return kind, level and text of an effort that is ``scale`` times the model's torque."""
    low, high = UNIT_SCALES
    if -high / low <= scale <= -low / high:
        text = f"the effort of {joint} is reversed: it is {scale:.2f} times the model's torque; "
        return "reversed", "bad", text + _REVERSE
    turned = ", and reversed" if scale < 0.0 else ""
    if high < scale < LARGE and not loaded:
        return (
            "unclear",
            "doubtful",
            f"the effort of {joint} is {scale:.3g} times the model's torque, which is small: "
            f"masses near it are wrong in the URDF, or it is in another unit",
        )
    for size, unit in UNITS:
        if abs(abs(scale) / size - 1.0) < LIKE:
            return (
                "unit",
                "bad",
                f"the effort of {joint} is torque in {unit}{turned}: it is {scale:.4g} times the "
                f"model's torque; set its effort_gain to {1.0 / scale:.4g}",
            )
    kind = "current" if abs(scale) < low else "unit"
    name = "motor current or another unit" if kind == "current" else "another unit"
    return (
        kind,
        "bad",
        f"the effort of {joint} is {scale:.3g} times the model's torque: it is {name}{turned}, "
        f"{1.0 / scale:.3g} N·m per unit; set effort_kind to current and effort_gain, or run "
        f"rbd-control calibrate --effort current",
    )


def _of_gravity(joint: str, parameters: DetectorParameters) -> tuple[str, str, str]:
    """Return kind, level and text of an effort whose share of gravity is not as declared."""
    if parameters.effort_kind == "torque_without_gravity":
        return "torque", "bad", f"the effort of {joint} holds gravity; set effort_kind to torque"
    return (
        "torque_without_gravity",
        "bad",
        f"the effort of {joint} is torque without gravity; set effort_kind to "
        f"torque_without_gravity",
    )


def _friction(evidence: Evidence, i: int) -> tuple[tuple[float, float, float], Array]:
    """Return Coulomb, viscous and constant friction of a joint, and standard deviations (3,)."""
    features = evidence.friction[:, i]
    rest = evidence.raw[:, i, EFFORT] - evidence.raw[:, i, NEED]
    theta, *_ = np.linalg.lstsq(features, rest, rcond=None)
    left = rest - features @ theta
    variance = left.var() * np.diag(np.linalg.pinv(features.T @ features))
    return (float(theta[0]), float(theta[1]), float(theta[2])), np.sqrt(variance)


def effort_lines(efforts: Sequence[JointEffort]) -> tuple[Line, ...]:
    """Return the lines about efforts: one for all joints of a kind."""
    if efforts and all(one.kind == "not measured" for one in efforts):
        text = "effort not measured on any joint (exactly zero or constant): no verdict is possible"
        return (Line("effort", "bad", text + "; mend the driver, or record another topic"),)
    lines = []
    for kind in dict.fromkeys(one.kind for one in efforts):
        alike = [one for one in efforts if one.kind == kind]
        names = ", ".join(one.joint for one in alike)
        level: Level = max((one.level for one in alike), key=_ORDER.index)
        texts = list(dict.fromkeys(one.text for one in alike if one.text))
        if len(texts) > 1:
            said = f"{len(alike)} joints: " + "; ".join(texts)
        elif texts:
            said = texts[0]
        else:
            named = "all joints" if len(alike) == len(efforts) else names
            said = f"{_NAMES[kind]} on {named}{_scales(alike)}"
        lines.append(
            Line("effort", level, said, {"kind": kind, "joints": [o.joint for o in alike]})
        )
    return tuple(lines)


_ORDER: tuple[Level, ...] = ("good", "doubtful", "bad")
_NAMES = {
    "torque": "torque [N·m or N]",
    "current": "motor current times effort_gain, as declared,",
    "torque_without_gravity": "torque without gravity, as declared,",
}


def _scales(efforts: Sequence[JointEffort]) -> str:
    """Return the range of the scales that are known, in words."""
    known = [one.scale for one in efforts if one.confidence != "none"]
    if not known:
        return "; the motion does not tell its size"
    unknown = [one.joint for one in efforts if one.confidence == "none"]
    more = f"; the motion does not tell the size on {', '.join(unknown)}" if unknown else ""
    return f", {min(known):.2f} to {max(known):.2f} times the model's{more}"
