"""Noise of the residual that depends on the motion: friction at reversals, and speed.

The threshold of a joint has a margin for friction while the joint is at rest or reverses, and a
margin that grows with its speed (:mod:`~rbd_control.estimation.thresholds`). The standard deviation
that the motion adds to a residual is a fixed fraction of these margins::

    doubt_i² = (REVERSED allowance_i)² + (FAST per_speed_i speed_i)²

A collision accelerates the joints strongly, and masses and inertias are known to some percent only.
The force changes within milliseconds, which the filters of the joints follow differently. The
standard deviation that this adds ``age`` after the onset is, with the mass matrix M, the
accelerations a and the standard deviations s of the residuals without contact::

    jolt_i² = MASSES² sum_j (M_ij a_j)² + (SHAKE s_i max_j |r_j / s_j| exp(-age / FADE))²
"""

from __future__ import annotations

import math

import numpy as np

from rbd_control.dynamics import Model, mass_matrix
from rbd_control.dynamics.compiled import compiled
from rbd_control.estimation.detector_state import Memory, Settings
from rbd_control.estimation.thresholds import friction_allowance

REVERSED = 0.14
"""Standard deviation of the residual at a reversal, as a fraction of the threshold's margin for
friction."""
FAST = 0.15
"""Standard deviation of the residual of a moving joint, as a fraction of the threshold's margin for
its speed."""
MASSES = 0.05
"""Standard deviation of an entry of the mass matrix, as a fraction of the entry."""
SHAKE = 0.02
"""Standard deviation that the onset of a collision adds to all residuals, as a fraction of the
largest residual, both in standard deviations of the residuals without contact."""
FADE = 0.03
"""Time constant with which the standard deviation :data:`SHAKE` decays [s]."""


@compiled
def _fill_doubt(settings, joints, out):
    for i in range(out.shape[0]):
        reversal = REVERSED * friction_allowance(settings[i], joints[i])
        out[i] = math.hypot(reversal, FAST * settings[i].threshold_speed * joints[i].speed)


def residual_doubt(settings: Settings, memory: Memory) -> np.ndarray:
    """Return the standard deviation that the present motion adds to each residual.

    Args:
        settings: settings of the detector.
        memory: memory of the detector, with speed and reversal of each joint.

    Returns:
        ``doubt`` (top of the module), (nv,) [N·m or N].
    """
    out = np.empty(memory.joint.size)
    _fill_doubt(settings.joint, memory.joint, out)
    return out


def jolt_doubt(
    model: Model, q: np.ndarray, memory: Memory, noise: np.ndarray, age: float
) -> np.ndarray:
    """Return the standard deviation that the jolt of a collision adds to each residual now.

    Args:
        model: the robot.
        q: joint positions, (nq,) [rad or m].
        memory: of the detector; its accelerations are filtered as slowly as the residuals.
        noise: standard deviation of each residual without contact, (nv,) [N·m or N].
        age: time since the onset [s].

    Returns:
        ``jolt`` (top of the module), (nv,) [N·m or N].
    """
    torque = mass_matrix(model, q) * memory.joint["acceleration"]
    shake = SHAKE * noise * float(np.max(np.abs(memory.residual) / noise)) * np.exp(-age / FADE)
    return np.hypot(MASSES * np.sqrt((torque**2).sum(axis=1)), shake)
