"""What a replay found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rbd_control.estimation import ContactEvent
from rbd_control.playback.curve import CurvePoint
from rbd_control.playback.effort_check import EffortFit
from rbd_control.playback.envelope import Envelope
from rbd_control.playback.summary import Summary, summarise
from rbd_control.playback.truth import Score


@dataclass(frozen=True)
class JointResidual:
    """The residual of one joint over the valid samples [N·m or N]; NaN when there are none.

    ``over_fraction`` is the part of them above ``threshold``, contacts the truth tells of apart.
    """

    joint: str
    threshold: float
    largest: float
    rms: float
    mean: float
    over_fraction: float


@dataclass(frozen=True)
class ReplayResult:
    """What a replay found. All times [s] count from the recording's first sample.

    ``samples`` were usable, ``rate`` [1/s] is the inverse of their median distance; ``counts``
    are those of :class:`~rbd_control.joint_states.JointStateIntake`; ``invalid`` says for how
    long [s] the detector was without a verdict, and why. ``score`` is None without truth;
    ``free_time`` [s] is for how long there was a verdict and, as far as is known, no contact;
    ``curve`` holds the scores with other thresholds, where they were asked for.
    ``warnings`` say what makes the outcome doubtful, ``notes`` what else one should know.
    ``residual_series`` and, where recorded, ``true_torque_series`` are for the picture.
    """

    recording: str
    joints: tuple[str, ...]
    samples: int
    duration: float
    rate: float
    gaps: int
    largest_gap: float
    counts: dict[str, int]
    valid_fraction: float
    invalid: dict[str, float]
    events: tuple[ContactEvent, ...]
    residuals: tuple[JointResidual, ...]
    efforts: tuple[EffortFit, ...]
    score: Score | None
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    free_time: float
    curve: tuple[CurvePoint, ...]
    residual_series: Envelope = field(repr=False)
    true_torque_series: Envelope | None = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """As plain values that ``json`` can write; what is not known is None."""
        return {
            "recording": self.recording,
            "samples": self.samples,
            "duration": self.duration,
            "valid_fraction": self.valid_fraction,
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            "events": [event.to_json() for event in self.events],
            "residual_max": {r.joint: _known(r.largest) for r in self.residuals},
            "residual_rms": {r.joint: _known(r.rms) for r in self.residuals},
            "residual_over_threshold": {r.joint: _known(r.over_fraction) for r in self.residuals},
            "threshold": {r.joint: r.threshold for r in self.residuals},
            "effort_over_gravity": {fit.joint: _known(fit.ratio) for fit in self.efforts},
            "rate": _known(self.rate),
            "gaps": self.gaps,
            "largest_gap": self.largest_gap,
            "counts": dict(self.counts),
            "invalid": dict(self.invalid),
            "truth": self._truth(),
        }

    @property
    def summary(self) -> Summary | None:
        """The score in numbers; None without truth."""
        return summarise([self.score], self.free_time) if self.score else None

    def _truth(self) -> dict[str, Any] | None:
        if self.score is None:
            return None
        curve = [
            {"factor": point.factor, **summarise([point.score], point.free_time).to_json()}
            for point in self.curve
        ]
        summary = summarise([self.score], self.free_time).to_json()
        return {**summary, **self.score.to_json(), "curve": curve or None}


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None
