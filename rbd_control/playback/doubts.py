"""Warnings and notes about the result of a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rbd_control.dynamics import Model
from rbd_control.estimation import DetectorParameters, Mismatch, detector_warnings
from rbd_control.joint_states import DROPS, REMARKS
from rbd_control.playback.clock import ClockJump
from rbd_control.playback.effort_check import EffortFit
from rbd_control.playback.result import JointResidual

OFTEN = 0.2
"""Share of the samples above the threshold beyond which a residual is unlikely to be contact."""

SLOW_RATE = 5.0
"""Rate below which the times of a CSV recording may be in milliseconds [1/s]."""

_SHOWN_JUMPS = 3
"""Maximum number of clock jumps that a warning lists."""

_REMARKS = dict(
    zip(
        REMARKS,
        (
            "have no usable stamp; their time of receipt was taken instead",
            "lack velocity: no verdict there",
            "lack effort: no verdict there",
        ),
        strict=True,
    )
)


@dataclass(frozen=True)
class Findings:
    """Results of a replay from which :func:`warnings` are derived.

    Attributes:
        counts: ``counts`` of the :class:`~rbd_control.joint_states.JointStateIntake`.
        valid: number of samples with a verdict.
        rate: samples per second; NaN with a single sample.
        residuals: the residual of each joint.
        mismatches: differences between model and robot.
        efforts: comparison of the efforts with the model's gravity torques.
        jumps: jumps of the recorded clock.
    """

    counts: Mapping[str, int]
    valid: int
    rate: float
    residuals: Sequence[JointResidual]
    mismatches: Sequence[Mismatch]
    efforts: Sequence[EffortFit]
    jumps: Sequence[ClockJump]


def warnings(found: Findings, model: Model, parameters: DetectorParameters) -> list[str]:
    """Return the problems of a replay as texts for the user, the most serious first.

    Args:
        found: results of the replay.
        model: the robot.
        parameters: the parameters with which the detector ran.
    """
    said = _misfits(found, parameters)
    if said:
        said.insert(0, "do not trust the events: the residual is not external torque alone")
    said.extend(detector_warnings(parameters, model))
    if not found.valid:
        said.insert(0, "no verdict at any time")
    samples = found.counts["accepted"]
    said += [
        f"{found.counts[remark]} of {samples} samples {meaning}"
        for remark, meaning in _REMARKS.items()
        if found.counts[remark]
    ]
    dropped = {reason: found.counts[reason] for reason in DROPS if found.counts[reason]}
    if dropped:
        said.append(f"messages dropped: {counted(dropped)}")
    if found.jumps:
        said.append(_jumps(found.jumps))
    if found.rate < SLOW_RATE:
        said.append(
            f"samples come {1.0 / found.rate:.3g} s apart, too slow to detect contact; if the "
            "times are in milliseconds, divide them by 1000"
        )
    return said


def counted(counts: Mapping[str, int]) -> str:
    """Return counts as text, such as ``3 x old stamp``, without counts of zero."""
    return ", ".join(f"{count} x {reason}" for reason, count in counts.items() if count)


def _misfits(found: Findings, parameters: DetectorParameters) -> list[str]:
    """Return warnings about differences between model, efforts and thresholds."""
    explained = {mismatch.joint for mismatch in found.mismatches}
    said = [mismatch.text for mismatch in found.mismatches]
    # The comparison with gravity alone is used only without a better explanation.
    said += [
        fit.complaint for fit in found.efforts if fit.complaint and not explained & {"", fit.joint}
    ]
    often = [residual for residual in found.residuals if residual.over_fraction > OFTEN]
    if often:
        friction = "friction (none is set)" if parameters.friction_model == "none" else "friction"
        joints = ", ".join(f"{r.joint} {r.over_fraction:.0%} (mean {r.mean:+.2g})" for r in often)
        said.append(
            f"the residual is above its threshold for too much of the time, {joints}: unless there "
            f"was contact for so long, {friction}, payload, model or thresholds do not fit"
        )
    return said


def _jumps(jumps: Sequence[ClockJump]) -> str:
    """Return a warning about jumps of the clock, and their effect on the detector."""
    shown = ", ".join(f"by {jump.back:.3g} s at {jump.time:.3f} s" for jump in jumps[:_SHOWN_JUMPS])
    more = f" and {len(jumps) - _SHOWN_JUMPS} times more" if len(jumps) > _SHOWN_JUMPS else ""
    return (
        f"the clock of the joint states went back {shown}{more}: the detector started again "
        "there, as the node does"
    )
