"""The motions in a recording, in the model's joint order, for calibrate and check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.errors import RecordingError
from rbd_control.files.input_files import about
from rbd_control.identification import RecordedMotion
from rbd_control.joint_states import JointStateIntake, SampleBlock
from rbd_control.playback.recorded_joints import match_joints
from rbd_control.playback.recording import ClockJump, Recording, ReplayClock
from rbd_control.playback.truth import GRACE
from rbd_control.wording import counted

Array = NDArray[np.float64]

FEWEST = 3
"""Minimum number of samples of a motion; shorter motions are left out."""


@dataclass(frozen=True, eq=False)
class RecordedMotions:
    """The motions of a recording, and the counts of its messages.

    A motion consists of the samples with velocity and effort between two jumps of the clock, at
    least :data:`FEWEST`. The time line of the recording counts from its first sample and continues
    across the jumps.
    """

    motions: tuple[RecordedMotion, ...]
    """The motions; more than one only if the clock went back. Times [s] count from the first sample
    of each."""
    starts: tuple[float, ...]
    """Time of the first sample of each motion on the time line of the recording [s]."""
    joint_names: tuple[str, ...]
    """Recorded names of the model's joints, in the order of the model."""
    times: Array
    """(k,) times of all samples on the time line [s], also of those without velocity or effort."""
    start: float
    """Stamp of the first sample, where the time line begins [s]; NaN without a sample."""
    jumps: tuple[ClockJump, ...]
    """Backward jumps of the clock of the joint states."""
    messages: int
    """Number of messages in the recording, without those of other joints, as of a gripper."""
    missing: dict[str, int]
    """Number of samples without velocity, key ``velocity``, or effort, key ``effort``; no zeros."""
    dropped: dict[str, int]
    """Number of dropped messages by reason."""
    notes: tuple[str, ...]
    """Notes on the matching of joint names."""

    @property
    def unused(self) -> str:
        """Text with the numbers of unusable messages by reason; empty if all are usable."""
        lacking = [f"{count} lack {what}" for what, count in self.missing.items()]
        return ", ".join(
            [*lacking, *([f"dropped: {counted(self.dropped)}"] if self.dropped else [])]
        )


def read_motions(
    recording: Recording,
    model: Model,
    joints: Sequence[str] | None = None,
    velocity_filter: float = 0.0,
) -> RecordedMotions:
    """Return the motions in a recording for calibration and check; there may be none.

    Args:
        recording: the recording from :func:`~rbd_control.playback.recording.read_recording`.
        model: the robot.
        joints: recorded names of the model's joints, in the order of the model; by default the
            names of the model, or names that differ from them by one prefix.
        velocity_filter: see :class:`~rbd_control.joint_states.JointStateIntake`.

    Raises:
        RecordingError: naming the file, if the recording lacks joints of the model or is damaged.
    """
    with about(recording.path):
        recorded = recording.names_with(joints or model.joint_names)
        names, notes = match_joints(model.joint_names, recorded, joints, others=model.other_joints)
        intake = JointStateIntake(names, follow_jumps=True, velocity_filter=velocity_filter)
        clock = ReplayClock()
        times: list[Array] = []
        parts: list[tuple[float, list[SampleBlock]]] = [(0.0, [])]
        for timed in recording.timed_blocks(intake):
            times.append(clock.times(timed, intake.period))
            if timed.samples.after_jump:
                parts.append((0.0, []))
            if timed.samples.v is not None and timed.samples.tau is not None:
                if not parts[-1][1]:
                    parts[-1] = (float(times[-1][0]), [])
                parts[-1][1].append(timed.samples)
    used = [
        (start, _motion(recording.path.name, blocks))
        for start, blocks in parts
        if sum(block.stamp.size for block in blocks) >= FEWEST
    ]
    dropped = intake.dropped
    foreign = intake.counts["missing joint"] - dropped.get("missing joint", 0)
    counts = {what: intake.counts[f"{what} missing"] for what in ("velocity", "effort")}
    return RecordedMotions(
        motions=tuple(motion for _, motion in used),
        starts=tuple(start for start, _ in used),
        joint_names=names,
        times=np.concatenate(times) if times else np.empty(0),
        start=clock.start,
        jumps=tuple(clock.jumps),
        messages=recording.count - foreign,
        missing={what: count for what, count in counts.items() if count},
        dropped=dropped,
        notes=tuple(notes),
    )


def without_true_contact(
    recording: Recording, found: RecordedMotions
) -> tuple[tuple[RecordedMotion, ...], float]:
    """Return the motions without true contacts, and the time that is left out [s].

    A true contact is left out until :data:`~rbd_control.playback.truth.GRACE` after its end. The
    motions have at least two samples.

    Args:
        recording: the recording, which may state its true contacts.
        found: the result of :func:`read_motions` for it.
    """
    contacts = recording.true_contacts or ()
    motions, lost = [], 0.0
    for motion, start in zip(found.motions, found.starts, strict=True):
        stamps = motion.t + start + found.start
        free = np.ones(stamps.size, dtype=bool)
        for begin, end in contacts:
            last = np.inf if end is None else end + GRACE
            free &= (stamps < begin) | (stamps > last)
        if motion.t.size > 1:
            lost += float((~free[1:] * np.diff(motion.t)).sum())
        motions.append(motion.only(free))
    return tuple(m for m in motions if m.t.size > 1), lost


def free_motions(
    recording: Recording, found: RecordedMotions
) -> tuple[tuple[RecordedMotion, ...], tuple[str, ...]]:
    """Return the motions for a calibration, without true contacts, and notes on what is left out.

    Args:
        recording: the recording, which may state its true contacts.
        found: the result of :func:`read_motions` for it.

    Raises:
        RecordingError: naming the file and the deficiencies of its messages, if it has no motion,
            or none without true contact.
    """
    motions, lost = without_true_contact(recording, found)
    with about(recording.path):
        if not found.motions:
            raise RecordingError(
                f"has no samples with both velocity and effort, which calibration needs: of "
                f"{found.messages} messages {found.unused or 'too few are usable'}"
            )
        if not motions:
            raise RecordingError("has no motion without contact: its true contacts cover it")
    if not lost:
        return motions, ()
    return motions, (f"{lost:.1f} s of true contact in the recording are left out",)


def _motion(name: str, blocks: Sequence[SampleBlock]) -> RecordedMotion:
    """Return successive blocks of samples as one motion, its times from zero."""
    t, q, v, tau = (
        np.concatenate([getattr(block, what) for block in blocks])
        for what in ("stamp", "q", "v", "tau")
    )
    return RecordedMotion(name, t - t[0], q, v, tau)
