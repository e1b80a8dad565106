"""The result of a replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rbd_control.estimation import ContactEvent
from rbd_control.playback.measures import CurvePoint, EffortFit, Envelope
from rbd_control.playback.recording import ClockJump
from rbd_control.playback.truth import Score, Summary, summarise


@dataclass(frozen=True)
class JointResidual:
    """The residual of one joint, its estimated external torque [N·m or N], in a recording.

    It covers the samples with a verdict of the detector. Without such samples, all values but the
    threshold are NaN.

    Attributes:
        joint: name of the joint.
        threshold: contact threshold at rest.
        largest: largest magnitude, true contacts included.
        rms: root mean square, true contacts excluded.
        mean: mean, true contacts excluded.
        over_fraction: share of the samples, from 0 to 1, whose residual is above the threshold for
            their motion, true contacts excluded. Like ``rms`` and ``mean``, it is NaN if all these
            samples lie in true contacts.
    """

    joint: str
    threshold: float
    largest: float
    rms: float
    mean: float
    over_fraction: float


@dataclass(frozen=True)
class ReplayResult:
    """The result of a replay. All times count from the recording's first sample [s].

    Attributes:
        recording: path of the recording.
        joints: names of the model's joints.
        samples: number of messages that were accepted as samples.
        start: stamp of the first sample on the clock of the recording [s].
        duration: time from the first to the last sample [s].
        rate: inverse of the median time between samples [1/s]; NaN with a single sample.
        gaps: number of times between samples longer than five mean periods.
        largest_gap: longest time between samples [s].
        counts: ``counts`` of :class:`~rbd_control.joint_states.JointStateIntake`: numbers of
            accepted and dropped messages, and of accepted messages with deficiencies.
        valid_fraction: share of the samples with a verdict, from 0 to 1.
        invalid: how long the detector had no verdict [s], by reason.
        events: the detected contacts.
        residuals: the residual of each joint.
        efforts: comparison of the efforts with the model's gravity torques.
        score: events against the true contacts; None if these are unknown.
        warnings: problems of the result, the most serious first.
        notes: further information for the user.
        clock_jumps: jumps of the clock of the joint states.
        free_time: time with a verdict and without known contact [s].
        curve: scores with other thresholds, if requested; else empty.
        residual_series: residuals of all joints, reduced for pictures [N·m or N].
        true_torque_series: recorded true external torques, reduced for pictures [N·m or N]; None if
            there are none.
    """

    recording: str
    joints: tuple[str, ...]
    samples: int
    start: float
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
        """Return the result as plain values that ``json`` can write; unknown values are None."""
        return {
            "recording": self.recording,
            "samples": self.samples,
            "duration": self.duration,
            "valid_fraction": self.valid_fraction,
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            "events": [event.to_json() for event in self.events],
            "residual_max": {r.joint: _known(r.largest) for r in self.residuals},
            "residual_mean": {r.joint: _known(r.mean) for r in self.residuals},
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
        """Statistics of ``score``; None if the true contacts are unknown."""
        return Overview((self,)).summary

    def _truth(self) -> dict[str, Any] | None:
        truth = Overview((self,)).truth()
        return None if truth is None or self.score is None else {**self.score.to_json(), **truth}


@dataclass(frozen=True)
class Overview:
    """Results of several recordings, and their combined scores.

    Recordings whose true contacts are unknown are left out of the scores.
    """

    results: tuple[ReplayResult, ...]

    @property
    def summary(self) -> Summary | None:
        """Combined scores of all recordings; None if no recording has known true contacts."""
        scored = [(r.score, r.free_time) for r in self.results if r.score is not None]
        return _together(scored) if scored else None

    @property
    def curve(self) -> list[tuple[float, Summary]]:
        """Pairs of a factor and the combined scores with all thresholds multiplied by the factor.

        The factors increase; empty if no curve was requested.
        """
        points: dict[float, list[tuple[Score, float]]] = {}
        for result in self.results:
            for point in result.curve:
                points.setdefault(point.factor, []).append((point.score, point.free_time))
        return [(factor, _together(scored)) for factor, scored in sorted(points.items())]

    def truth(self) -> dict[str, Any] | None:
        """Return :attr:`summary` and :attr:`curve` as plain values for ``json``.

        None if no recording has known true contacts.
        """
        if self.summary is None:
            return None
        curve = [{"factor": factor, **point.to_json()} for factor, point in self.curve]
        return {"summary": self.summary.to_json(), "curve": curve or None}

    def to_json(self) -> dict[str, Any]:
        """Return plain values for ``json``: a list of all results, and their ``summary``."""
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
