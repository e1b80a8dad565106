"""Back-dated onset of a contact, estimated from the rise of the residual."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.compiled import compiled
from rbd_control.estimation.observers import Observer

LEAST = 20
"""Smallest number of samples from which the correlation of the noise is estimated."""
MOST_ALIKE = 30.0
"""Largest number of successive samples of correlated noise that count as one."""


class Onset(NamedTuple):
    """Estimated onset of a contact."""

    stamp: float
    """The most likely start [s], the time of a sample."""
    uncertainty: float
    """Standard deviation of the onset [s]; NaN with fewer than four samples."""


@compiled
def _explained(stamps, step, response, centred, out):
    """Write the sum of squares of the residuals that each candidate onset explains.

    With residuals y and step response x both centred, the squared error with the best offset and
    height of a joint is |y|² - (x . y)² / |x|²; the mean of x cancels in x . y.
    """
    k, n = centred.shape
    total, product, square = np.empty(n), np.empty(n), np.empty(n)
    for c in range(out.shape[0]):
        total[:] = product[:] = square[:] = 0.0
        for j in range(c + 2, k):
            after = (stamps[j] - stamps[c + 1]) / step
            cell = min(int(after), response.shape[0] - 2)
            share = min(after - cell, 1.0)
            for i in range(n):
                rise = response[cell, i] + share * (response[cell + 1, i] - response[cell, i])
                total[i] += rise
                product[i] += rise * centred[j, i]
                square[i] += rise * rise
        out[c] = 0.0
        for i in range(n):
            out[c] += product[i] ** 2 / (square[i] - total[i] ** 2 / k)


def estimate_onset(
    stamps: np.ndarray, residuals: np.ndarray, observer: Observer, weight: np.ndarray
) -> Onset:
    """Return the most likely start of a contact that was just detected.

    A torque that steps up at ``t0`` leaves the observer as ``r = a + b h(t - t0)``, where ``h`` is
    its step response, zero before ``t0``. For each sample as candidate ``t0`` the offset ``a`` and
    height ``b`` of every joint are fitted by least squares; the result is the candidate with the
    smallest weighted squared error over all joints. This removes the delay of the flag, which is
    the time that the residual needs to reach its threshold.

    Errors of model and friction pass the filter as a slow drift, which over many samples looks more
    like a step than the few samples since a collision. Therefore ``r`` and ``h`` are replaced by
    their changes, ``r_k - exp(-K dt) r_(k-1)``, the input of a first-order filter with the gain K
    of the observer (zero for a Kalman observer).

    The uncertainty is the standard deviation over the candidates, with likelihoods from their
    squared errors and the noise variance of the best candidate. Samples of correlated noise count
    as fewer: the correlation of successive samples before the onset says how many are like one.

    Args:
        stamps: times of the last samples up to the detection, (k,) [s], increasing.
        residuals: r at these times, (k, nv) [N·m or N].
        observer: the observer of these residuals.
        weight: one over the expected noise of each joint, (nv,) [1/(N·m) or 1/N].

    Returns:
        The onset; the last stamp, with an unknown uncertainty, for fewer than four samples.
    """
    k = stamps.size
    if k < 4:
        return Onset(float(stamps[-1]), np.nan)
    step, response = observer.rise(float(np.median(np.diff(stamps))), k)
    kept = np.exp(-observer.design["gain"] * step)
    y = _changes(residuals, kept) * weight
    centred = y - y.mean(axis=0)
    response = _changes(response, kept)
    # Candidates leave a sample before for the offset and one after for the height.
    explained = np.empty(k - 2)
    _explained(stamps, step, response, centred, explained)
    best = int(np.argmax(explained))
    error = max(float((centred**2).sum() - explained[best]), 1e-300)
    alike = _alike(centred[: best + 1])
    variance = alike * error / centred.size
    likelihood = np.exp((explained - explained[best]) / (2.0 * variance))
    likelihood /= likelihood.sum()
    candidates = stamps[1:-1]
    spread = likelihood @ (candidates - likelihood @ candidates) ** 2
    # An onset between two samples is indistinguishable from an onset at a sample.
    return Onset(float(candidates[best]), float(np.sqrt(spread + step**2 / 12.0)))


def _changes(signal: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return ``s_k - kept s_(k-1)`` of a signal s (k, nv), constant before its first sample."""
    return np.concatenate([signal[:1] * (1.0 - kept), signal[1:] - kept * signal[:-1]])


def _alike(noise: np.ndarray) -> float:
    """Return how many successive samples of a noise (k, nv) have the information of one."""
    if len(noise) < LEAST:
        return MOST_ALIKE
    noise = noise - noise.mean(axis=0)
    correlation = float((noise[1:] * noise[:-1]).sum() / max((noise**2).sum(), 1e-300))
    return min(max((1.0 + correlation) / max(1.0 - correlation, 1e-3), 1.0), MOST_ALIKE)
