"""Observer gains from data: those with which pushes would be noticed soonest.

A high gain follows a push at once, but lets noise through and so needs a high threshold. Which gain
is best depends on the noise of each joint. So for every gain that is tried the residual of the
contact-free motions is filtered, a level well above it taken, and the time is computed in which
the response to a push passes that level. The push is what a joint usually feels of pushes of
:data:`FORCES`, anywhere on the arm in postures of the motions, growing within :data:`RISE`: a gain
for stronger pushes would miss weak ones, and one for the weakest be slow for all others.

The noise of velocities moves all joints together, a push does so otherwise. So beside thresholds
joint by joint there is one for ``s = sqrt(rᵀ Sigma^-1 r)``, with ``Sigma`` the covariance of the
residual: :func:`covariance` and :func:`statistic`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, frame_jacobian
from rbd_control.estimation.observers import Observer

Array = NDArray[np.float64]

GAINS = (15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 100.0, 130.0, 160.0, 200.0, 250.0, 300.0, 400.0, 600.0)
"""Gains that are tried [1/s] ..."""
PER_RATE = 0.6
"""... up to this many of them to a sample."""
SETTLING = 6.0
"""Time constants after which the observers have forgotten their start to 2 %."""
FORCES = (8.0, 20.0)
"""Pushes [N]: weak and usual ones."""
RISE = 0.02
"""Time in which a push grows to its force [s]."""
POSTURES = 100
"""Postures of the motions in which pushes are tried."""
OFF_ORIGIN = 0.1
"""Pushes act about this far from the origins of links [m]."""
FELT = 0.2
"""A push that loads a joint with less than this part of the most it may is none to that joint."""
RARE = 0.999
"""Thresholds lie about ..."""
ABOVE = 1.5
"""... this many times the value that the residual passes as rarely as ``1 - RARE``."""
NEARLY = 1.15
"""Of the gains that are at most this many times as slow as the fastest the lowest is taken: its
lower threshold sees weaker pushes."""
RESPONSE = 6.0
"""The response is followed for this many time constants."""


def usual_torque(model: Model, postures: Array, seed: int = 0) -> Array:
    """Return each joint's median torque from pushes that load it, (nv,) [N·m or N]."""
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
    """Return the gain of each joint, (nv,) [1/s].

    Args:
        model: the robot.
        noise: of each stretch without contact, times (k + 1,) [s] and the mean external torque of
            each interval (k, nv), friction taken off.
        postures: (m, nq).
        observer: makes the observer of a gain that all joints have.
    """
    period = float(np.median(np.diff(noise[0][0])))
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
    # Infinite delays of pushes too weak for a gain compare as they should.
    near = delay <= NEARLY * delay.min(axis=0)
    return np.asarray(gains[np.argmax(near, axis=0)])


def covariance(residuals: Sequence[Array]) -> tuple[Array, Array]:
    """Covariance (nv, nv) of residuals about zero, and the matrix L that makes it one."""
    r = np.concatenate(residuals)
    matrix = r.T @ r / len(r)
    # No joint is known better than to a hundredth of its own spread from what others say.
    matrix += np.diag(1e-4 * np.diag(matrix))
    return matrix, np.linalg.inv(np.linalg.cholesky(matrix))


def statistic(residuals: Array, whitening: Array) -> Array:
    """How many standard deviations residuals (k, nv) are from zero, all joints together, (k,)."""
    return np.asarray(np.linalg.norm(residuals @ whitening.T, axis=1))
