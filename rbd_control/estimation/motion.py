"""Recorded contact-free motions, and checks that they suffice for identification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import RecordingError
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.momentum_balance import LARGEST

Array = NDArray[np.float64]

LEAST_TRAVEL = 0.5
"""Smallest travel of a joint for the identification of its friction [rad or m]."""
SLOW = 0.05
"""Speed below which a joint counts as at rest [rad/s or m/s]."""
LEAST_SHARE = 0.05
"""Share of the time in which each joint must move in each direction."""


@dataclass(frozen=True, eq=False)
class Motion:
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

    def stretches(self, maximum_gap: float, least: float) -> list[Motion]:
        """Return the parts without gaps above ``maximum_gap`` [s] that last at least ``least`` [s].

        Parts of less than three samples are left out, so the list may be empty.
        """
        cuts = np.flatnonzero(np.diff(self.t) > maximum_gap) + 1
        bounds = [0, *cuts.tolist(), self.t.size]
        return [
            Motion(self.name, self.t[a:b], self.q[a:b], self.v[a:b], self.tau[a:b])
            for a, b in zip(bounds[:-1], bounds[1:], strict=True)
            if b - a > 2 and self.t[b - 1] - self.t[a] >= least
        ]

    def only(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Motion:
        """Return the motion with only the samples ``rows``: (k,) bool, or increasing indices."""
        return Motion(self.name, self.t[rows], self.q[rows], self.v[rows], self.tau[rows])


def implausible(motion: Motion, model: Model, parameters: DetectorParameters) -> NDArray[np.bool_]:
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


def in_range(motion: Motion) -> NDArray[np.bool_]:
    """Return which samples contain no NaN and no magnitude above 1e9 (``LARGEST``), (k,) bool."""
    with np.errstate(invalid="ignore"):
        columns = (np.abs(x).max(axis=1) <= LARGEST for x in (motion.q, motion.v, motion.tau))
        return np.logical_and.reduce(list(columns))


def refuse_little_motion(motions: Sequence[Motion], model: Model) -> None:
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
