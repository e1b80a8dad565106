"""Identification of the velocity's delay from motions without contact.

Without contact the residual is zero but for noise and errors of the model. It is computed for
several delays of the torque (:mod:`~rbd_control.estimation.velocity_delay`), and the delay with the
smallest residual is taken: the sum over the joints of log(mean square of the residual) is smallest,
which is the maximum likelihood if the noise of the joints is unknown. A delay that hardly makes the
residual smaller stays zero, because errors of the model have some influence on it, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.estimation.identification import PER_RATE, SETTLING, external_means, means
from rbd_control.estimation.motion import Motion
from rbd_control.estimation.second_order_observer import SecondOrderObserver
from rbd_control.estimation.velocity_delay import delay_torques
from rbd_control.robot.friction import Friction

Array = NDArray[np.float64]

LONGEST = 0.02
"""Longest delay that is tried [s]."""
TRIED = 11
"""Number of equidistant delays that are tried before the search around the best of them."""
RESOLUTION = 1e-5
"""Resolution of the result [s]."""
FILTER_GAIN = 50.0
"""Pole of the filter [1/s]: high enough for the short pulses that a delay causes."""
PAYS = 0.95
"""Ratio to which the RMS residual must decrease, as the geometric mean over the joints."""


def with_delay(motion: Motion, model: Model, delay: float) -> Motion:
    """Return a motion whose torque has the delay of its velocity.

    Args:
        motion: the motion, ``tau`` as torque.
        model: the robot, with the gravity that ``tau`` contains.
        delay: delay of the velocity [s].
    """
    if delay == 0.0:
        return motion
    gravity = gravity_torque(model, motion.q)
    return replace(motion, tau=gravity + _delayed(motion, motion.tau - gravity, delay))


def identify_delay(
    motions: Sequence[Motion], model: Model, friction: Friction, maximum_gap: float
) -> float:
    """Return the delay of the velocity against the effort [s]; zero if there is none to be seen.

    Args:
        motions: motions without contact, ``tau`` as torque.
        model: the robot with its identified corrections.
        friction: its identified friction.
        maximum_gap: longest time between two samples of one stretch [s].
    """
    from scipy.optimize import minimize_scalar

    parts = _stretches(motions, model, friction, maximum_gap)
    if not parts:
        return 0.0

    def size(delay: float) -> float:
        """Return the mean logarithm of the RMS residual with ``delay`` [s]."""
        squares = np.concatenate([np.square(part.residual(delay)) for part in parts])
        return float(0.5 * np.log(np.maximum(squares.mean(axis=0), 1e-24)).mean())

    tried = np.linspace(0.0, LONGEST, TRIED)
    best = int(np.argmin([size(float(delay)) for delay in tried]))
    around = tried[max(best - 1, 0)], tried[min(best + 1, TRIED - 1)]
    found = minimize_scalar(size, bounds=around, options={"xatol": RESOLUTION})
    return round(float(found.x), 5) if found.fun < size(0.0) + np.log(PAYS) else 0.0


class _Stretch:
    """One stretch of a motion, with everything that does not depend on the delay."""

    def __init__(self, part: Motion, model: Model, friction: Friction, gain: float) -> None:
        self._part = part
        self._drive = part.tau - gravity_torque(model, part.q)
        rest = external_means(part, model) + means(self._drive + friction.torque(part.v))
        self._observer = SecondOrderObserver(model, gain)
        self._rest = self._filtered(rest)
        self._first = round(SETTLING / (gain * float(np.median(np.diff(part.t)))))

    def residual(self, delay: float) -> Array:
        """Return the settled residual for a delay [s], (k, nv) [N·m or N]."""
        drive = _delayed(self._part, self._drive, delay)
        return (self._rest - self._filtered(means(drive)))[self._first :]

    def _filtered(self, x: Array) -> Array:
        return self._observer.filter(np.diff(self._part.t), x)


def _stretches(
    motions: Sequence[Motion], model: Model, friction: Friction, maximum_gap: float
) -> list[_Stretch]:
    """Return the stretches that are long enough for the filter to settle."""
    found = []
    for motion in motions:
        gain = min(FILTER_GAIN, PER_RATE / float(np.median(np.diff(motion.t))))
        parts = motion.stretches(maximum_gap, 2.0 * SETTLING / gain)
        found += [_Stretch(part, model, friction, gain) for part in parts]
    return found


def _delayed(motion: Motion, drive: Array, delay: float) -> Array:
    """Return torques (k, nv) at the times of a motion with a delay [s]."""
    out = np.empty_like(drive)
    delay_torques(np.diff(motion.t), np.ascontiguousarray(drive), delay, out)
    return out
