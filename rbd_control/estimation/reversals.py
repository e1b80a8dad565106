"""Reversals of joints, at which Coulomb friction changes its sign at an unknown time.

The residual then contains a part of the Coulomb friction, which decays with the observer's time
constant. Each joint therefore has a trace, which is one while the joint reverses or is at rest, and
decays with the observer's time constant.
"""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics.compiled import compiled, inlined

AWAY = 0.05
"""Value of the trace below which a joint counts as away from reversals."""


@inlined
def reversing(v, last, before, speed, fade):
    """Return the new trace of a joint: one while it reverses or is at rest, otherwise decayed.

    Args:
        v: velocity of this sample [rad/s or m/s].
        last: velocity of the previous sample [rad/s or m/s].
        before: previous trace, in [0, 1].
        speed: speed below which the joint counts as reversing [rad/s or m/s].
        fade: decay of the trace over the interval, exp(-pole dt).
    """
    return 1.0 if abs(v) < speed or v * last < 0.0 else fade * before


@inlined
def less_friction(r, allowance):
    """Return the part of a residual beyond a friction torque of magnitude ``allowance``.

    Arguments and result are in N·m or N; the result is zero within ± ``allowance``.
    """
    return r - min(max(r, -allowance), allowance)


@compiled
def reversals(dt, v, speed, pole):
    """Return the traces of all joints after each of k intervals, (k, nv) in [0, 1].

    All traces are one before the first interval.

    Args:
        dt: lengths of the intervals, (k,) [s].
        v: joint velocities at their ends, (k + 1, nv) [rad/s or m/s].
        speed: speed below which a joint counts as reversing, (nv,) [rad/s or m/s].
        pole: inverse time constant of the decay, (nv,) [1/s].
    """
    out = np.empty((v.shape[0] - 1, v.shape[1]))
    trace = np.ones(v.shape[1])
    for k in range(out.shape[0]):
        for i in range(v.shape[1]):
            fade = np.exp(-pole[i] * dt[k])
            trace[i] = reversing(v[k + 1, i], v[k, i], trace[i], speed[i], fade)
            out[k, i] = trace[i]
    return out
