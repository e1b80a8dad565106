"""Delay of the velocities, and velocities that do not fit the positions.

**Identification of the velocity's delay from motions without contact.**

A velocity that is late by T makes the momentum late, so that the mean external torque of a motion
without contact is, to first order in T (:mod:`~rbd_control.estimation.observers`)::

    x = -T d/dt(tau - g) + errors of the model

For each joint, linear regression of the filtered ``x`` gives T. Errors of friction look similar,
since friction is a large part of the torque of a wrist. Therefore the time derivative of the
friction, the acceleration (an unknown inertia), and friction itself as a function of the velocity
are regressors as well, and samples at rest or at reversals are excluded. What remains is the delay
of the inertial torque. A late effort contains the gravity torque, which is late as well, so that
its derivative is a further regressor if the estimate is negative. White noise of the effort has no
effect, because it is not correlated with its own derivative. A search for the delay with the
smallest residual would be biased by this noise, because every delay smooths it.

All joints have one delay: the mean, weighted by the inverse variances of the regressions. Its
standard error contains the disagreement between the joints.

**Comparison of recorded velocities with the changes of the positions, for check and calibrate.**

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
from dataclasses import dataclass, replace
from math import inf, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.estimation.observers import SecondOrderObserver, delay_torques
from rbd_control.estimation.thresholds import AWAY, reversals
from rbd_control.identification.motion import SLOW, RecordedMotion, in_range
from rbd_control.identification.regression import (
    FILTER_GAIN,
    PER_RATE,
    SETTLING,
    external_means,
    means,
)
from rbd_control.robot.friction import Friction
from rbd_control.wording import listed

Array = NDArray[np.float64]

INDEPENDENT = 2.0
"""Time between independent values of the filtered signal, in time constants of the filter."""
LEAST = 10.0
"""Smallest number of independent values per regressor from which a delay is estimated."""
UNKNOWN = 0.005
"""Uncertainty of the delay, :data:`SHOWN` standard errors, above which a warning is given [s]: if a
longer delay is not corrected, a hard stop looks like a contact."""
SHOWN = 2.0
"""Number of standard errors above which a delay counts as shown by the motions."""


class Delay(NamedTuple):
    """An estimated delay of the measured velocity against the measured effort."""

    value: float
    """The delay [s]; negative if the effort is later than the velocity."""
    error: float
    """Its standard error [s]; infinite if the motions do not determine it."""


def delay_note(delay: float, rest: Delay) -> tuple[str, ...]:
    """Return a warning if a delay is shown, but too uncertain to be corrected.

    Args:
        delay: delay of the velocity that the detector corrects already, see ``velocity_delay`` [s].
        rest: estimate of the delay that remains after this correction.

    Returns:
        One text for the user; empty if a delay is corrected, if the remaining delay is not
        significant and its uncertainty at most :data:`UNKNOWN`, and if the motions do not determine
        it.
    """
    if delay != 0.0:
        return ()
    which, late = ("velocity", rest.value) if rest.value > 0.0 else ("effort", -rest.value)
    shown = SHOWN * rest.error
    if np.isfinite(shown) and (late > shown or shown > UNKNOWN):
        return (
            f"the {which} is late by {1e3 * late:.1f} ± {1e3 * rest.error:.1f} ms, too "
            "uncertain to be corrected: record fast starts and stops as well, or they may count "
            "as contacts",
        )
    return ()


def with_delay(motion: RecordedMotion, model: Model, delay: float) -> RecordedMotion:
    """Return a motion whose torque and velocity are equally late.

    The torque minus gravity passes a first-order filter with the time constant ``delay``; if it is
    negative, the velocity passes one with ``-delay``. With a delay of zero the result is ``motion``
    itself.

    Args:
        motion: the motion, ``tau`` as torque [N·m or N].
        model: the robot, with the gravity that ``tau`` contains.
        delay: delay of the velocity against the torque [s].
    """
    if delay == 0.0:
        return motion
    if delay < 0.0:
        filtered = np.empty_like(motion.v)
        delay_torques(np.diff(motion.t), np.ascontiguousarray(motion.v), -delay, filtered)
        return replace(motion, v=filtered)
    gravity = gravity_torque(model, motion.q)
    drive = np.ascontiguousarray(motion.tau - gravity)
    late = np.empty_like(drive)
    delay_torques(np.diff(motion.t), drive, delay, late)
    return replace(motion, tau=gravity + late)


def estimate_delay(
    motions: Sequence[RecordedMotion],
    model: Model,
    friction: Friction,
    maximum_gap: float,
    corrected: float = 0.0,
) -> Delay:
    """Return the common delay of all joint velocities against the efforts.

    Args:
        motions: motions without contact, ``tau`` as torque [N·m or N].
        model: the robot with its identified corrections and the gravity that ``tau`` contains.
        friction: its identified friction.
        maximum_gap: longest time between two samples; a longer gap divides a motion [s].
        corrected: delay that the motions were corrected for, by :func:`with_delay` [s].

    Returns:
        The delay [s] that is left, with its standard error: positive if the velocity is late,
        negative if the effort is late. If the motions do not determine it, the value is 0 and the
        error infinite.
    """
    parts = [
        _terms(part, model, friction, gain)
        for motion in motions
        for gain in (min(FILTER_GAIN, PER_RATE / float(np.median(np.diff(motion.t)))),)
        for part in motion.stretches(maximum_gap, 2.0 * SETTLING / gain)
    ]
    found = _mean_delay([part.without_gravity() for part in parts], model.nv)
    if corrected > 0.0 or (corrected == 0.0 and found.value >= 0.0):
        return found
    return _mean_delay(parts, model.nv)


def _mean_delay(parts: Sequence[_Terms], nv: int) -> Delay:
    """Return the weighted mean of the delays of all joints."""
    found = [_of_joint(parts, i) for i in range(nv)] if parts else []
    known = np.array([each for each in found if np.isfinite(each.error)]).reshape(-1, 2)
    if not known.size:
        return Delay(0.0, np.inf)
    weight = 1.0 / known[:, 1] ** 2
    mean = float(weight @ known[:, 0] / weight.sum())
    spread = float(weight @ (known[:, 0] - mean) ** 2) / max(len(known) - 1, 1)
    return Delay(mean, float(np.sqrt(max(spread, 1.0) / weight.sum())))


GRAVITY = 1
"""Index of the regressor of the gravity torque."""


class _Terms(NamedTuple):
    """Terms of the regression for one part of a motion without gaps, filtered and settled."""

    x: Array
    """(k, nv) mean external torque without contact [N·m or N]."""
    regressors: Array
    """(k, nv, 8) regressors of each joint; the coefficient of the first one is the delay."""
    used: NDArray[np.bool_]
    """(k, nv) whether the joint moves, away from reversals."""
    alike: float
    """Number of successive samples that contain one independent value of the filtered signals."""

    def without_gravity(self) -> _Terms:
        """Return the terms without the derivative of the gravity torque."""
        return self._replace(regressors=np.delete(self.regressors, GRAVITY, axis=2))


def _terms(part: RecordedMotion, model: Model, friction: Friction, gain: float) -> _Terms:
    dt = np.diff(part.t)
    observer = SecondOrderObserver(model, gain)

    def filtered(x: Array) -> Array:
        return observer.filter(dt, x)

    def derivative(x: Array) -> Array:
        return filtered(np.diff(x, axis=0) / dt[:, None])

    gravity, resisting = gravity_torque(model, part.q), friction.torque(part.v)
    drive = part.tau - gravity
    v = filtered(means(part.v))
    columns = (
        -derivative(drive),
        derivative(gravity),
        derivative(resisting),
        derivative(part.v),
        np.sign(v),
        v,
        np.ones_like(v),
        v * np.abs(v),
    )
    n, period = model.nv, float(np.median(dt))
    trace = reversals(dt, part.v, np.full(n, SLOW), np.full(n, gain))
    settled = slice(round(SETTLING / (gain * period)), None)
    return _Terms(
        filtered(external_means(part, model) + means(resisting))[settled],
        np.stack(columns, axis=2)[settled],
        (trace < AWAY)[settled],
        max(INDEPENDENT / (gain * period), 1.0),
    )


def _of_joint(parts: Sequence[_Terms], i: int) -> Delay:
    """Return the delay from the data of joint ``i``; its error is infinite if they are too few."""
    A = np.concatenate([part.regressors[part.used[:, i], i] for part in parts])
    x = np.concatenate([part.x[part.used[:, i], i] for part in parts])
    alike = max(part.alike for part in parts)
    if len(x) < LEAST * A.shape[1] * alike:
        return Delay(0.0, np.inf)
    scale = np.sqrt(np.square(A).mean(axis=0))
    used = scale > 0.0  # a joint with a vertical axis has no gravity torque
    if not used[0]:
        return Delay(0.0, np.inf)
    A, scale = A[:, used] / scale[used], scale[used]
    found, _, rank, _ = np.linalg.lstsq(A, x, rcond=1e-6)
    if rank < A.shape[1]:
        return Delay(0.0, np.inf)
    variance = alike * float(np.square(x - A @ found).mean()) * np.linalg.inv(A.T @ A)[0, 0]
    return Delay(float(found[0] / scale[0]), float(np.sqrt(variance) / scale[0]))


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


def velocity_fits(motions: Sequence[RecordedMotion], model: Model) -> tuple[VelocityFit, ...]:
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


def velocity_delay(motions: Sequence[RecordedMotion], model: Model) -> Delay:
    """Return the delay of the velocities against the changes of the positions.

    The weighted mean over the joints, which have one driver, with its standard error; 0 with an
    infinite error if no joint moves. Arguments as of :func:`velocity_fits`.
    """
    n = len(model.joint_names)
    moved, said, change = np.zeros((3, 0, n))
    for motion in motions:
        sums, _ = _windows(motion.only(in_range(motion)), model, WINDOWS[0])
        moved, said, change = (
            np.concatenate(pair) for pair in zip((moved, said, change), sums, strict=True)
        )
    squares = np.square(change).sum(axis=0)
    known = squares > 0.0
    if not known.any():
        return Delay(0.0, inf)
    late, change, squares = (moved - said)[:, known], change[:, known], squares[known]
    value = (late * change).sum(axis=0) / squares
    variance = np.square(late - value * change).mean(axis=0) / squares
    weight = 1.0 / np.maximum(variance, np.finfo(float).tiny)
    return Delay(float(weight @ value / weight.sum()), float(1.0 / np.sqrt(weight.sum())))


def wrong_velocities(fits: Sequence[VelocityFit]) -> str:
    """Return one sentence about the joints whose velocity is wrong, or an empty text."""
    texts = dict.fromkeys(fit.text for fit in fits if fit.text)
    wrong = [f"{listed([x.joint for x in fits if x.text == text])} ({text})" for text in texts]
    if not wrong:
        return ""
    return (
        f"velocity and position disagree: {'; '.join(wrong)}; fix the driver, or set "
        "velocity_filter: 0.02 in the arm file, which computes velocities from positions"
    )


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
    motion: RecordedMotion, model: Model, length: float
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
