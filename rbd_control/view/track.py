"""A replayed recording, reduced to frames for the page."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbd_control.estimation import LEVELS, BlockDetection, ContactEvent
from rbd_control.joint_states import JointStateIntake, SampleBlock
from rbd_control.playback.recording import Recording
from rbd_control.view.state import WINDOW, ArmState, Touch, Verdict, probabilities

Array = NDArray[np.float64]

STEP = 1.0 / 60.0
"""Time between two frames of a short recording [s]."""

MOST_FRAMES = 400_000
"""Number of frames above which every second frame is dropped; 1.8 hours with the first step."""

MOST_SHOWN = 600
"""Largest number of points of the chart."""

_TURN = 1.5
"""Change of a joint between two frames above which it is not interpolated [rad or m]."""


_LATE = 0.5
"""Age above which a tracking error is ignored [s]."""

_NO_ERRORS = np.zeros(0), np.zeros(0)


@dataclass(frozen=True, eq=False)
class Track:
    """Frames of a recording in order of time, and its events.

    Attributes:
        joints: the joints of the model.
        times: time of each frame from the first sample, (k,) [s].
        q: joint positions, (k, nq) [rad or m].
        ratios: residual in units of the threshold, with the largest magnitude since the previous
            frame, so that no peak is lost, (k, n).
        levels: index into :data:`~rbd_control.estimation.LEVELS`, the highest since the previous
            frame, (k,); -1 without a verdict.
        events: the contacts, the oldest first, times from the first sample.
        errors: times, (m,) [s], and largest position errors, (m,) [rad or m], of the controller;
            empty if the recording has none.
    """

    joints: tuple[str, ...]
    times: Array
    q: NDArray[np.float32]
    ratios: NDArray[np.float32]
    levels: NDArray[np.int8]
    events: tuple[ContactEvent, ...]
    errors: tuple[Array, Array] = _NO_ERRORS

    @property
    def duration(self) -> float:
        """Time of the last frame [s]."""
        return float(self.times[-1])

    def at(self, time: float) -> ArmState:
        """Return the state at a time from the first sample [s]."""
        k = max(bisect_right(self.times, time) - 1, 0)
        current = self._current(time)
        level = int(self.levels[k])
        verdict: Verdict = "no verdict"
        if level >= 0:
            verdict = "free" if not level else LEVELS[level]  # type: ignore[assignment]
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
        )

    def history(self, time: float) -> tuple[Array, Array]:
        """Return times, (k,) [s], and ratios, (k, n), of the last seconds before a time [s]."""
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

        The force has its direction at the peak; its size is scaled with the residual of the joint
        with the highest ratio of residual to threshold.
        """
        force = event.force
        peak = self._peak(event)
        if force is not None and event.joint in self.joints and peak > 0.0:
            now = abs(float(self.ratios[k, self.joints.index(event.joint)]))
            force = force * min(now / peak, 1.0) if np.isfinite(now) else force
        return Touch(event.link, probabilities(event), force, event.point)

    def _peak(self, event: ContactEvent) -> float:
        """Return the largest ratio of an event's joint while its flag was raised."""
        if event.joint not in self.joints:
            return 0.0
        end = self.duration if event.release is None else event.release
        first, last = np.searchsorted(self.times, [event.detected, end])
        part = self.ratios[max(int(first) - 1, 0) : int(last) + 1, self.joints.index(event.joint)]
        finite = np.abs(part[np.isfinite(part)])
        return float(finite.max(initial=0.0))


class TrackRecorder:
    """Builds a :class:`Track` from the blocks of a replay.

    Args:
        joints: the joints of the model.

    Attributes:
        start: stamp of the first sample [s]; NaN before the first block.
    """

    def __init__(self, joints: Sequence[str]) -> None:
        self._joints = tuple(joints)
        self._step = STEP
        self.start = math.nan
        self._parts: list[tuple[Array, Array, Array, Array]] = []
        self._count = 0

    def add(self, times: Array, block: SampleBlock, found: BlockDetection) -> None:
        """Add a block of samples.

        Args:
            times: times since the first sample of the recording, (k,) [s].
            block: the samples.
            found: the detections for these samples.
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
        """Return the track of all blocks so far."""
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
        recording: tracking errors as joint states, on the topic ``~/tracking_error``.
        start: stamp of the first sample of the arm [s].

    Returns:
        Times from that sample, increasing, (m,) [s], and errors, (m,) [rad or m].
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
