"""A recording through the same detector as the node, and what is to be said of the outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isnan, nan, nextafter

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.errors import RecordingError
from rbd_control.estimation import (
    REASONS,
    BlockDetection,
    ContactDetector,
    ContactEvent,
    DetectorParameters,
    FitWatch,
    Mismatch,
    detector_warnings,
)
from rbd_control.joint_states import DROPS, REMARKS, JointStateIntake, SampleBlock
from rbd_control.playback.curve import CurvePoint, scaled
from rbd_control.playback.effort_check import EffortCheck, EffortFit
from rbd_control.playback.envelope import Envelope
from rbd_control.playback.joint_matching import match_joints
from rbd_control.playback.recording import Recording
from rbd_control.playback.result import JointResidual, ReplayResult
from rbd_control.playback.truth import GRACE, Label, score

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

CHECKED = 60.0
"""Motion that is looked at to tell whether the model fits [s]."""
OFTEN = 0.2
"""A residual above its threshold for this part of the time is hardly contact."""


def replay(
    recording: Recording,
    model: Model,
    parameters: DetectorParameters,
    *,
    joints: Sequence[str] | None = None,
    labels: Sequence[Label] | None = None,
    factors: Sequence[float] = (),
    progress: Callable[[int], None] | None = None,
) -> ReplayResult:
    """Run the detector over a recording.

    Args:
        recording: what :func:`~rbd_control.playback.recording.read_recording` returned.
        model: the robot; the recording may move other joints besides.
        parameters: those of the detector, per-joint values in the model's order.
        joints: what the recording calls the model's joints, in the model's order; by default
            the same, or the same but for one prefix.
        labels: the true contacts, their times [s] counted from the first sample; by default
            those that the recording tells of.
        factors: score as well with all thresholds multiplied by each of these, where the truth
            is known.
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
    run = _Run(model, parameters, recording, labels, factors)
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


class _Detector:
    """A detector and the events it finds; times count from the first sample."""

    def __init__(self, model: Model, parameters: DetectorParameters) -> None:
        self._detector = ContactDetector(model, parameters)
        self._events: dict[int, ContactEvent] = {}
        self.free_time = 0.0

    @property
    def events(self) -> tuple[ContactEvent, ...]:
        return tuple(self._events.values())

    def add(self, block: SampleBlock, start: float, steps: Array, free: Flags) -> BlockDetection:
        """Judge samples ``steps`` after the one before, those of ``free`` without contact."""
        found = self._detector.update_block(block.stamp, block.q, block.v, block.tau)
        for _, event in found.events:
            self._events[event.id] = event.since(start)
        self.free_time += float(steps[found.valid & free].sum())
        return found

    def mismatches(self, watch: FitWatch) -> tuple[Mismatch, ...]:
        """What explains the residual of what ``watch`` has gathered."""
        return watch.mismatches(self._detector)

    def finish(self, block: SampleBlock, start: float) -> None:
        """Get the level and peak of a contact that lasts to the end."""
        # Without effort the detector closes what is open, which is no release.
        after = nextafter(float(block.stamp[-1]), np.inf)
        event = self._detector.update(after, block.q[-1], None, None).event
        if event is not None:
            self._events[event.id] = replace(event.since(start), release=None)


