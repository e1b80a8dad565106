"""The filters from momentum balance to residual, compiled, one joint at a time.

Each filter takes ``x``, the mean external torque over an interval, and advances its residual ``r``
by the length ``dt`` of that interval. All filters solve their equation exactly for an ``x`` that is
constant over the interval. They are therefore stable for every ``dt``, and their gain at rest is
one.

First order::

    r_dot = K (x - r)

Second order, with damping ``zeta``. The noise of differentiated encoders grows with frequency, and
this filter attenuates it twice as steeply::

    r_ddot = K² (x - r) - 2 zeta K r_dot

Kalman. The external torque is a random walk, effort and momentum are measured with noise::

    p_dot = tau + tau_ext + torque noise        tau_ext_dot = drift
    measured: p + momentum noise

The state is the error ``e`` of the estimated momentum against the measured one, and the torque. The
gain follows from the covariance, which settles by itself for any rate and jitter.
"""

from __future__ import annotations

import math

from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.estimation.momentum_balance import mean_external

FIRST_ORDER, SECOND_ORDER, KALMAN = 0, 1, 2
"""Kinds of filter, as compiled code distinguishes them."""
DESIGN = 3
"""Number of constants of a filter: K | K, zeta | torque noise, momentum noise, drift."""
STATE = 5
"""Size of a filter's state: r | r, r_dot | r, e and three covariances. The residual is first."""


@inlined
def advance(kind, design, z, dt, x):
    """Advance the state ``z`` (STATE,) of one joint by ``dt`` under the mean input ``x``."""
    if kind == FIRST_ORDER:
        decay = math.exp(-design[0] * dt)
        z[0] = decay * z[0] + (1.0 - decay) * x
    elif kind == SECOND_ORDER:
        _second_order(design[0], design[1], z, dt, x)
    else:
        _kalman(design[0], design[1], design[2], z, dt, x)


@inlined
def observe(kind, design, z, dt, p, rate, last_p, last_rate, bias):
    """Advance one joint's observer by an interval.

    Args:
        kind: kind of filter.
        design: (DESIGN,) constants of the filter.
        z: (STATE,) state of the filter, changed in place.
        dt: length of the interval [s].
        p, rate: momentum of the joint and its rate, at the end of the interval.
        last_p, last_rate: the same at its beginning.
        bias: constant external torque to be removed [N·m or N].
    """
    advance(kind, design, z, dt, mean_external(p, rate, last_p, last_rate, dt) - bias)


@inlined
def _second_order(K, zeta, z, dt, x):
    # e = r - x obeys e_ddot + 2 zeta K e_dot + K² e = 0.
    e, rate = z[0] - x, z[1]
    ringing = K * math.sqrt(1.0 - zeta * zeta)
    decay = math.exp(-zeta * K * dt)
    cosine = math.cos(ringing * dt)
    sine = math.sin(ringing * dt) / ringing if ringing * dt > 1e-6 else dt  # divided by ringing
    z[0] = x + decay * (cosine * e + sine * (rate + zeta * K * e))
    z[1] = decay * (cosine * rate - sine * (K * K * e + zeta * K * rate))


@inlined
def _kalman(torque_noise, momentum_noise, drift, z, dt, x):
    q = drift * drift
    ee, er, rr = z[2], z[3], z[4]
    e = z[1] + (z[0] - x) * dt
    # The trapezoidal mean of two samples' noise, divided by dt.
    ee += dt * (2.0 * er + dt * (rr + q * dt / 3.0 + 0.5 * torque_noise * torque_noise))
    er += dt * (rr + 0.5 * q * dt)
    rr += q * dt
    innovation = ee + momentum_noise * momentum_noise
    gain_e, gain_r = ee / innovation, er / innovation
    z[0] -= gain_r * e
    z[1] = e - gain_e * e
    z[2] = ee - gain_e * ee
    z[3] = er - gain_e * er
    z[4] = rr - gain_r * er


@compiled
def filter_signal(kind, design, z, dt, x, out):
    """Filter the means ``x`` (k, nv) over the intervals ``dt`` (k,); write residuals to ``out``.

    ``design`` is (nv, DESIGN); ``z`` (nv, STATE) is changed in place.
    """
    for k in range(x.shape[0]):
        for i in range(x.shape[1]):
            advance(kind, design[i], z[i], dt[k], x[k, i])
            out[k, i] = z[i, 0]


@compiled
def filter_balance(kind, design, z, dt, p, rate, out):
    """Do the same for samples ``p`` and ``rate`` (k + 1, nv) that bound the k intervals."""
    for k in range(out.shape[0]):
        for i in range(p.shape[1]):
            observe(
                kind, design[i], z[i], dt[k], p[k + 1, i], rate[k + 1, i], p[k, i], rate[k, i], 0.0
            )
            out[k, i] = z[i, 0]
