"""Where a joint reverses: dry friction changes its sign there, and no model says when exactly.

The residual then holds a part of dry friction for as long as the observer remembers it. So each
joint has a trace, one while it reverses or stands, that fades with the observer's time constant.
"""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics.compiled import compiled, inlined


@inlined
def reversing(v, last, before, speed, fade):
    """Return the trace from its value ``before`` and velocities ``v`` now and ``last`` time."""
    return 1.0 if abs(v) < speed or v * last < 0.0 else fade * before


@inlined
def less_friction(r, allowance):
    """Return the part of a residual beyond a friction torque of magnitude ``allowance``."""
    return r - min(max(r, -allowance), allowance)


@compiled
def reversals(dt, v, speed, pole):
    """Traces (k, nv) after each interval ``dt`` (k,) [s], from velocities (k + 1, nv).

    ``speed`` (nv,) is that below which a joint counts as reversing, ``pole`` (nv,) one over the
    time constant [1/s].
    """
    out = np.empty((v.shape[0] - 1, v.shape[1]))
    trace = np.ones(v.shape[1])
    for k in range(out.shape[0]):
        for i in range(v.shape[1]):
            fade = np.exp(-pole[i] * dt[k])
            trace[i] = reversing(v[k + 1, i], v[k, i], trace[i], speed[i], fade)
            out[k, i] = trace[i]
    return out
