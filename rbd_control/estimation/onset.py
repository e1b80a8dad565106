"""Back-dating: when a contact really began, from the shape in which the residual rose."""

from __future__ import annotations

import numpy as np

from rbd_control.estimation.observers import Observer


def estimate_onset(
    stamps: np.ndarray, residuals: np.ndarray, observer: Observer, weight: np.ndarray
) -> float:
    """The most likely start of a contact that was just detected.

    A torque that steps up at ``t0`` leaves the observer as ``r = a + b h(t - t0)``, where ``h`` is
    its step response, zero before ``t0``. For each sample as candidate ``t0`` the offset ``a`` and
    height ``b`` of every joint are fitted by least squares; the candidate with the least weighted
    squared error over all joints wins. A flag raised by a threshold comes late by the time the
    residual takes to climb to it; this takes that time off.

    Args:
        stamps: times of the last samples up to the detection, (k,) [s], increasing.
        residuals: r at these times, (k, nv) [N·m or N].
        observer: the one that made them.
        weight: one over the expected noise of each joint, (nv,) [1/(N·m) or 1/N].

    Returns:
        t0 [s], one of ``stamps``; the last one if there are fewer than four.
    """
    if stamps.size < 4:
        return float(stamps[-1])
    # Candidates leave two samples before for the offset and one after for the height.
    candidates = np.arange(1, stamps.size - 1)
    after = np.maximum(stamps[None, :] - stamps[candidates, None], 0.0)  # (candidates, k)
    step = float(np.median(np.diff(stamps)))
    grid = step * np.arange(stamps.size + 1)
    response = np.vstack([np.zeros(weight.size), observer.step_response(step, stamps.size)])
    centred = (residuals - residuals.mean(axis=0)) * weight  # (k, nv)
    explained = np.zeros(candidates.size)
    for i in range(weight.size):
        rise = np.interp(after, grid, response[:, i])
        rise -= rise.mean(axis=1, keepdims=True)
        # With both centred, the error left by the best a and b is |y|² - (x . y)² / |x|².
        explained += (rise @ centred[:, i]) ** 2 / (rise**2).sum(axis=1)
    return float(stamps[candidates[np.argmax(explained)]])
