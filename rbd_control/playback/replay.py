"""A recording through the same detector as the node, and what is to be said of the outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import isnan, nan, nextafter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.errors import RecordingError
from rbd_control.estimation import (
    REASONS,
    ContactDetector,
    ContactEvent,
    DetectorParameters,
)
from rbd_control.joint_states import DROPS, REMARKS, JointStateIntake, SampleBlock
from rbd_control.playback.effort_check import EffortCheck, EffortFit
from rbd_control.playback.envelope import Envelope
from rbd_control.playback.joint_matching import match_joints
from rbd_control.playback.recording import Recording
from rbd_control.playback.truth import GRACE, Score, score

Array = NDArray[np.float64]

OFTEN = 0.2
"""A residual above its threshold for this part of the time is hardly contact."""


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
    long [s] the detector was without a verdict, and why. ``score`` is None without truth.
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
            "truth": self.score.to_json() if self.score else None,
        }


def replay(
    recording: Recording,
    model: Model,
    parameters: DetectorParameters,
    *,
    joints: Sequence[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> ReplayResult:
    """Run the detector over a recording.

    Args:
        recording: what :func:`~rbd_control.playback.recording.read_recording` returned.
        model: the robot; the recording may move other joints besides.
        parameters: those of the detector, per-joint values in the model's order.
        joints: what the recording calls the model's joints, in the model's order; by default
            the same, or the same but for one prefix.
        progress: called now and then with the number of messages read.

    Raises:
        RecordingError: when the recording lacks joints of the model, holds no usable sample, or
            turns out damaged on the way.
        ParameterError: when the parameters do not fit the model.
    """
    names, notes = match_joints(model.joint_names, recording.joint_names, joints)
    if parameters == DetectorParameters():
        notes.append("thresholds and friction are the defaults, calibrated for no robot")
    intake = JointStateIntake(names)
    run = _Run(model, parameters, recording)
    for block in recording.sample_blocks(intake):
        run.add(block)
        if progress:
            progress(_messages(intake))
    if not intake.counts["accepted"]:
        raise RecordingError(
            f"none of the {recording.count} messages in {recording.path} can be used: "
            f"{_listed({reason: intake.counts[reason] for reason in DROPS})}"
        )
    return run.result(intake, names, notes)


class _Run:
    """The detector and everything that is gathered beside it, block by block."""

    def __init__(self, model: Model, parameters: DetectorParameters, recording: Recording) -> None:
        n = model.nv
        self._model, self._parameters, self._recording = model, parameters, recording
        self._detector = ContactDetector(model, parameters)
        self._threshold = parameters.for_joints("contact_threshold", n)
        self._efforts = EffortCheck(model)
        self._series = Envelope(n)
        self._start = self._last = nan
        self._medians: list[float] = []
        self._valid = 0
        self._free = 0
        self._invalid: dict[str, float] = {}
        self._events: dict[int, ContactEvent] = {}
        self._largest = np.zeros(n)
        self._sum = np.zeros(n)
        self._squares = np.zeros(n)
        self._over = np.zeros(n)

    def add(self, block: SampleBlock) -> None:
        """Detect, and take the outcome into account."""
        if isnan(self._start):
            self._start = self._last = float(block.stamp[0])
        found = self._detector.update_block(block.stamp, block.q, block.v, block.tau)
        for _, event in found.events:
            self._note(event, event.release)
        times = block.stamp - self._start
        steps = np.diff(block.stamp, prepend=self._last)
        for code in np.unique(found.reason[~found.valid]):
            lasted = float(steps[found.reason == code].sum())
            self._invalid[REASONS[code]] = self._invalid.get(REASONS[code], 0.0) + lasted
        self._last, self._last_q = float(block.stamp[-1]), block.q[-1]
        if (steps > 0.0).any():
            self._medians.append(float(np.median(steps[steps > 0.0])))
        touched = self._in_contact(times)
        if block.tau is not None:
            self._efforts.add(times[~touched], block.q[~touched], block.tau[~touched])
        valid = found.valid
        residual = found.residual[valid]
        self._series.add(times, np.where(valid[:, None], found.residual, np.nan))
        absolute = np.abs(residual)
        if absolute.size:
            self._largest = np.maximum(self._largest, absolute.max(0))
            self._sum += residual.sum(0)
            self._squares += (absolute * absolute).sum(0)
            free = ~touched[valid]
            self._over += (absolute[free] > self._threshold).sum(0)
            self._free += int(free.sum())
        self._valid += len(absolute)

    def result(
        self, intake: JointStateIntake, names: tuple[str, ...], notes: list[str]
    ) -> ReplayResult:
        """Everything that was found."""
        self._finish()
        samples = intake.counts["accepted"]
        duration = self._last - self._start
        events = tuple(self._events.values())
        residuals = self._residuals()
        efforts = self._efforts.fits()
        rate = 1.0 / float(np.median(self._medians)) if self._medians else nan
        contacts = self._true_contacts()
        warnings = _warnings(self._parameters, intake, samples, self._valid, residuals, efforts)
        return ReplayResult(
            recording=str(self._recording.path),
            joints=self._model.joint_names,
            samples=samples,
            duration=duration,
            rate=rate,
            gaps=intake.gaps,
            largest_gap=intake.largest_gap,
            counts=dict(intake.counts),
            valid_fraction=self._valid / samples,
            invalid=self._invalid,
            events=events,
            residuals=residuals,
            efforts=efforts,
            score=None if contacts is None else score(contacts, events, duration),
            warnings=tuple(warnings),
            notes=tuple(notes),
            residual_series=self._series,
            true_torque_series=self._true_torques(names),
        )

    def _note(self, event: ContactEvent, release: float | None) -> None:
        self._events[event.id] = replace(event, release=release).since(self._start)

    def _finish(self) -> None:
        """Get the level and peak of a contact that lasts to the end."""
        # Without effort the detector closes what is open, which is no release.
        after = nextafter(self._last, np.inf)
        event = self._detector.update(after, self._last_q, None, None).event
        if event is not None:
            self._note(event, None)

    def _true_contacts(self) -> list[tuple[float, float | None]] | None:
        contacts = self._recording.true_contacts
        if contacts is None:
            return None
        return [
            (start - self._start, None if end is None else end - self._start)
            for start, end in contacts
        ]

    def _in_contact(self, times: Array) -> NDArray[np.bool_]:
        touched = np.zeros(times.shape, dtype=bool)
        for start, end in self._true_contacts() or ():
            touched |= (times >= start) & (times <= (np.inf if end is None else end + GRACE))
        return touched

    def _residuals(self) -> tuple[JointResidual, ...]:
        n, free = self._valid or np.nan, self._free or np.nan
        columns = (
            self._threshold,
            self._largest + 0.0 * n,
            np.sqrt(self._squares / n),
            self._sum / n,
            self._over / free,
        )
        return tuple(
            JointResidual(joint, *(float(column[i]) for column in columns))
            for i, joint in enumerate(self._model.joint_names)
        )

    def _true_torques(self, names: tuple[str, ...]) -> Envelope | None:
        envelope = None
        for block in self._recording.true_torques():
            if not set(names) <= set(block.name) or block.effort.shape[1] != len(block.name):
                continue
            times = np.where(block.stamp == 0.0, block.receipt, block.stamp) - self._start
            torques = block.effort[:, [block.name.index(name) for name in names]]
            envelope = envelope or Envelope(len(names))
            envelope.add(times[times >= 0.0], torques[times >= 0.0])
        return envelope


def _warnings(
    parameters: DetectorParameters,
    intake: JointStateIntake,
    samples: int,
    valid: int,
    residuals: Sequence[JointResidual],
    efforts: Sequence[EffortFit],
) -> list[str]:
    """What makes the outcome doubtful, the worst first."""
    said = [fit.complaint for fit in efforts if fit.complaint]
    often = [residual for residual in residuals if residual.over_fraction > OFTEN]
    if often:
        cause = "friction (none is set)" if parameters.friction_model == "none" else "friction"
        listed = ", ".join(f"{r.joint} {r.over_fraction:.0%} (mean {r.mean:+.2g})" for r in often)
        said.append(
            f"the residual is above its threshold for too much of the time, {listed}: unless there "
            f"was contact for so long, {cause}, payload, model or thresholds do not fit"
        )
    if said:
        said.insert(0, "do not trust the events: the residual is not external torque alone")
    if not valid:
        said.insert(0, "no verdict at any time")
    for remark, meaning in zip(
        REMARKS,
        (
            "had no usable stamp and were timed by their receipt",
            "lack velocity: no verdict there",
            "lack effort: no verdict there",
        ),
        strict=True,
    ):
        if intake.counts[remark]:
            said.append(f"{intake.counts[remark]} of {samples} samples {meaning}")
    dropped = {reason: intake.counts[reason] for reason in DROPS if intake.counts[reason]}
    if dropped:
        said.append(f"messages dropped: {_listed(dropped)}")
    return said


def _messages(intake: JointStateIntake) -> int:
    return sum(intake.counts[key] for key in ("accepted", *DROPS))


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} x {reason}" for reason, count in counts.items() if count)


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None
