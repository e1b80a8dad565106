"""Replay of a recording through the detector of the node, and doubts about its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import nan

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
    detector_warnings,
)
from rbd_control.estimation.detector_state import ZERO_EFFORT
from rbd_control.estimation.detector_warnings import rate_warning
from rbd_control.estimation.drift import guarantee
from rbd_control.estimation.thresholds import unset, with_default_thresholds
from rbd_control.estimation.validity import IN_MOTION
from rbd_control.files.input_files import about
from rbd_control.identification import EffortKindJudge, MotionWatch, PayloadWatch
from rbd_control.identification.diagnosis import PERIOD
from rbd_control.identification.findings import Line
from rbd_control.joint_states import DROPS, JointStateIntake, SampleBlock
from rbd_control.playback.measures import (
    LATCHED,
    CurvePoint,
    EffortCheck,
    Envelope,
    LatchWatch,
    scaled,
)
from rbd_control.playback.recorded_joints import match_joints
from rbd_control.playback.recording import ClockJump, Recording, ReplayClock, TimedBlock
from rbd_control.playback.result import JointResidual, ReplayResult
from rbd_control.playback.truth import GRACE, Label, score
from rbd_control.robot.shapes import NO_SURFACE, Surface
from rbd_control.wording import counted

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

Watch = Callable[[Array, SampleBlock, BlockDetection], None]

ROUNDED = 0.05
"""Largest share of samples with an effort of exactly zero that is no warning: rounded efforts pass
through zero."""
MOST_PAYLOADS = 3
"""Largest number of contacts that are explained as payloads."""
CHECKED = 60.0
"""Duration of motion without known contact that is collected to check the model [s]."""


def replay(  # noqa: PLR0913 - what a detector takes and what the caller wants to see of it
    recording: Recording,
    model: Model,
    parameters: DetectorParameters,
    *,
    joints: Sequence[str] | None = None,
    labels: Sequence[Label] | None = None,
    factors: Sequence[float] = (),
    surface: Surface = NO_SURFACE,
    progress: Callable[[int], None] | None = None,
    watch: Watch | None = None,
) -> ReplayResult:
    """Run the contact detector over a recording, and return events, statistics and scores.

    Messages are processed as in the node: the same messages are dropped, and the detector restarts
    where the clock goes back. Thresholds of zero are replaced by the defaults for the arm, with a
    note in the result.

    Args:
        recording: the recording from :func:`~rbd_control.playback.recording.read_recording`.
        model: the robot; the recording may contain further joints.
        parameters: parameters of the detector, per-joint values in the model's order.
        joints: names of the model's joints in the recording, in the model's order; by default the
            names of the model, or names that differ from them by one prefix.
        labels: the true contacts (the truth), their times [s] counted from the first sample; by
            default the true contacts in the recording.
        factors: factors of all thresholds for the scores in ``curve``; they need the truth.
        surface: points on the collision geometry of the links, as the node takes them from the
            description.
        progress: called repeatedly with the number of messages read so far.
        watch: called with each block of samples: times since the first sample of the recording,
            (k,) [s], the samples, and their detections.

    Returns:
        Events, statistics of the residual, scores, notes and warnings. Apart from events, true
        contacts and clock jumps, its size does not grow with the recording.

    Raises:
        RecordingError: naming the file, if the recording lacks joints of the model, has no usable
            sample, is damaged, or has efforts that refute ``effort_kind`` and have never fitted it,
            while ``check_effort_kind`` is true; also for another number of ``joints`` than the
            model has.
        ParameterError: if the parameters do not fit the model.
    """
    with about(recording.path):
        recorded = recording.names_with(joints or model.joint_names)
        names, notes = match_joints(model.joint_names, recorded, joints, others=model.other_joints)
    notes = [*notes, *unset(parameters, model), *filter(None, [surface.note])]
    parameters = with_default_thresholds(parameters, model)
    intake = JointStateIntake(names, follow_jumps=True, velocity_filter=parameters.velocity_filter)
    run = _Run(model, parameters, recording, labels, factors, surface)
    run.watch = watch
    with about(recording.path):
        for block in recording.timed_blocks(intake):
            run.add(block, intake.period)
            if progress:
                progress(_messages(intake))
        if not intake.counts["accepted"]:
            raise RecordingError(
                f"none of its {recording.count} messages can be used: {counted(intake.dropped)}"
            )
        return run.result(intake, names, notes)


class _Detector:
    """A detector and its events; times count from the first sample.

    Attributes:
        free_time: time with a verdict and without known contact so far [s].
        rate_warning: the first warning about another rate than in the calibration, or empty.
    """

    def __init__(self, model: Model, parameters: DetectorParameters, surface: Surface) -> None:
        self._detector = ContactDetector(model, parameters, surface=surface)
        self._events: dict[int, ContactEvent] = {}
        self.free_time = 0.0
        self.rate_warning = ""

    @property
    def events(self) -> tuple[ContactEvent, ...]:
        """The events so far, in order of detection."""
        return tuple(self._events.values())

    def add(self, block: SampleBlock, offset: float, steps: Array, free: Flags) -> BlockDetection:
        """Process a block of samples.

        Args:
            block: the samples.
            offset: offset that is subtracted from their stamps [s].
            steps: time from the previous sample to each sample (k,) [s].
            free: whether each sample is free of known contact (k,).
        """
        found = self._detector.update_block(block.stamp, block.q, block.v, block.tau)
        for _, event in found.events:
            self._keep(event, offset)
        self.free_time += float(steps[found.valid & free].sum())
        detector = self._detector
        self.rate_warning = self.rate_warning or rate_warning(detector.period, detector.parameters)
        return found

    def start_again(self, offset: float) -> None:
        """Restart after a jump of the clock; an open contact ends at the sample before."""
        event = self._detector.reset()
        if event is not None:
            self._keep(event, offset)

    def remarks(self, watch: MotionWatch) -> tuple[Line, ...]:
        """Return what the collected samples show about the arm and its efforts."""
        return watch.remarks(self._detector)

    @property
    def friction(self) -> str:
        """The changes of friction that the detector has learned; empty if none is notable."""
        return "; ".join(each.text for each in self._detector.drift if each.text)

    @property
    def recovered(self) -> str:
        """The changes of friction if a contact ended because they explained it; else empty."""
        return self.friction if self._detector.recoveries else ""

    def friction_notes(self) -> list[str]:
        """Return notes on changes of friction, and the pushes that are never taken for one."""
        detector = self._detector
        if not detector.drift:
            return []
        notes = [self.friction] if self.friction else []
        if detector.recoveries:
            notes.append(
                f"{detector.recoveries} contacts ended because a sudden change of friction "
                "explained them"
            )
        unit = detector.model.torque_unit()
        return [*notes, guarantee(detector.drift, detector.least_lasting_push, unit)]

    def finish(self, offset: float) -> None:
        """Update level and peak of a contact that is open at the end; it gets no release."""
        event = self._detector.reset()
        if event is not None:
            self._events[event.id] = replace(event.since(offset), release=None)

    def _keep(self, event: ContactEvent, offset: float) -> None:
        self._events[event.id] = event.since(offset)


class _Run:
    """The detector and all collected statistics, block by block.

    Attributes:
        watch: called with each block, see :func:`replay`.
    """

    def __init__(
        self,
        model: Model,
        parameters: DetectorParameters,
        recording: Recording,
        labels: Sequence[Label] | None,
        factors: Sequence[float],
        surface: Surface,
    ) -> None:
        n = model.nv
        self.watch: Watch | None = None
        self._model, self._parameters, self._recording = model, parameters, recording
        self._detector = _Detector(model, parameters, surface)
        known = labels is not None or recording.true_contacts is not None
        self._scaled = {
            factor: _Detector(model, scaled(parameters, factor), surface)
            for factor in (factors if known else ())
        }
        self._labels = labels
        self._threshold = parameters.for_joints("contact_threshold", n)
        self._efforts = EffortCheck(model, parameters)
        self._latch = LatchWatch()
        self._fit = MotionWatch(CHECKED)
        self._effort_kind = EffortKindJudge(model, parameters)
        self._payload, self._payloads = PayloadWatch(model, parameters), dict[float, Line]()
        self._series = Envelope(n)
        self._clock = ReplayClock()
        self._medians: list[float] = []
        self._valid = 0
        self._free = 0
        self._invalid: dict[str, float] = {}
        self._dropped: dict[str, int] = {}
        self._largest = np.zeros(n)
        self._sum = np.zeros(n)
        self._squares = np.zeros(n)
        self._over = np.zeros(n)

    def add(self, timed: TimedBlock, period: float) -> None:
        """Detect contacts in a block of samples, and update the statistics.

        Args:
            timed: the samples.
            period: usual time between samples [s].
        """
        block, clock = timed.samples, self._clock
        if block.after_jump:
            self._effort_kind.start_again()
            for detector in (self._detector, *self._scaled.values()):
                detector.start_again(clock.offset)
        last = clock.time
        times = clock.times(timed, period)
        steps = np.diff(times, prepend=last)
        if (steps > 0.0).any():
            self._medians.append(float(np.median(steps[steps > 0.0])))
        touched = self._in_contact(times)
        found = self._detector.add(block, clock.offset, steps, ~touched)
        if self.watch is not None:
            self.watch(times, block, found)
        if block.v is not None:
            moving = (np.abs(block.v) > IN_MOTION).any(axis=1)
            self._latch.add(times, steps, found.contact, moving & ~touched)
        for detector in self._scaled.values():
            detector.add(block, clock.offset, steps, ~touched)
        for code in np.unique(found.reason[~found.valid]):
            lasted = float(steps[found.reason == code].sum())
            self._invalid[REASONS[code]] = self._invalid.get(REASONS[code], 0.0) + lasted
        for code, count in zip(*np.unique(found.dropped, return_counts=True), strict=True):
            if code:
                self._dropped[REASONS[code]] = self._dropped.get(REASONS[code], 0) + int(count)
        self._check_fit(block, times, ~touched)
        self._explain(block, times, found.contact & ~touched)
        self._measure(times, found, ~touched)

    def _check_fit(self, block: SampleBlock, times: Array, free: Flags) -> None:
        """Collect samples without known contact for the checks of efforts and of the model."""
        if block.tau is None:
            return
        if not free.all():  # usually there is no known contact, and nothing to copy
            times, q, tau = times[free], block.q[free], block.tau[free]
            v = None if block.v is None else block.v[free]
        else:
            q, v, tau = block.q, block.v, block.tau
        self._efforts.add(times, q, tau)
        if v is not None:
            # A jump of the clock ends a motion.
            times = times + 2.0 * self._parameters.maximum_gap * len(self._clock.jumps)
            self._fit.add_block(times, q, v, tau)
            self._effort_kind.add_block(times, q, v, tau)

    def _explain(self, block: SampleBlock, times: Array, raised: Flags) -> None:
        """Look for a payload that explains a contact of which the truth knows nothing."""
        if block.v is None or block.tau is None:
            return
        slots = np.floor(times / PERIOD)
        for k in np.flatnonzero(np.diff(slots, prepend=slots[0] - 1.0)):
            self._payload.add(
                float(times[k]), block.q[k], block.v[k], block.tau[k], bool(raised[k])
            )
            if self._payload.is_due and len(self._payloads) < MOST_PAYLOADS:
                line = self._payload.explain(np.zeros(self._model.nv))
                if line is not None:
                    self._payloads[float(line.values["since"])] = line

    def _measure(self, times: Array, found: BlockDetection, free: Flags) -> None:
        """Add up the residual of the valid samples.

        True contacts count only for the largest residual.
        """
        valid, residual, threshold = found.valid, found.residual, found.threshold
        if valid.all():
            self._series.add(times, residual)
        else:
            self._series.add(times, np.where(valid[:, None], residual, np.nan))
            residual, threshold, free = residual[valid], threshold[valid], free[valid]
        self._valid += len(residual)
        if not len(residual):
            return
        absolute = np.abs(residual)
        self._largest = np.maximum(self._largest, absolute.max(0))
        over = absolute > threshold
        if not free.all():
            residual, over = residual[free], over[free]
        self._sum += residual.sum(0)
        self._squares += np.einsum("ki,ki->i", residual, residual)
        self._over += over.sum(0)
        self._free += len(residual)

    def result(
        self, intake: JointStateIntake, names: tuple[str, ...], notes: list[str]
    ) -> ReplayResult:
        """Return the result of the replay.

        Raises:
            RecordingError: when the efforts refute ``effort_kind`` and have never fitted, unless
                ``check_effort_kind`` is false.
        """
        kind = self._effort_kind
        if kind.is_refuted and not kind.was_confirmed and self._parameters.check_effort_kind:
            raise RecordingError(kind.decision.text)
        for detector in (self._detector, *self._scaled.values()):
            detector.finish(self._clock.offset)
        samples = intake.counts["accepted"]
        duration = self._clock.time
        events = self._detector.events
        rate = 1.0 / float(np.median(self._medians)) if self._medians else nan
        contacts = self._contacts()
        result = ReplayResult(
            recording=str(self._recording.path),
            joints=self._model.joint_names,
            samples=samples,
            start=self._clock.start,
            duration=duration,
            rate=rate,
            gaps=intake.gaps,
            largest_gap=intake.largest_gap,
            counts=dict(intake.counts),
            valid_fraction=self._valid / samples,
            invalid=self._invalid,
            dropped=self._dropped,
            events=events,
            residuals=self._residuals(),
            efforts=self._efforts.fits(),
            score=None if contacts is None else score(contacts, events, duration),
            free_time=self._detector.free_time,
            curve=tuple(
                CurvePoint(factor, score(contacts, detector.events, duration), detector.free_time)
                for factor, detector in self._scaled.items()
                if contacts is not None
            ),
            friction=self._detector.friction,
            warnings=(),
            notes=(*notes, *self._detector.friction_notes()),
            clock_jumps=tuple(self._clock.jumps),
            residual_series=self._series,
            true_torque_series=self._true_torques(names),
        )
        given = (self._model, self._parameters, self._latch, intake.missing)
        said = warnings(result, self._remarks(), *given, self._detector)
        return replace(result, warnings=tuple(said))

    def _remarks(self) -> tuple[Line, ...]:
        """Return what is not as described; only the kind of the efforts if that is wrong."""
        kind = self._effort_kind
        if kind.is_refuted:
            since = "since a pause or jump of the clock, " if kind.was_confirmed else ""
            return (Line("effort", "bad", since + kind.decision.text),)
        return (*self._payloads.values(), *self._detector.remarks(self._fit))

    def _contacts(self) -> Sequence[Label] | None:
        """Return the labels, otherwise the recorded contacts, timed from the first sample."""
        contacts = self._recording.true_contacts
        if self._labels is not None or contacts is None:
            return self._labels
        start = self._clock.start
        return [
            Label(begin - start, None if end is None else end - start) for begin, end in contacts
        ]

    def _in_contact(self, times: Array) -> Flags:
        touched = np.zeros(times.shape, dtype=bool)
        for contact in self._contacts() or ():
            end = np.inf if contact.end is None else contact.end + GRACE
            touched |= (times >= contact.start) & (times <= end)
        return touched

    def _residuals(self) -> tuple[JointResidual, ...]:
        n, free = self._valid or np.nan, self._free or np.nan
        columns = {
            "rms": np.sqrt(self._squares / free),
            "mean": self._sum / free,
            "largest": self._largest + 0.0 * n,
            "threshold": self._threshold,
            "over_fraction": self._over / free,
        }
        return tuple(
            JointResidual(
                joint,
                self._model.torque_unit(self._model.joint_index(joint)),
                **{name: float(column[i]) for name, column in columns.items()},
            )
            for i, joint in enumerate(self._model.joint_names)
        )

    def _true_torques(self, names: tuple[str, ...]) -> Envelope | None:
        """Return the recorded true external joint torques for the picture; None without any."""
        envelope = None
        first: tuple[float, float] | None = None
        for block in self._recording.true_torques():
            if not set(names) <= set(block.name) or block.effort.shape[1] != len(block.name):
                continue
            stamp = np.where(block.stamp == 0.0, block.receipt, block.stamp)
            first = first or (float(stamp[0]), float(block.receipt[0]))
            if self._clock.jumps:
                # Stamps are ambiguous after a jump; the clock of the recorder is not.
                stamp = first[0] + block.receipt - first[1]
            times = stamp - self._clock.start
            order = np.argsort(times, kind="stable")
            order = order[(times[order] >= 0.0) & (times[order] <= self._clock.time)]
            torques = block.effort[:, [block.name.index(name) for name in names]]
            envelope = envelope or Envelope(len(names))
            envelope.add(times[order], torques[order])
        return envelope


def _messages(intake: JointStateIntake) -> int:
    return sum(intake.counts[key] for key in ("accepted", *DROPS))


OFTEN = 0.2
"""Share of the samples above the threshold beyond which a residual is unlikely to be contact."""

SLOW_RATE = 5.0
"""Rate below which the times of a CSV recording may be in milliseconds [1/s]."""

_SHOWN_JUMPS = 3
"""Maximum number of clock jumps that a warning lists."""


def warnings(
    result: ReplayResult,
    remarks: Sequence[Line],
    model: Model,
    parameters: DetectorParameters,
    latch: LatchWatch,
    missing: str,
    detector: _Detector,
) -> list[str]:
    """Return the problems of a replay as texts for the user, the most serious first.

    Args:
        result: result of the replay.
        remarks: what the diagnosis calls wrong or doubtful.
        model: the robot.
        parameters: the parameters with which the detector ran.
        latch: the longest time for which the flag was raised without known contact.
        missing: value that the last sample without velocity or effort lacks.
        detector: the detector.
    """
    why = causes(remarks, parameters, detector.recovered)
    said = _misfits(result, remarks, why)
    latched = _latched(latch, why, is_free=result.score is not None)
    if result.score is not None:
        said += latched
    if said:
        said.insert(0, "do not trust the events: the residual is not external torque alone")
    if result.score is None:
        said += latched  # it may be a true contact
    said.extend(filter(None, [detector.rate_warning, *detector_warnings(parameters, model)]))
    if result.rate < SLOW_RATE:
        said.insert(
            0,
            f"samples come {1.0 / result.rate:.3g} s apart, too slow to detect contact; if the "
            "times are in milliseconds, divide them by 1000",
        )
    if not result.valid_fraction:
        said.insert(0, "no verdict at any time")
    samples = result.counts["accepted"]
    if result.counts["stamp replaced"]:
        said.append(
            f"{result.counts['stamp replaced']} of {samples} samples have no usable stamp; their "
            "time of receipt was taken instead"
        )
    zero, few = REASONS[ZERO_EFFORT], ROUNDED * samples
    told = {why: n for why, n in result.dropped.items() if why != zero or n > few}
    if told:
        last = f"; the last incomplete sample lacks {missing}" if missing else ""
        said.append(
            f"{sum(told.values())} of {samples} samples dropped like lost messages: "
            f"{counted(told)}{last}"
        )
    # Messages that lack joints are normal beside those of the arm, as of a gripper.
    counts = result.counts | {"missing joint": 0}
    dropped = {reason: counts[reason] for reason in DROPS if counts[reason]}
    if dropped:
        said.append(f"messages dropped: {counted(dropped)}")
    if result.clock_jumps:
        said.append(_jumps(result.clock_jumps))
    return said


def _misfits(result: ReplayResult, remarks: Sequence[Line], why: str) -> list[str]:
    """Return warnings about differences between model, efforts and thresholds.

    ``why`` is what makes a residual exceed its threshold without contact.
    """
    said = [remark.text for remark in remarks]
    # The comparison with gravity alone is used only without a better explanation.
    said += [fit.complaint for fit in result.efforts if fit.complaint and not remarks]
    often = [residual for residual in result.residuals if residual.over_fraction > OFTEN]
    if often:
        joints = ", ".join(f"{r.joint} {r.over_fraction:.0%} (mean {r.mean:+.2g})" for r in often)
        said.append(
            f"the residual is above its threshold for too much of the time, {joints}: unless there "
            f"was contact for so long, {why}"
        )
    return said


def _latched(latch: LatchWatch, why: str, *, is_free: bool) -> list[str]:
    """Return the warning about a flag that stayed up in motion, or an empty list.

    Args:
        latch: the longest time for which the flag was raised.
        why: the cause and the remedy.
        is_free: whether it is known that nothing touched the arm in that time.
    """
    if latch.longest <= LATCHED:
        return []
    free, unless = ("without contact ", "") if is_free else ("", "unless it is one contact, ")
    return [
        f"the flag that rose at {latch.since:.3f} s stayed up for {latch.longest:.1f} s of motion "
        f"{free}and masks contacts: {unless}{why}"
    ]


def causes(remarks: Sequence[Line], parameters: DetectorParameters, friction: str = "") -> str:
    """Return what makes a residual exceed its threshold without contact, as the end of a sentence.

    Args:
        remarks: differences between model and robot, which other warnings describe.
        parameters: the parameters of the detector.
        friction: changes of friction that explained a contact, or empty.
    """
    if remarks:
        return "the differences that the other warnings name are the cause"
    if friction:
        return f"a sudden change of friction is the cause, which the detector follows: {friction}"
    friction = "friction (none is set)" if parameters.friction_model == "none" else "friction"
    return (
        f"{friction}, payload, model or thresholds do not fit; `rbd-control check` on this "
        "recording looks for the cause"
    )


def _jumps(jumps: Sequence[ClockJump]) -> str:
    """Return a warning about jumps of the clock, and their effect on the detector."""
    shown = ", ".join(f"by {jump.back:.3g} s at {jump.time:.3f} s" for jump in jumps[:_SHOWN_JUMPS])
    more = f" and {len(jumps) - _SHOWN_JUMPS} times more" if len(jumps) > _SHOWN_JUMPS else ""
    return (
        f"the clock of the joint states went back {shown}{more}: the detector started again "
        "there, as the node does"
    )
