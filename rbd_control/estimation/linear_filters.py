"""The filters between the momentum balance and the residual, compiled, joint by joint.

Each takes ``x``, the mean external torque over an interval, and carries its residual ``r`` on by
the length ``dt`` of that interval. All solve their equation exactly for an ``x`` that is constant
over the interval, so they are stable for every ``dt``, and at rest their gain is one.

First order::

    r_dot = K (x - r)

Second order, with damping ``zeta``: noise that differentiated encoders put on the momentum grows
with frequency, and is taken off twice as steeply::

    r_ddot = K² (x - r) - 2 zeta K r_dot

Kalman. The external torque is a random walk, effort and momentum are measured with noise::

    p_dot = tau + tau_ext + torque noise        tau_ext_dot = drift
    measured: p + momentum noise

The state is the error ``e`` of the estimated momentum against the measured one, and the torque;
its gain follows from the covariance, which settles by itself for any rate and jitter.
"""

from __future__ import annotations

import math

from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.estimation.momentum_balance import mean_external

FIRST_ORDER, SECOND_ORDER, KALMAN = 0, 1, 2
"""Kinds of filter as compiled code knows them."""
DESIGN = 3
"""Rows of a design: K | K, zeta | torque noise, momentum noise, drift."""
STATE = 5
"""Rows of a state: r | r, r_dot | r, e and three covariances; the residual is always first."""


@inlined
def advance(kind, design, z, i, dt, x):
    """Carry row ``i`` of the state ``z`` (5, nv) on by ``dt`` under the mean input ``x``."""
    if kind == FIRST_ORDER:
        decay = math.exp(-design[0, i] * dt)
        z[0, i] = decay * z[0, i] + (1.0 - decay) * x
    elif kind == SECOND_ORDER:
        _second_order(design[0, i], design[1, i], z, i, dt, x)
    else:
        _kalman(design[0, i], design[1, i], design[2, i], z, i, dt, x)


@inlined
def _second_order(K, zeta, z, i, dt, x):
    # e = r - x obeys e_ddot + 2 zeta K e_dot + K² e = 0.
    e, rate = z[0, i] - x, z[1, i]
    ringing = K * math.sqrt(1.0 - zeta * zeta)
    decay = math.exp(-zeta * K * dt)
    cosine = math.cos(ringing * dt)
    sine = math.sin(ringing * dt) / ringing if ringing * dt > 1e-6 else dt  # over ringing
    z[0, i] = x + decay * (cosine * e + sine * (rate + zeta * K * e))
    z[1, i] = decay * (cosine * rate - sine * (K * K * e + zeta * K * rate))


@inlined
def _kalman(torque_noise, momentum_noise, drift, z, i, dt, x):
    q = drift * drift
    ee, er, rr = z[2, i], z[3, i], z[4, i]
    e = z[1, i] + (z[0, i] - x) * dt
    # The trapezoidal mean of two samples' noise, over dt.
    ee += dt * (2.0 * er + dt * (rr + q * dt / 3.0 + 0.5 * torque_noise * torque_noise))
    er += dt * (rr + 0.5 * q * dt)
    rr += q * dt
    innovation = ee + momentum_noise * momentum_noise
    gain_e, gain_r = ee / innovation, er / innovation
    z[0, i] -= gain_r * e
    z[1, i] = e - gain_e * e
    z[2, i] = ee - gain_e * ee
    z[3, i] = er - gain_e * er
    z[4, i] = rr - gain_r * er


@compiled
def filter_signal(kind, design, z, dt, x, out):
    """Push the means ``x`` (k, nv) over the intervals ``dt`` (k,) through; residuals to ``out``."""
    for k in range(x.shape[0]):
        for i in range(x.shape[1]):
            advance(kind, design, z, i, dt[k], x[k, i])
            out[k, i] = z[0, i]


@compiled
def filter_balance(kind, design, z, dt, p, rate, out):
    """The same for samples ``p`` and ``rate`` (k + 1, nv) that bound the k intervals."""
    for k in range(out.shape[0]):
        for i in range(p.shape[1]):
            x = mean_external(p[k + 1], rate[k + 1], p[k], rate[k], dt[k], i)
            advance(kind, design, z, i, dt[k], x)
            out[k, i] = z[0, i]
