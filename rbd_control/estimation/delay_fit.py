"""Identification of the velocity's delay from motions without contact.

A velocity that is late by T makes the momentum late, so that the mean external torque of a motion
without contact is, to first order in T (:mod:`~rbd_control.estimation.velocity_delay`)::

    x = -T d/dt(tau - g) + errors of the model

For each joint, linear regression of the filtered ``x`` gives T. Errors of friction look similar,
since friction is a large part of the torque of a wrist. Therefore the time derivative of the
friction, the acceleration (an unknown inertia), and friction itself as a function of the velocity
are regressors as well, and samples at rest or at reversals are excluded. What remains is the delay
of the inertial torque. White noise of the effort has no effect, because it is not correlated with
its own derivative. A search for the delay with the smallest residual would be biased by this noise,
because every delay smooths it.

All joints have one delay: the mean, weighted by the inverse variances of the regressions. Its
standard error contains the disagreement between the joints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.estimation.identification import (
    FILTER_GAIN,
    PER_RATE,
    SETTLING,
    external_means,
    means,
)
from rbd_control.estimation.motion import SLOW, Motion
from rbd_control.estimation.reversals import AWAY, reversals
from rbd_control.estimation.second_order_observer import SecondOrderObserver
from rbd_control.estimation.velocity_delay import delay_torques
from rbd_control.robot.friction import Friction

Array = NDArray[np.float64]

INDEPENDENT = 2.0
"""Time between independent values of the filtered signal, in time constants of the filter."""
LEAST = 10.0
"""Smallest number of independent values per regressor from which a delay is estimated."""
LATE = 3.0
"""Number of standard errors from which an effort is reported to be later than the velocity."""
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
    """Return a warning if the effort is late, or if the velocity's delay is too uncertain.

    Args:
        delay: delay of the velocity that the detector corrects already [s].
        rest: estimate of the delay that remains after this correction.

    Returns:
        One text for the user; empty if a delay is corrected, if the remaining delay is not
        significant and its uncertainty at most :data:`UNKNOWN`, and if the motions do not determine
        it.
    """
    if delay > 0.0:
        return ()
    if rest.value < -LATE * rest.error:
        return (
            f"the effort is {-1e3 * rest.value:.0f} ms later than the velocity, which the detector "
            "cannot correct: starts and stops that are faster than those of this recording may "
            "count as contacts; shorten the filter of the effort, or add such motions",
        )
    shown = SHOWN * rest.error
    if np.isfinite(shown) and (rest.value > shown or shown > UNKNOWN):
        return (
            f"the velocity is late by {1e3 * rest.value:.0f} ± {1e3 * rest.error:.0f} ms, too "
            "uncertain to be corrected: record fast starts and stops as well, or they may count "
            "as contacts",
        )
    return ()


def with_delay(motion: Motion, model: Model, delay: float) -> Motion:
    """Return a motion whose torque is delayed as much as its velocity.

    The torque minus gravity passes a first-order filter with the time constant ``delay``. With a
    delay of zero the result is ``motion`` itself.

    Args:
        motion: the motion, ``tau`` as torque [N·m or N].
        model: the robot, with the gravity that ``tau`` contains.
        delay: delay of the velocity [s].
    """
    if delay == 0.0:
        return motion
    gravity = gravity_torque(model, motion.q)
    drive = np.ascontiguousarray(motion.tau - gravity)
    late = np.empty_like(drive)
    delay_torques(np.diff(motion.t), drive, delay, late)
    return replace(motion, tau=gravity + late)


def estimate_delay(
    motions: Sequence[Motion], model: Model, friction: Friction, maximum_gap: float
) -> Delay:
    """Return the common delay of all joint velocities against the efforts.

    Args:
        motions: motions without contact, ``tau`` as torque [N·m or N].
        model: the robot with its identified corrections and the gravity that ``tau`` contains.
        friction: its identified friction.
        maximum_gap: longest time between two samples; a longer gap divides a motion [s].

    Returns:
        The delay [s] with its standard error: positive if the velocity is late, negative if the
        effort is late. If the motions do not determine it, the value is 0 and the error infinite.
    """
    parts = [
        _terms(part, model, friction, gain)
        for motion in motions
        for gain in (min(FILTER_GAIN, PER_RATE / float(np.median(np.diff(motion.t)))),)
        for part in motion.stretches(maximum_gap, 2.0 * SETTLING / gain)
    ]
    found = [_of_joint(parts, i) for i in range(model.nv)] if parts else []
    known = np.array([each for each in found if np.isfinite(each.error)]).reshape(-1, 2)
    if not known.size:
        return Delay(0.0, np.inf)
    weight = 1.0 / known[:, 1] ** 2
    mean = float(weight @ known[:, 0] / weight.sum())
    spread = float(weight @ (known[:, 0] - mean) ** 2) / max(len(known) - 1, 1)
    return Delay(mean, float(np.sqrt(max(spread, 1.0) / weight.sum())))


class _Terms(NamedTuple):
    """Terms of the regression for one part of a motion without gaps, filtered and settled."""

    x: Array
    """(k, nv) mean external torque without contact [N·m or N]."""
    regressors: Array
    """(k, nv, 7) regressors of each joint; the coefficient of the first one is the delay."""
    used: NDArray[np.bool_]
    """(k, nv) whether the joint moves, away from reversals."""
    alike: float
    """Number of successive samples that contain one independent value of the filtered signals."""


def _terms(part: Motion, model: Model, friction: Friction, gain: float) -> _Terms:
    dt = np.diff(part.t)
    observer = SecondOrderObserver(model, gain)

    def filtered(x: Array) -> Array:
        return observer.filter(dt, x)

    def derivative(x: Array) -> Array:
        return filtered(np.diff(x, axis=0) / dt[:, None])

    drive, resisting = part.tau - gravity_torque(model, part.q), friction.torque(part.v)
    v = filtered(means(part.v))
    columns = (
        -derivative(drive),
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
    if not scale.all():
        return Delay(0.0, np.inf)
    A = A / scale
    found, _, rank, _ = np.linalg.lstsq(A, x, rcond=1e-6)
    if rank < A.shape[1]:
        return Delay(0.0, np.inf)
    variance = alike * float(np.square(x - A @ found).mean()) * np.linalg.inv(A.T @ A)[0, 0]
    return Delay(float(found[0] / scale[0]), float(np.sqrt(variance) / scale[0]))
