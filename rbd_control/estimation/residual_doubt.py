"""Noise of the residual that depends on the motion: friction at reversals, and speed.

The threshold of a joint has a margin for friction while the joint is at rest or reverses, and a
margin that grows with its speed (:mod:`~rbd_control.estimation.thresholds`). The standard deviation
that the motion adds to a residual is a fixed fraction of these margins::

    doubt_i² = (REVERSED allowance_i)² + (FAST per_speed_i speed_i)²
"""

from __future__ import annotations

import math

import numpy as np

from rbd_control.dynamics.compiled import compiled
from rbd_control.estimation.detector_state import Memory, Settings
from rbd_control.estimation.thresholds import friction_allowance

REVERSED = 0.14
"""Standard deviation of a reversal's residual, as a fraction of the threshold's allowance."""
FAST = 0.15
"""Standard deviation of a fast joint's residual, as a fraction of the threshold's allowance."""


@compiled
def _fill_doubt(settings, joints, out):
    for i in range(out.shape[0]):
        reversal = REVERSED * friction_allowance(settings[i], joints[i])
        out[i] = math.hypot(reversal, FAST * settings[i].per_speed * joints[i].speed)


def residual_doubt(settings: Settings, memory: Memory) -> np.ndarray:
    """Return the standard deviation that the present motion adds to each residual.

    Args:
        settings: settings of the decision.
        memory: memory of the detector.

    Returns:
        (nv,) [N·m or N].
    """
    out = np.empty(memory.joint.size)
    _fill_doubt(settings.joint, memory.joint, out)
    return out
