"""Sources of the arms that a page shows: interface for live arms, and replayed recordings."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.errors import RecordingError
from rbd_control.estimation import LEVELS, BlockDetection, ContactEvent, DetectorParameters
from rbd_control.joint_states import JointStateIntake, SampleBlock
from rbd_control.playback.recording import Recording, read_recording
from rbd_control.playback.replay import replay
from rbd_control.playback.result import ReplayResult
from rbd_control.robot.shapes import NO_SURFACE, Surface
from rbd_control.view.scene import Scene
from rbd_control.view.state import WINDOW, ArmState, Playhead, Touch, Verdict, probabilities

Array = NDArray[np.float64]

STEP = 1.0 / 60.0
"""Time between two frames of a recording with at most :data:`MOST_FRAMES` frames [s]."""

MOST_FRAMES = 400_000
"""Maximum number of frames; above it the time between frames is doubled.

With the initial time between frames, :data:`STEP`, it corresponds to 1.8 hours."""

MOST_SHOWN = 600
"""Maximum number of points of a curve in the chart; the grouping of frames may add one."""

_TURN = 1.5
"""Change of a joint between two frames above which it is not interpolated [rad or m]."""


_LATE = 0.5
"""Age above which a tracking error is ignored [s]."""

_NO_ERRORS = np.zeros(0), np.zeros(0)


@dataclass(frozen=True, eq=False)
class Track:
    """Frames of a recording in order of time, and its events.

    A frame represents the samples from its time to the time of the next frame.

    Attributes:
        joints: names of the n joints of the model.
        times: time of each frame from the first sample, increasing, (k,) [s].
        q: joint positions of the first sample of each frame, (k, nq) [rad or m].
        ratios: residual divided by its threshold, signed, with the largest magnitude in the samples
            of the frame, so that no peak is lost, (k, n); NaN without a verdict.
        levels: index into :data:`~rbd_control.estimation.LEVELS`, the highest in the samples of the
            frame, (k,); -1 without a verdict.
        events: the latest event of each contact, in the order of detection; its times count from
            the first sample.
        errors: times from the first sample, increasing, (m,) [s], and largest absolute position
            errors of the controller, (m,) [rad or m]; empty if the recording has none.
        friction: changes of friction that the detector has learned until the end.
    """

    joints: tuple[str, ...]
    times: Array
    q: NDArray[np.float32]
    ratios: NDArray[np.float32]
    levels: NDArray[np.int8]
    events: tuple[ContactEvent, ...]
    errors: tuple[Array, Array] = _NO_ERRORS
    friction: str = ""

    @property
    def duration(self) -> float:
        """Time of the last frame from the first sample [s]."""
        return float(self.times[-1])

    def at(self, time: float) -> ArmState:
        """Return the state of the arm at a time from the first sample [s].

        Positions are interpolated linearly between two frames, unless a joint moves by more than
        1.5 rad or m between them. Verdict and ratios are those of the frame at or before ``time``.
        The mode and the energies of the controller are unknown.
        """
        k = max(bisect_right(self.times, time) - 1, 0)
        current = self._current(time)
        level = int(self.levels[k])
        verdict: Verdict = "no verdict"
        if level >= 0:
            verdict = "no contact" if not level else LEVELS[level]  # type: ignore[assignment]
        return ArmState(
            time=time,
            q=self._position(k, time),
            verdict=verdict,
            touch=None if current < 0 else self._touch(self.events[current], k),
            joints=self.joints,
            ratios=self.ratios[k].astype(float),
            events=self.events,
            current=current,
            tracking_error=self._error(time),
            friction=self.friction,
        )

    def history(self, time: float) -> tuple[Array, Array]:
        """Return the ratios of residual to threshold in the last seconds before a time.

        If there are more than :data:`MOST_SHOWN` frames, the ratio of largest magnitude in each
        group of successive frames is returned.

        Args:
            time: end of the history, from the first sample [s]; its length is
                :data:`~rbd_control.view.state.WINDOW`.

        Returns:
            Times from the first sample, (k,) [s], and ratios, (k, n).
        """
        first, last = np.searchsorted(self.times, [time - WINDOW, time], side="right")
        part = slice(int(first), max(int(last), int(first)))
        every = max(-(-(part.stop - part.start) // MOST_SHOWN), 1)
        # The groups of frames do not change during playback, so that the curve does not flicker.
        part = slice(part.start // every * every, part.stop)
        times, ratios = self.times[part], self.ratios[part].astype(float)
        starts = np.arange(0, len(times), every)
        if every == 1 or not starts.size:
            return times, ratios
        return times[starts], _extremes(ratios, starts)

    def _error(self, time: float) -> float:
        """Return the tracking error at a time [s]; NaN if it is unknown."""
        times, errors = self.errors
        k = int(np.searchsorted(times, time, side="right")) - 1
        return float(errors[k]) if k >= 0 and time - times[k] < _LATE else math.nan

    def _current(self, time: float) -> int:
        """Return the index of the event whose flag is raised at a time [s], or -1."""
        for number, event in enumerate(self.events):
            if event.detected <= time and (event.release is None or time < event.release):
                return number
        return -1

    def _position(self, k: int, time: float) -> Array:
        """Return the joint positions at a time in frame k or after it, (nq,) [rad or m]."""
        q = self.q[k].astype(float)
        if k + 1 == len(self.times):
            return q
        step = self.q[k + 1].astype(float) - q
        lasts = self.times[k + 1] - self.times[k]
        if np.abs(step).max(initial=0.0) > _TURN or lasts <= 0.0:
            return q
        part = (time - self.times[k]) / lasts
        return np.asarray(q + float(np.clip(part, 0.0, 1.0)) * step)

    def _touch(self, event: ContactEvent, k: int) -> Touch:
        """Return the contact of an event at frame k.

        The force has its direction at the peak. Its size is scaled by the present ratio of residual
        to threshold of the event's joint, divided by the largest ratio during the contact.
        """
        force = event.force
        peak = self._peak(event)
        if force is not None and event.joint in self.joints and peak > 0.0:
            now = abs(float(self.ratios[k, self.joints.index(event.joint)]))
            force = force * min(now / peak, 1.0) if np.isfinite(now) else force
        return Touch(event.link, probabilities(event), force, event.point)

    def _peak(self, event: ContactEvent) -> float:
        """Return the largest magnitude of the ratio of an event's joint while its flag was raised.

        It is 0 if the joint has no ratios.
        """
        if event.joint not in self.joints:
            return 0.0
        end = self.duration if event.release is None else event.release
        first, last = np.searchsorted(self.times, [event.detected, end])
        part = self.ratios[max(int(first) - 1, 0) : int(last) + 1, self.joints.index(event.joint)]
        finite = np.abs(part[np.isfinite(part)])
        return float(finite.max(initial=0.0))


class TrackRecorder:
    """Builds a :class:`Track` from the blocks of samples of a replay.

    Args:
        joints: names of the n joints of the model.

    Attributes:
        start: stamp of the first sample of the recording [s]; NaN before the first block.
    """

    def __init__(self, joints: Sequence[str]) -> None:
        self._joints = tuple(joints)
        self._step = STEP
        self.start = math.nan
        self._parts: list[tuple[Array, Array, Array, Array]] = []
        self._count = 0

    def add(self, times: Array, block: SampleBlock, found: BlockDetection) -> None:
        """Add a block of samples; pass this method to ``replay`` as ``watch``.

        Args:
            times: times since the first sample of the recording, (k,) [s], later than the times of
                earlier blocks.
            block: the k samples.
            found: residuals, thresholds and verdicts of the detector for these samples.
        """
        if math.isnan(self.start):
            self.start = float(block.stamp[0] - times[0])
        ratios = np.where(found.valid[:, None], found.residual / found.threshold, np.nan)
        levels = np.where(found.valid, found.level, -1)
        self._append(times, block.q, ratios, levels)
        if self._count > MOST_FRAMES:
            self._step *= 2.0
            frames = self._joined()
            self._parts, self._count = [], 0
            self._append(*frames)

    def track(self, events: Sequence[ContactEvent]) -> Track:
        """Return the track of all blocks so far, of which there must be at least one.

        Args:
            events: the latest event of each contact, in any order, times from the first sample.
        """
        times, q, ratios, levels = self._joined()
        return Track(
            self._joints,
            times,
            q.astype(np.float32),
            ratios.astype(np.float32),
            levels.astype(np.int8),
            tuple(sorted(events, key=lambda event: event.detected)),
        )

    def _append(self, times: Array, q: Array, ratios: Array, levels: Array) -> None:
        bins = np.floor(times / self._step + 1e-9)
        starts = np.flatnonzero(np.diff(bins, prepend=-1.0))
        part = (
            times[starts],
            q[starts],
            _extremes(ratios, starts),
            np.maximum.reduceat(levels, starts),
        )
        self._parts.append(part)
        self._count += len(starts)

    def _joined(self) -> tuple[Array, Array, Array, Array]:
        times, q, ratios, levels = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        return times, q, ratios, levels


def tracking_errors(recording: Recording, start: float) -> tuple[Array, Array]:
    """Return the largest position error of a joint over time, as the controller published it.

    Args:
        recording: recording of the controller's topic ``~/tracking_error``, whose joint states
            contain position errors as positions.
        start: stamp of the first sample of the arm [s], from which the returned times count.

    Returns:
        Times, increasing, (m,) [s], and the largest absolute error of all joints, (m,) [rad or m];
        at most one value per :data:`STEP`.

    Raises:
        RecordingError: if the recording is damaged.
    """
    times, errors = [np.zeros(0)], [np.zeros(0)]
    last = -1
    for block in recording.sample_blocks(JointStateIntake(recording.joint_names)):
        bins = np.floor((block.stamp - start) / STEP).astype(int)
        starts = np.flatnonzero(np.diff(bins, prepend=last))
        last = int(bins[-1])
        times.append(block.stamp[starts] - start)
        errors.append(np.abs(block.q).max(axis=1)[starts])
    return np.concatenate(times), np.concatenate(errors)


def _extremes(values: Array, starts: NDArray[np.intp]) -> Array:
    """Return the value of largest magnitude in each group of rows; NaN is ignored."""
    highest = np.fmax.reduceat(values, starts)
    lowest = np.fmin.reduceat(values, starts)
    return np.asarray(np.where(np.abs(lowest) > np.abs(highest), lowest, highest))


TRACKING_ERROR = "/passivity_controller/tracking_error"
"""Topic of a recording from which the controller's position errors are read."""


