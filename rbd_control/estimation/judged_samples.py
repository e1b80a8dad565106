"""Selection of the samples of a recorded motion that the detector judges.

The detector drops implausible samples, skips repeated samples of a moving arm, gives no verdict on
frozen samples, and restarts where a position jumps. These samples must not raise the thresholds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.estimation.decision import decide
from rbd_control.estimation.default_thresholds import with_default_thresholds
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.detector_settings import decision_settings
from rbd_control.estimation.detector_state import (
    JUMP,
    RANGE,
    REASONS,
    REPEATED,
    REPEATED_EFFORTS,
    VALID,
    VERDICT,
    Samples,
    new_memory,
)
from rbd_control.estimation.motion import Motion
from rbd_control.estimation.validity import IN_MOTION

NOTED = 0.01
"""Share of samples that the detector drops from which a note reports them."""


def judged_samples(
    motions: Sequence[Motion], model: Model, parameters: DetectorParameters
) -> tuple[list[Motion], tuple[str, ...]]:
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
    judged: list[Motion] = []
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


def _stale(motion: Motion, found: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which samples have the same efforts as one of ``found``, without a break, (k,)."""
    changes = (motion.tau[1:] != motion.tau[:-1]).any(axis=1)
    stretch = np.concatenate([[0], np.cumsum(changes)])
    return np.isin(stretch, stretch[found])


def repeated_samples(motion: Motion) -> NDArray[np.bool_]:
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


def _verdicts(motion: Motion, model: Model, parameters: DetectorParameters) -> NDArray[np.void]:
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
