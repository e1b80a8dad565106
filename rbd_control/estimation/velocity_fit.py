"""Comparison of recorded velocities with the changes of the positions, for check and calibrate.

:mod:`rbd_control.control.velocity_match` compares them sample by sample in a running controller.

If the sign of a velocity is wrong, friction seems to drive the joint, and its effort seems reversed
although the effort is correct. Over windows of the lengths :data:`WINDOWS` the change ``x`` of a
position and the integral ``y`` of its velocity have the correlation and the scale::

    r = Σ x y / √(Σ x² Σ y²)        scale = Σ x y / Σ x²

In the long windows slow motion exceeds the noise of the encoders. A first-order filter of the
velocity with time constant T makes ``y`` smaller than ``x`` by T times the change of the velocity.
This difference is added to ``y``, with the T that fits best, at most :data:`FILTER`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.estimation.motion import Motion, in_range
from rbd_control.wording import listed

Array = NDArray[np.float64]

WINDOWS = (0.1, 1.0)
"""Lengths of the windows [s]."""

LONGEST_INTERVAL = 0.1
"""Longest interval between samples that is used [s]."""

FILTER = 0.03
"""Largest time constant of a filter of the velocities that does not count as a defect [s]."""

LEAST_PATH = 0.1
"""Shortest path, over all motions, of a joint whose velocity is judged [rad or m]."""

STEP = 0.005
"""Changes of position up to this value within a window are noise, and no part of the path of
:data:`LEAST_PATH` [rad or m]."""

LEAST_CORRELATION = 0.9
"""Smallest correlation of a velocity that follows its positions."""

SCALES = (0.7, 1.4)
"""Smallest and largest scale of a velocity without defect; other scales are another unit."""


@dataclass(frozen=True)
class VelocityFit:
    """Comparison of the velocity of one joint with the changes of its position.

    Attributes:
        joint: name of the joint.
        scale: velocity, as a multiple of the rate of change of the position; NaN for a joint that
            hardly moves.
        text: defect of the velocity; empty if none is found, and for a joint that hardly moves.
    """

    joint: str
    scale: float
    text: str = ""


def velocity_fits(motions: Sequence[Motion], model: Model) -> tuple[VelocityFit, ...]:
    """Compare the recorded velocity of each joint with the changes of its position.

    Args:
        motions: the motions, with or without contact.
        model: the robot.

    Returns:
        One comparison for each joint, in the order of ``model.joint_names``.
    """
    n = len(model.joint_names)
    moved, said, change = np.zeros((3, 0, n))
    path = np.zeros(n)
    for motion in motions:
        usable, longest = motion.only(in_range(motion)), np.zeros(n)
        for window in WINDOWS:
            sums, lengths = _windows(usable, model, window)
            moved, said, change = (
                np.concatenate(pair) for pair in zip((moved, said, change), sums, strict=True)
            )
            longest = np.maximum(longest, lengths)
        path += longest
    with np.errstate(divide="ignore", invalid="ignore"):
        late = ((moved - said) * change).sum(axis=0) / (change**2).sum(axis=0)
        said = said + np.clip(np.nan_to_num(late), 0.0, FILTER) * change
        size = np.linalg.norm(moved, axis=0)
        scale = (moved * said).sum(axis=0) / size**2
        # Row i, column j: position of joint i and velocity of joint j.
        correlation = moved.T @ said / np.outer(size, np.linalg.norm(said, axis=0))
    fits = []
    for i, joint in enumerate(model.joint_names):
        if path[i] < LEAST_PATH:
            fits.append(VelocityFit(joint, nan))
            continue
        others = np.where(path >= LEAST_PATH, np.nan_to_num(correlation[i]), -inf)
        others[i] = -inf
        j = int(np.argmax(others))
        other = model.joint_names[j] if others[j] > LEAST_CORRELATION else ""
        fits.append(VelocityFit(joint, float(scale[i]), _text(scale[i], correlation[i, i], other)))
    return tuple(fits)


def wrong_velocities(fits: Sequence[VelocityFit]) -> str:
    """Return one sentence about the joints whose velocity is wrong, or an empty text."""
    texts = dict.fromkeys(fit.text for fit in fits if fit.text)
    wrong = [f"{listed([x.joint for x in fits if x.text == text])} ({text})" for text in texts]
    if not wrong:
        return ""
    return f"velocity and position disagree: {'; '.join(wrong)}; fix the driver"


def _text(scale: float, correlation: float, other: str) -> str:
    """Return the defect of a velocity, or an empty text.

    Args:
        scale: velocity, as a multiple of the rate of change of the position.
        correlation: of velocity and change of position.
        other: joint whose velocity correlates with this position; empty for none.
    """
    if scale == 0.0:
        return "zero velocity while the joint moves"
    if correlation < -LEAST_CORRELATION:
        return "wrong sign"
    if not correlation >= LEAST_CORRELATION:
        return f"velocity of {other}" if other else "no correlation"
    if not SCALES[0] <= scale <= SCALES[1]:
        return f"{scale:.3g} times the change of the position"
    return ""


def _windows(
    motion: Motion, model: Model, length: float
) -> tuple[tuple[Array, Array, Array], Array]:
    """Return the change of the position, the integral and the change of the velocity, and the path.

    The first three are sums over each window, (w, n) [rad or m, rad/s or m/s]. The path, (n,), is
    the sum of the magnitudes of the changes of position, without those up to :data:`STEP`.

    Args:
        motion: the motion.
        model: the robot.
        length: length of the windows [s].
    """
    n = len(model.joint_names)
    if motion.t.size < 2:
        return (np.zeros((0, n)), np.zeros((0, n)), np.zeros((0, n))), np.zeros(n)
    dt = np.diff(motion.t)
    v = motion.v[:, -n:]
    way, change = np.diff(motion.q[:, -n:], axis=0), np.diff(v, axis=0)
    expected = 0.5 * (v[1:] + v[:-1]) * dt[:, None]
    turns = ~model.prismatic[-n:]
    way[:, turns] = np.remainder(way[:, turns] + np.pi, 2.0 * np.pi) - np.pi
    for each in (way, expected, change):
        each[dt > LONGEST_INTERVAL] = 0.0
    window = np.floor(motion.t[1:] / length)
    first = np.concatenate(([0], np.flatnonzero(np.diff(window)) + 1))
    sums = [np.add.reduceat(each, first, axis=0) for each in (way, expected, change)]
    steps = np.abs(sums[0])
    return (sums[0], sums[1], sums[2]), np.where(steps > STEP, steps, 0.0).sum(axis=0)