class Source(Protocol):
    """Interface of one arm, live or recorded, that a page shows.

    Attributes:
        name: name of the arm on the page.
    """

    name: str

    @property
    def scene(self) -> Scene | None:
        """Geometry of the arm; None while its description is unknown."""

    def state(self) -> ArmState:
        """Return the present state of the arm.

        A live arm also processes the messages that have arrived since the last call.
        """

    def during(self, event: ContactEvent) -> ArmState | None:
        """Return the state of a live arm at the largest residual of a contact, if it is kept.

        A recording returns None; its playhead goes to events.
        """

    def history(self) -> tuple[tuple[str, ...], Array, Array]:
        """Return the residuals of the last :data:`~rbd_control.view.state.WINDOW` seconds.

        Returns:
            Names of the n joints; times, (k,) [s], on the clock of ``ArmState.time``; and signed
            ratios of residual to threshold, (k, n).
        """


class RecordingSource:
    """A recording processed by the detector; the playhead selects the time that is shown.

    :meth:`of` makes a source from a recording.

    Attributes:
        name: name of the arm on the page.
        scene: geometry of the arm.
        track: positions, residuals, verdicts and events of the recording, as frames for the page.
        playhead: position of the playback, initially at the start of the recording.
        result: result of the detector, as ``rbd-control replay`` reports it.
    """

    def __init__(self, name: str, scene: Scene, track: Track, result: ReplayResult) -> None:
        self.name, self.scene, self.track, self.result = name, scene, track, result
        self.playhead = Playhead(track.duration, track.events)

    @classmethod
    def of(
        cls,
        recording: Recording,
        scene: Scene,
        parameters: DetectorParameters,
        joints: Sequence[str] | None = None,
        surface: Surface = NO_SURFACE,
    ) -> RecordingSource:
        """Run the detector over a recording, as ``rbd-control replay`` does, and return its source.

        The controller's position errors are read from the topic :data:`TRACKING_ERROR`, unless the
        recording is a CSV file or lacks this topic. ``replay`` below is
        :func:`rbd_control.playback.replay.replay`.

        Args:
            recording: the recording; its file name becomes the name of the arm.
            scene: geometry of the arm.
            parameters: parameters of the detector, per-joint values in the model's order.
            joints: names of the model's joints in the recording, as for ``replay``.
            surface: points on the collision geometry of the links, as for ``replay``.

        Raises:
            RecordingError: as ``replay``.
            ParameterError: as ``replay``.
        """
        model: Model = scene.model
        recorder = TrackRecorder(model.joint_names)
        result = replay(
            recording, model, parameters, joints=joints, surface=surface, watch=recorder.add
        )
        track = replace(recorder.track(result.events), friction=result.friction)
        with suppress(RecordingError):  # most recordings have none
            if recording.path.suffix.lower() != ".csv":
                errors = read_recording(recording.path, TRACKING_ERROR)
                track = replace(track, errors=tracking_errors(errors, recorder.start))
        return cls(recording.path.name, scene, track, result)

    def state(self) -> ArmState:
        """Return the state of the arm at the time of the playhead, with the notes of its scene."""
        return replace(self.track.at(self.playhead.time), notice="; ".join(self.scene.notes))

    def during(self, event: ContactEvent) -> None:
        """Return None, because the playhead goes to events."""

    def history(self) -> tuple[tuple[str, ...], Array, Array]:
        """Return the residuals of the last seconds before the playhead, as for :class:`Source`."""
        return (self.track.joints, *self.track.history(self.playhead.time))