class _Run:
    """The detector and everything that is gathered beside it, block by block."""

    def __init__(
        self,
        model: Model,
        parameters: DetectorParameters,
        recording: Recording,
        labels: Sequence[Label] | None,
        factors: Sequence[float],
    ) -> None:
        n = model.nv
        self._model, self._parameters, self._recording = model, parameters, recording
        self._detector = _Detector(model, parameters)
        known = labels is not None or recording.true_contacts is not None
        self._scaled = {
            factor: _Detector(model, scaled(parameters, factor))
            for factor in (factors if known else ())
        }
        self._labels = labels
        self._threshold = parameters.for_joints("contact_threshold", n)
        self._per_speed = parameters.for_joints("threshold_speed", n)
        self._efforts = EffortCheck(model, parameters)
        self._fit = FitWatch(CHECKED)
        self._series = Envelope(n)
        self._start = self._last = nan
        self._block: SampleBlock
        self._medians: list[float] = []
        self._valid = 0
        self._free = 0
        self._invalid: dict[str, float] = {}
        self._largest = np.zeros(n)
        self._sum = np.zeros(n)
        self._squares = np.zeros(n)
        self._over = np.zeros(n)

    def add(self, block: SampleBlock) -> None:
        """Detect, and take the outcome into account."""
        if isnan(self._start):
            self._start = self._last = float(block.stamp[0])
        times = block.stamp - self._start
        steps = np.diff(block.stamp, prepend=self._last)
        self._last, self._block = float(block.stamp[-1]), block
        if (steps > 0.0).any():
            self._medians.append(float(np.median(steps[steps > 0.0])))
        touched = self._in_contact(times)
        found = self._detector.add(block, self._start, steps, ~touched)
        for detector in self._scaled.values():
            detector.add(block, self._start, steps, ~touched)
        for code in np.unique(found.reason[~found.valid]):
            lasted = float(steps[found.reason == code].sum())
            self._invalid[REASONS[code]] = self._invalid.get(REASONS[code], 0.0) + lasted
        valid, free = found.valid, ~touched
        if block.tau is not None:
            self._efforts.add(times[free], block.q[free], block.tau[free])
            if block.v is not None:
                self._fit.add_block(times[free], block.q[free], block.v[free], block.tau[free])
        residual = found.residual if valid.all() else found.residual[valid]
        self._series.add(times, np.where(valid[:, None], found.residual, np.nan))
        absolute = np.abs(residual)
        if absolute.size:
            self._largest = np.maximum(self._largest, absolute.max(0))
            self._sum += residual.sum(0)
            self._squares += np.einsum("ki,ki->i", residual, residual)
            speed = 0.0 if block.v is None else np.abs(block.v[valid])
            over = absolute > self._threshold + self._per_speed * speed
            self._over += (over & free[valid, None]).sum(0)
            self._free += int(free[valid].sum())
        self._valid += len(absolute)

    def result(
        self, intake: JointStateIntake, names: tuple[str, ...], notes: list[str]
    ) -> ReplayResult:
        """Everything that was found."""
        for detector in (self._detector, *self._scaled.values()):
            detector.finish(self._block, self._start)
        samples = intake.counts["accepted"]
        duration = self._last - self._start
        events = self._detector.events
        residuals = self._residuals()
        efforts = self._efforts.fits()
        rate = 1.0 / float(np.median(self._medians)) if self._medians else nan
        contacts = self._contacts()
        doubts = _doubts(self._detector.mismatches(self._fit), efforts)
        warnings = _warnings(
            self._model, self._parameters, intake, samples, self._valid, residuals, doubts
        )
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
            free_time=self._detector.free_time,
            curve=tuple(
                CurvePoint(factor, score(contacts, detector.events, duration), detector.free_time)
                for factor, detector in self._scaled.items()
                if contacts is not None
            ),
            warnings=tuple(warnings),
            notes=tuple(notes),
            residual_series=self._series,
            true_torque_series=self._true_torques(names),
        )

    def _contacts(self) -> Sequence[Label] | None:
        """The truth, times counted from the first sample."""
        contacts = self._recording.true_contacts
        if self._labels is not None or contacts is None:
            return self._labels
        return [
            Label(start - self._start, None if end is None else end - self._start)
            for start, end in contacts
        ]

    def _in_contact(self, times: Array) -> Flags:
        touched = np.zeros(times.shape, dtype=bool)
        for contact in self._contacts() or ():
            end = np.inf if contact.end is None else contact.end + GRACE
            touched |= (times >= contact.start) & (times <= end)
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


def _doubts(mismatches: Sequence[Mismatch], efforts: Sequence[EffortFit]) -> list[str]:
    """What does not fit; what gravity alone shows only where nothing better is known."""
    explained = {mismatch.joint for mismatch in mismatches}
    return [
        *(mismatch.text for mismatch in mismatches),
        *(fit.complaint for fit in efforts if fit.complaint and not explained & {"", fit.joint}),
    ]


def _warnings(
    model: Model,
    parameters: DetectorParameters,
    intake: JointStateIntake,
    samples: int,
    valid: int,
    residuals: Sequence[JointResidual],
    doubts: Sequence[str],
) -> list[str]:
    """What makes the outcome doubtful, the worst first."""
    said = list(doubts)
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
    said.extend(detector_warnings(parameters, model))
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
