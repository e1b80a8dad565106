"""Recorded motions without contact, and the samples of them that the detector judges.

**Selection of the samples of a recorded motion that the detector judges.**

The detector drops implausible samples, skips repeated samples of a moving arm, gives no verdict on
frozen samples, and restarts where a position jumps. These samples must not raise the thresholds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import RecordingError
from rbd_control.estimation.decision import decide
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.detector_state import (
    JUMP,
    RANGE,
    REASONS,
    REPEATED,
    REPEATED_EFFORTS,
    VALID,
    VERDICT,
    Samples,
    decision_settings,
    new_memory,
)
from rbd_control.estimation.observers import LARGEST
from rbd_control.estimation.thresholds import with_default_thresholds
from rbd_control.estimation.validity import IN_MOTION

Array = NDArray[np.float64]

LEAST_TRAVEL = 0.5
"""Smallest travel of a joint for the identification of its friction [rad or m]."""
SLOW = 0.05
"""Speed below which a joint counts as at rest [rad/s or m/s]."""
STRAY_FACTOR = 1000.0
"""Ratio of an effort to the joint's median magnitude above which it is implausible."""
LEAST_SHARE = 0.05
"""Share of the time in which each joint must move in each direction."""


@dataclass(frozen=True, eq=False)
class RecordedMotion:
    """A recorded contact-free motion, every sample with velocity and effort.

    ``name``, usually the name of the file, identifies the motion in messages.
    """

    name: str
    t: Array
    """(k,) times of the samples [s], increasing."""
    q: Array
    """(k, nq) positions [rad or m]."""
    v: Array
    """(k, nv) velocities [rad/s or m/s]."""
    tau: Array
    """(k, nv) joint torques [N·m or N], or the efforts as published, in the unit of the driver."""

    def stretches(self, maximum_gap: float, least: float) -> list[RecordedMotion]:
        """Return the parts without gaps above ``maximum_gap`` [s] that last at least ``least`` [s].

        Parts of less than three samples are left out, so the list may be empty.
        """
        cuts = np.flatnonzero(np.diff(self.t) > maximum_gap) + 1
        bounds = [0, *cuts.tolist(), self.t.size]
        return [
            RecordedMotion(self.name, self.t[a:b], self.q[a:b], self.v[a:b], self.tau[a:b])
            for a, b in zip(bounds[:-1], bounds[1:], strict=True)
            if b - a > 2 and self.t[b - 1] - self.t[a] >= least
        ]

    def only(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> RecordedMotion:
        """Return the motion with only the samples ``rows``: (k,) bool, or increasing indices."""
        return RecordedMotion(self.name, self.t[rows], self.q[rows], self.v[rows], self.tau[rows])


def implausible(
    motion: RecordedMotion, model: Model, parameters: DetectorParameters
) -> NDArray[np.bool_]:
    """Return which joints have an implausible velocity or effort, (k, nv) bool.

    The bounds are multiples of the limits of the description, or of defaults. Efforts are
    multiplied by ``effort_gain``, and gravity torque is added if they lack it. NaN in ``v`` or
    ``tau`` is implausible. The detector drops the samples with these values.

    Args:
        motion: the motion, ``tau`` as ``parameters.effort_kind`` declares.
        model: the robot.
        parameters: of the detector, with ``implausible_speed`` and ``implausible_effort``.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
        InputError: for a ``q`` that is not finite, if the efforts lack gravity.
    """
    bounds = parameters.bounds(model)
    with np.errstate(over="ignore", invalid="ignore"):
        torque = parameters.for_joints("effort_gain", model.nv) * motion.tau
        if parameters.effort_kind == "torque_without_gravity":
            torque = torque + gravity_torque(model, motion.q)
        return ~((np.abs(torque) <= bounds.effort) & (np.abs(motion.v) <= bounds.speed))


def in_range(motion: RecordedMotion) -> NDArray[np.bool_]:
    """Return which samples contain no NaN and no magnitude above 1e9 (``LARGEST``), (k,) bool."""
    with np.errstate(invalid="ignore"):
        columns = (np.abs(x).max(axis=1) <= LARGEST for x in (motion.q, motion.v, motion.tau))
        return np.logical_and.reduce(list(columns))


def stray_bounds(tau: Array) -> Array:
    """Return the magnitude above which an effort of a joint counts as an outlier.

    Args:
        tau: efforts in any unit, (k, nv).

    Returns:
        Bounds in the same unit, (nv,): :data:`STRAY_FACTOR` times the median magnitude of the
        joint, at most 1e9; 1e9 if the median is zero or NaN.
    """
    with np.errstate(invalid="ignore"):
        median = np.nanmedian(np.abs(tau), axis=0)
    return np.where(median > 0.0, np.minimum(STRAY_FACTOR * median, LARGEST), LARGEST)


def refuse_little_motion(motions: Sequence[RecordedMotion], model: Model) -> None:
    """Raise an error if a joint moves too little for identification.

    The path length of each joint in all motions together must be at least :data:`LEAST_TRAVEL`
    [rad or m]. Its speed must exceed :data:`SLOW` in each direction, in a fraction of at least
    :data:`LEAST_SHARE` of all samples.

    Args:
        motions: at least one motion.
        model: the arm.

    Raises:
        RecordingError: naming the joint, its path length, the fraction of samples in which it moves
            in each direction, and what is required.
    """
    travel = sum(np.abs(np.diff(m.q[:, -model.nv :], axis=0)).sum(axis=0) for m in motions)
    v = np.concatenate([m.v for m in motions])
    # A joint with effort belongs to the arm: locked, it would be wrong in all nodes when it moves.
    has_effort = np.any([m.tau.any(axis=0) for m in motions], axis=0)
    for i, joint in enumerate(model.joint_names):
        shares = [(sign * v[:, i] > SLOW).mean() for sign in (1.0, -1.0)]
        if travel[i] < LEAST_TRAVEL or min(shares) < LEAST_SHARE:
            raise RecordingError(
                f"joint {joint!r} moves too little to identify its friction: {travel[i]:.2f} rad "
                f"or m in total, {shares[0]:.0%} of the time forward and {shares[1]:.0%} back "
                f"faster than {SLOW}; {LEAST_TRAVEL} and {LEAST_SHARE:.0%} each way are needed: "
                f"record a motion in which every joint moves back and forth"
                + ("" if has_effort[i] else "; hold a joint that is not the arm's with --lock")
            )


NOTED = 0.01
"""Share of samples that the detector drops from which a note reports them."""


def judged_samples(
    motions: Sequence[RecordedMotion], model: Model, parameters: DetectorParameters
) -> tuple[list[RecordedMotion], tuple[str, ...]]:
    """Return the motions without samples that the detector ignores, cut where it restarts.

    Restarts after a gap do not cut a motion. Repeated and frozen samples are left out without a
    note, because nothing is lost with them. Samples whose efforts repeat while the arm moves are
    left out from the first of them on.

    Args:
        motions: motions with finite values, ``tau`` as joint torque [N·m or N].
        model: the robot, with the gravity that ``tau`` contains.
        parameters: of the detector; kind, gain and friction of the effort do not count.

    Returns:
        The motions, of at least two samples each; and notes for the user with the number of the
        samples that the detector drops, by reason, where they are at least :data:`NOTED` of the
        motion, and with the time of repeated efforts.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """
    plain = replace(parameters, effort_kind="torque", effort_gain=(1.0,), friction_model="none")
    plain = with_default_thresholds(plain, model)
    judged: list[RecordedMotion] = []
    notes = []
    for motion in motions:
        verdict = _verdicts(motion, model, plain)
        dropped = verdict["dropped"]
        stale = _stale(motion, (dropped == VALID) & (verdict["reason"] == REPEATED_EFFORTS))
        frozen = (dropped == VALID) & (stale | (verdict["reason"] == REPEATED))
        kept = np.flatnonzero((dropped == VALID) & ~frozen)
        kept = kept[~repeated_samples(motion.only(kept))]
        restarts = np.isin(verdict["reason"][kept], (JUMP, RANGE))
        frozen_before = np.cumsum(frozen)[kept]
        restarts |= np.diff(frozen_before, prepend=frozen_before[:1]) > 0
        for rows in np.split(kept, np.flatnonzero(restarts)):
            if rows.size > 1:
                judged.append(motion.only(rows))
        if np.mean(dropped != VALID) >= NOTED:
            codes, counts = np.unique(dropped[dropped != VALID], return_counts=True)
            why = ", ".join(
                f"{REASONS[code]} {count}" for code, count in zip(codes, counts, strict=True)
            )
            notes.append(
                f"{motion.name}: {counts.sum()} of {dropped.size} samples are left out because the "
                f"detector drops them: {why}"
            )
        if stale.any():
            lost = float((stale[1:] * np.diff(motion.t)).sum())
            notes.append(
                f"{motion.name}: {lost:.1f} s are left out because the efforts of all joints "
                f"repeat while the arm moves; check that the driver reads them"
            )
    return judged, tuple(notes)


def _stale(motion: RecordedMotion, found: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which samples have the same efforts as one of ``found``, without a break, (k,)."""
    changes = (motion.tau[1:] != motion.tau[:-1]).any(axis=1)
    stretch = np.concatenate([[0], np.cumsum(changes)])
    return np.isin(stretch, stretch[found])


def repeated_samples(motion: RecordedMotion) -> NDArray[np.bool_]:
    """Return which samples of a moving arm repeat the sample before, (k,).

    The detector skips them. Positions and velocities are compared, and the efforts as well unless
    a joint is faster than :data:`~.validity.IN_MOTION`. The arm moves if a velocity is not zero.
    """
    same, same_v, same_effort = (
        (values[1:] == values[:-1]).all(axis=1) for values in (motion.q, motion.v, motion.tau)
    )
    speed = np.abs(motion.v[1:]).max(axis=1)
    repeated = np.zeros(motion.t.size, dtype=np.bool_)
    repeated[1:] = same & same_v & (speed > 0.0) & (same_effort | (speed > IN_MOTION))
    return repeated


def _verdicts(
    motion: RecordedMotion, model: Model, parameters: DetectorParameters
) -> NDArray[np.void]:
    """Return the verdict on each sample, (k,) of ``VERDICT``; contacts are not isolated."""
    t, q, v, tau = map(np.ascontiguousarray, (motion.t, motion.q, motion.v, motion.tau))
    observer = parameters.make_observer(model)
    settings = decision_settings(parameters, model, observer, np.zeros(model.nv))
    samples = Samples(t, q, v, tau, *observer.balance.run(q, v, tau), np.empty((0, 3, model.nv)))
    memory = new_memory(model.nq, model.nv)
    verdict = np.empty(t.size, VERDICT)
    residual, threshold = np.empty((2, t.size, model.nv))
    k = 0
    while k < t.size:
        stop, _ = decide(k, samples, settings, memory, residual, threshold, verdict)
        k = stop + 1
    return verdict


def torque_noise(motions: Sequence[RecordedMotion]) -> Array:
    """Return the standard deviation of one sample of each effort, (nv,), in its unit.

    The second difference of white noise has the variance 6; that of the torque of a motion is small
    most of the time, so that the median tells the noise.

    Args:
        motions: the motions as recorded.
    """
    fresh = [each.tau[~repeated_samples(each)] for each in motions]
    second = np.abs(np.concatenate([np.diff(tau, 2, axis=0) for tau in fresh]))
    return np.asarray(1.4826 * np.median(second, axis=0) / np.sqrt(6.0))
