"""The result of a replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rbd_control.estimation import ContactEvent
from rbd_control.playback.measures import CurvePoint, EffortFit, Envelope
from rbd_control.playback.recording import ClockJump
from rbd_control.playback.truth import Score, Summary, summarise
from rbd_control.results import Result, figures, plain, value

_NOT_IN_JSON = {"in_json": False}


@dataclass(frozen=True)
class JointResidual(Result):
    """The residual of one joint, its estimated external torque [N·m or N], in a recording.

    It covers the samples with a verdict of the detector; without such samples, all values but the
    threshold are NaN. The keys of the fields are those of the JSON of a replay, which has the
    values of all joints by name, and of the tables of a fleet.
    """

    joint: str
    """Name of the joint."""
    unit: str
    """Unit of the torque of the joint: ``N·m``, or ``N`` if it is prismatic."""
    rms: float = value(
        "root mean square, true contacts excluded", key="residual_rms", heading="RMS [N·m]"
    )
    mean: float = value("mean, true contacts excluded", key="residual_mean", heading="mean [N·m]")
    largest: float = value(
        "largest magnitude, true contacts included", key="residual_max", heading="largest [N·m]"
    )
    threshold: float = value("contact threshold at rest", heading="threshold at rest [N·m]")
    over_fraction: float = value(
        "share of the samples, from 0 to 1, whose residual is above the threshold for their "
        "motion, true contacts excluded; like the root mean square and the mean, NaN if all these "
        "samples lie in true contacts",
        key="residual_over_threshold",
        heading="time above threshold",
        digits=1,
        unit=" %",
        scale=100.0,
    )


@dataclass(frozen=True)
class ReplayResult(Result):
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
        dropped: number of samples that the detector dropped like lost messages, by reason.
        events: the detected contacts.
        residuals: the residual of each joint.
        efforts: comparison of the efforts with the model's gravity torques.
        score: events against the true contacts; None if these are unknown.
        friction: changes of friction that the detector has learned until the end; empty if none is
            notable.
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
    joints: tuple[str, ...] = field(metadata=_NOT_IN_JSON)
    samples: int
    start: float = field(metadata=_NOT_IN_JSON)
    duration: float
    rate: float
    gaps: int
    largest_gap: float
    counts: dict[str, int]
    valid_fraction: float
    invalid: dict[str, float]
    dropped: dict[str, int]
    events: tuple[ContactEvent, ...]
    residuals: tuple[JointResidual, ...] = field(metadata=_NOT_IN_JSON)
    efforts: tuple[EffortFit, ...] = field(metadata=_NOT_IN_JSON)
    score: Score | None = field(metadata=_NOT_IN_JSON)
    friction: str
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    clock_jumps: tuple[ClockJump, ...]
    free_time: float = field(metadata=_NOT_IN_JSON)
    curve: tuple[CurvePoint, ...] = field(metadata=_NOT_IN_JSON)
    residual_series: Envelope = field(repr=False, metadata=_NOT_IN_JSON)
    true_torque_series: Envelope | None = field(repr=False, metadata=_NOT_IN_JSON)

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain values that ``json`` can write; unknown values are None."""
        of_joints = {
            key: {each.joint: getattr(each, name) for each in self.residuals}
            for name, key, _ in figures(JointResidual)
        }
        units = {each.joint: each.unit for each in self.residuals}
        ratios = {fit.joint: fit.ratio for fit in self.efforts}
        more = {**of_joints, "units": units, "effort_over_gravity": ratios, "truth": self._truth()}
        content: dict[str, Any] = plain(self)
        return {**content, **plain(more)}

    @property
    def summary(self) -> Summary | None:
        """Statistics of ``score``; None if the true contacts are unknown."""
        return Overview((self,)).summary

    def _truth(self) -> dict[str, Any] | None:
        truth = Overview((self,)).truth()
        return None if truth is None or self.score is None else {**plain(self.score), **truth}


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
