"""Velocities from positions, for drivers that publish none, or zeros.

With the time constant T, positions and efforts pass through one low-pass filter, and the velocity
is the derivative of the filtered position::

    T dq_f/dt + q_f = q,   v_f = dq_f/dt = (q - q_f) / T,   T dtau_f/dt + tau_f = tau

Between samples q and tau are taken as linear, for which the recursion is exact. Position, velocity
and effort of a sample therefore belong together: the equation of motion holds for them but for its
nonlinearity, and a contact is seen later by T. The velocity has the noise of a position times about
``1 / T`` at high rates.

A sample that repeats the last one to the last digit is no measurement: its result repeats the last
one as well, so that frozen joint states are recognized behind the filter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics.compiled import compiled

Array = NDArray[np.float64]

TIME, POSITION, EFFORT, SPEED, CHANGE = range(5)
"""Rows of a filter's memory: the last sample, and the filtered slopes of position and effort."""


def new_filter(joints: int) -> Array:
    """Return the memory of the filter of an arm's joints before the first sample.

    Args:
        joints: number of joints, n.

    Returns:
        (5, n), see :data:`TIME` and the following.
    """
    return np.full((5, joints), np.nan)


@compiled
def filter_samples(time, restarts, constant, memory, q, v, tau):  # type: ignore[no-untyped-def]
    """Filter successive samples in place, and compute their velocities.

    Args:
        time: (k,) times of the samples [s]; they increase but for restarts.
        restarts: (k,) whether the clock went back before the sample.
        constant: T, the time constant of the filter [s].
        memory: from :func:`new_filter`; changed in place.
        q, v, tau: (k, n) each; q and tau are filtered and v is computed in place. v is NaN for the
            first sample and after a restart. The filter of tau restarts with the first number after
            NaN.
    """
    for k in range(time.shape[0]):
        dt = time[k] - memory[TIME, 0]
        starts = restarts[k] or not dt > 0.0
        same = not starts
        for i in range(q.shape[1]):
            same = same and q[k, i] == memory[POSITION, i] and tau[k, i] == memory[EFFORT, i]
        if same:
            for i in range(q.shape[1]):
                q[k, i] -= constant * memory[SPEED, i]
                v[k, i] = memory[SPEED, i]
                tau[k, i] -= constant * memory[CHANGE, i]
            continue
        share = 1.0 if starts else 1.0 - np.exp(-dt / constant)
        memory[TIME] = time[k]
        for i in range(q.shape[1]):
            position, effort = q[k, i], tau[k, i]
            speed, change = memory[SPEED, i], memory[CHANGE, i]
            if starts:
                speed, change = np.nan, 0.0
            else:
                slope = (position - memory[POSITION, i]) / dt
                speed = slope if np.isnan(speed) else speed + share * (slope - speed)
                change += share * ((effort - memory[EFFORT, i]) / dt - change)
                q[k, i] = position - constant * speed
                if np.isnan(change):
                    change = 0.0
                tau[k, i] = effort - constant * change
            v[k, i] = speed
            memory[POSITION, i], memory[EFFORT, i] = position, effort
            memory[SPEED, i], memory[CHANGE, i] = speed, change
