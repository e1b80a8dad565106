"""Observer gains with the shortest detection delay, from recorded motions.

A high gain responds fast to a push, but passes noise and therefore needs a high threshold. The best
gain depends on the noise of each joint. For each candidate gain, the residual of the contact-free
motions is filtered, a threshold well above it is chosen, and the time is computed in which the
response to a push reaches this threshold. The push is the median torque of a joint under pushes of
:data:`FORCES` anywhere on the arm in postures of the motions, with a rise time of :data:`RISE`. A
gain for stronger pushes would miss weak ones, and a gain for the weakest would delay all others.

Velocity noise is correlated between joints in another way than a push. Besides the thresholds of
single joints there is therefore a threshold of ``s = sqrt(rᵀ Sigma^-1 r)``, with ``Sigma`` the
covariance of the residual: :func:`covariance` and :func:`statistic`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, frame_jacobian
from rbd_control.estimation.observers import Observer

Array = NDArray[np.float64]

GAINS = (15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 100.0, 130.0, 160.0, 200.0, 250.0, 300.0, 400.0, 600.0)
"""Candidate gains [1/s]."""
PER_RATE = 0.6
"""Largest product of a candidate gain and the sample period."""
SETTLING = 6.0
"""Number of time constants after which the initial state has decayed to 2 %."""
FORCES = (8.0, 20.0)
"""Forces of a weak and of a usual push [N]."""
RISE = 0.02
"""Time in which a push grows to its force [s]."""
POSTURES = 100
"""Number of postures of the motions in which pushes are simulated."""
OFF_ORIGIN = 0.1
"""Typical distance of pushes from the origins of links [m]."""
FELT = 0.2
"""Joint torques below this fraction of the joint's maximum are ignored."""
RARE = 0.999
"""Quantile of the residual from which the threshold is estimated."""
ABOVE = 1.5
"""Ratio of the threshold to the quantile ``RARE`` of the residual."""
NEARLY = 1.15
"""Largest delay, relative to the fastest gain, at which a lower gain is preferred; its lower
threshold detects weaker pushes."""
RESPONSE = 6.0
"""Length of the computed step response in time constants."""


def usual_torque(model: Model, postures: Array, seed: int = 0) -> Array:
    """Return the median torque that a push causes at each joint it loads, (nv,) [N·m or N].

    The pushes have the forces :data:`FORCES` and random directions, and act about
    :data:`OFF_ORIGIN` from the origin of every link, in :data:`POSTURES` random postures. Torques
    below :data:`FELT` of a joint's maximum are left out of its median.

    Args:
        model: the robot.
        postures: joint positions from which the postures are drawn, (m, nq) [rad or m].
        seed: seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    chosen = postures[rng.integers(len(postures), size=POSTURES)]
    torques = []
    for link in model.joint_links:
        J = frame_jacobian(model, chosen, link)
        direction = rng.normal(size=(POSTURES, 3))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        offset = rng.normal(size=(POSTURES, 3)) * OFF_ORIGIN / np.sqrt(3.0)
        wrench = np.concatenate([np.cross(offset, direction), direction], axis=1)
        torque = np.abs(np.einsum("kai,ka->ki", J, wrench))
        torques += [force * torque for force in FORCES]
    every = np.concatenate(torques)
    felt = every > FELT * every.max(axis=0)
    return np.array([np.median(column[f]) for column, f in zip(every.T, felt.T, strict=True)])


def choose_gains(
    model: Model,
    noise: Sequence[tuple[Array, Array]],
    postures: Array,
    observer: Callable[[float], Observer],
) -> Array:
    """Return the observer gain of each joint with a short detection delay, (nv,) [1/s].

    It is the smallest of :data:`GAINS` whose delay for a push of :func:`usual_torque` is at most
    :data:`NEARLY` times the shortest; gains above :data:`PER_RATE` per sample period, the median
    of all stretches, are cut to this value. If no gain detects this push, it is the lowest.

    Args:
        model: the robot.
        noise: of each part of the motions without gaps, times (k + 1,) [s] and the mean external
            torque of each interval (k, nv) [N·m or N], friction subtracted.
        postures: joint positions of the motions, (m, nq) [rad or m].
        observer: returns an observer with a given gain [1/s] for all joints.
    """
    period = float(np.median(np.concatenate([np.diff(t) for t, _ in noise])))
    gains = np.unique(np.minimum(GAINS, PER_RATE / period))
    torque = usual_torque(model, postures)
    delay = np.empty((gains.size, model.nv))
    for g, gain in enumerate(gains):
        filtered = observer(gain)
        settled = [
            np.abs(filtered.filter(np.diff(t), x)[t[1:] - t[0] >= SETTLING / gain])
            for t, x in noise
        ]
        level = ABOVE * np.quantile(np.concatenate(settled), RARE, axis=0)
        times = np.arange(1, max(int((RESPONSE / gain + RISE) / period), 2) + 1) * period
        ramp = np.repeat(np.clip(times / RISE, 0.0, 1.0)[:, None], model.nv, axis=1)
        response = filtered.filter(np.full(times.size, period), ramp)
        response = np.maximum.accumulate(np.vstack([np.zeros(model.nv), response]))
        for i in range(model.nv):
            passed = np.interp(
                level[i] / torque[i], response[:, i], np.append(0.0, times), right=np.inf
            )
            delay[g, i] = passed
    # A push that is too weak for a gain has an infinite delay.
    near = delay <= NEARLY * delay.min(axis=0)
    return np.asarray(gains[np.argmax(near, axis=0)])


def covariance(residuals: Sequence[Array]) -> tuple[Array, Array]:
    """Return the covariance of residuals about zero, and its whitening matrix L, (nv, nv) each.

    The variances are increased by 0.01 %, so that the matrix can be inverted. L is the inverse of
    the lower Cholesky factor, so ``|L r|`` is the length of r in standard deviations.

    Args:
        residuals: residuals of each motion without contact, (k, nv) [N·m or N].
    """
    r = np.concatenate(residuals)
    matrix = r.T @ r / len(r)
    # No residual is predicted from the other joints better than to 1 % of its standard deviation.
    matrix += np.diag(1e-4 * np.diag(matrix))
    return matrix, np.linalg.inv(np.linalg.cholesky(matrix))


def statistic(residuals: Array, whitening: Array) -> Array:
    """Return the statistic ``|L r|`` of each residual, with the matrix L of :func:`covariance`.

    Args:
        residuals: r, (k, nv) [N·m or N].
        whitening: L, (nv, nv).

    Returns:
        The length of each residual in standard deviations, (k,).
    """
    return np.asarray(np.linalg.norm(residuals @ whitening.T, axis=1))
