"""What a replay found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rbd_control.estimation import ContactEvent
from rbd_control.playback.clock import ClockJump
from rbd_control.playback.curve import CurvePoint
from rbd_control.playback.effort_check import EffortFit
from rbd_control.playback.envelope import Envelope
from rbd_control.playback.summary import Summary, summarise
from rbd_control.playback.truth import Score


@dataclass(frozen=True)
class JointResidual:
    """The residual of one joint over the valid samples [N·m or N]; NaN when there are none.

    ``threshold`` is that at rest. ``over_fraction`` is the part of them above that of their speed,
    contacts the truth tells of apart.
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
    clock_jumps: tuple[ClockJump, ...]
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
            "clock_jumps": [jump.to_json() for jump in self.clock_jumps],
            "truth": self._truth(),
        }

    @property
    def summary(self) -> Summary | None:
        """The score in numbers; None without truth."""
        return Overview((self,)).summary

    def _truth(self) -> dict[str, Any] | None:
        truth = Overview((self,)).truth()
        return None if truth is None or self.score is None else {**self.score.to_json(), **truth}


@dataclass(frozen=True)
class Overview:
    """Several recordings taken together, those without truth left out of the scores."""

    results: tuple[ReplayResult, ...]

    @property
    def summary(self) -> Summary | None:
        """The scores of all in numbers; None where no recording has truth."""
        scored = [(r.score, r.free_time) for r in self.results if r.score is not None]
        return _together(scored) if scored else None

    @property
    def curve(self) -> list[tuple[float, Summary]]:
        """For each factor the scores of all with thresholds multiplied by it."""
        points: dict[float, list[tuple[Score, float]]] = {}
        for result in self.results:
            for point in result.curve:
                points.setdefault(point.factor, []).append((point.score, point.free_time))
        return [(factor, _together(scored)) for factor, scored in sorted(points.items())]

    def truth(self) -> dict[str, Any] | None:
        """:attr:`summary` and :attr:`curve` as plain values."""
        if self.summary is None:
            return None
        curve = [{"factor": factor, **point.to_json()} for factor, point in self.curve]
        return {"summary": self.summary.to_json(), "curve": curve or None}

    def to_json(self) -> dict[str, Any]:
        """As plain values: every recording, and all of them in ``summary``."""
        samples = sum(r.samples for r in self.results)
        valid = sum(r.valid_fraction * r.samples for r in self.results)
        truth = self.truth()
        return {
            "recordings": [result.to_json() for result in self.results],
            "summary": {
                "recordings": len(self.results),
                "samples": samples,
                "duration": sum(r.duration for r in self.results),
                "valid_fraction": valid / samples,
                "events": sum(len(r.events) for r in self.results),
                "truth": None if truth is None else {**truth["summary"], "curve": truth["curve"]},
            },
        }


def _together(scored: Sequence[tuple[Score, float]]) -> Summary:
    return summarise([score for score, _ in scored], sum(free for _, free in scored))


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None
