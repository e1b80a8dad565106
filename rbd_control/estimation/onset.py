"""Back-dating: when a contact really began, from the shape in which the residual rose."""

from __future__ import annotations

import numpy as np


def estimate_onset(
    stamps: np.ndarray, residuals: np.ndarray, gain: np.ndarray, weight: np.ndarray
) -> float:
    """The most likely start of a contact that was just detected.

    A torque that steps up at ``t0`` leaves the first-order observer as
    ``r = a + b (1 - exp(-K_O (t - t0)))`` for ``t > t0`` and ``r = a`` before. For each sample as
    candidate ``t0`` the offset ``a`` and height ``b`` of every joint are fitted by least squares;
    the candidate with the least weighted squared error over all joints wins. A flag raised by a
    threshold comes late by the time the residual takes to climb to it; this takes that time off.

    Args:
        stamps: times of the last samples up to the detection, (k,) [s], increasing.
        residuals: r at these times, (k, nv) [N·m or N].
        gain: K_O, (nv,) [1/s].
        weight: one over the expected noise of each joint, (nv,) [1/(N·m) or 1/N].

    Returns:
        t0 [s], one of ``stamps``; the last one if there are fewer than four.
    """
    if stamps.size < 4:
        return float(stamps[-1])
    # Candidates leave two samples before for the offset and one after for the height.
    candidates = np.arange(1, stamps.size - 1)
    after = np.maximum(stamps[None, :] - stamps[candidates, None], 0.0)
    rise = 1.0 - np.exp(-float(np.median(gain)) * after)  # (candidates, k)
    rise -= rise.mean(axis=1, keepdims=True)
    centred = (residuals - residuals.mean(axis=0)) * weight  # (k, nv)
    # With both centred, the error left by the best a and b is |y|² - (x . y)² / |x|².
    explained = ((rise @ centred) ** 2).sum(axis=1) / (rise**2).sum(axis=1)
    return float(stamps[candidates[np.argmax(explained)]])
