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
gain follows from the covariance, which converges for any rate and jitter.
"""

from __future__ import annotations

import math

import numpy as np

from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.estimation.momentum_balance import mean_external
from rbd_control.estimation.velocity_delay import delayed

FIRST_ORDER, SECOND_ORDER, KALMAN = 0, 1, 2
"""Kinds of filter, as compiled code distinguishes them."""
DESIGN = np.dtype(
    [
        ("gain", "f8"),  # K [1/s]
        ("damping", "f8"),  # zeta of the second order
        ("torque_noise", "f8"),  # Kalman: standard deviation of one sample [N·m or N]
        ("momentum_noise", "f8"),  # Kalman: standard deviation of one sample [N·m·s or N·s]
        ("drift", "f8"),  # Kalman: random walk of the external torque [N·m/√s or N/√s]
        ("delay", "f8"),  # delay of the velocity against the effort, for all kinds [s]
    ],
    align=True,
)
"""Constants of the observer of one joint; each kind of filter uses some of the fields."""
STATE = np.dtype(
    [
        ("residual", "f8"),  # r, the estimate of the external torque [N·m or N]
        ("slope", "f8"),  # r_dot of the second order [N·m/s or N/s]
        ("error", "f8"),  # Kalman: e [N·m·s or N·s]
        ("error_variance", "f8"),  # Kalman: variance of e
        ("covariance", "f8"),  # Kalman: covariance of e and r
        ("variance", "f8"),  # Kalman: variance of r
        ("p", "f8"),  # momentum of the last sample [N·m·s or N·s]
        ("rate", "f8"),  # rate of p by the momentum balance, with the delayed torque [N·m or N]
        ("drive", "f8"),  # delayed torque of the motor less gravity [N·m or N]
    ],
    align=True,
)
"""State of the observer of one joint: its filter, and the sample that begins the next interval."""


@inlined
def advance(kind, design, state, dt, x):
    """Advance the filter of one joint by ``dt`` [s] under the mean input ``x`` [N·m or N].

    Args:
        kind: ``FIRST_ORDER``, ``SECOND_ORDER`` or ``KALMAN``.
        design: constants of the filter, an element of type ``DESIGN``.
        state: an element of type ``STATE``, changed in place.
        dt: length of the interval [s].
        x: mean external torque over the interval [N·m or N].
    """
    if kind == FIRST_ORDER:
        decay = math.exp(-design.gain * dt)
        state.residual = decay * state.residual + (1.0 - decay) * x
    elif kind == SECOND_ORDER:
        _second_order(design, state, dt, x)
    else:
        _kalman(design, state, dt, x)


@inlined
def begin(state, p, rate, drive):
    """Store a sample as the beginning of the next interval of one joint.

    Args:
        state: an element of type ``STATE``, changed in place.
        p: momentum of the joint [N·m·s or N·s].
        rate: rate of ``p`` without external torque, ``tau - tau_friction + Cᵀ v - g`` [N·m or N].
        drive: torque of the motor less gravity, which ``rate`` contains [N·m or N].
    """
    state.p, state.rate, state.drive = p, rate, drive


@inlined
def observe(kind, design, state, dt, p, rate, drive, bias):
    """Advance the observer of one joint from the sample in ``state`` to the next sample.

    Args:
        kind: ``FIRST_ORDER``, ``SECOND_ORDER`` or ``KALMAN``.
        design: constants of the filter, an element of type ``DESIGN``.
        state: an element of type ``STATE``, changed in place.
        dt: time between the two samples [s].
        p: momentum of the joint at the next sample [N·m·s or N·s].
        rate: rate of ``p`` without external torque, ``tau - tau_friction + Cᵀ v - g`` [N·m or N].
        drive: torque of the motor less gravity, which ``rate`` contains [N·m or N].
        bias: constant external torque to be removed [N·m or N].
    """
    late = delayed(state.drive, drive, dt, design.delay)
    rate += late - drive
    x = mean_external(p, rate, state.p, state.rate, dt) - bias
    advance(kind, design, state, dt, x)
    begin(state, p, rate, late)


@inlined
def clear(state):
    """Set the filter state of one joint to zero; ``p``, ``rate`` and ``drive`` are unchanged."""
    state.residual = state.slope = 0.0
    state.error = state.error_variance = state.covariance = state.variance = 0.0


@inlined
def _second_order(design, state, dt, x):
    # e = r - x obeys e_ddot + 2 zeta K e_dot + K² e = 0.
    K, zeta = design.gain, design.damping
    e, rate = state.residual - x, state.slope
    ringing = K * math.sqrt(1.0 - zeta * zeta)
    decay = math.exp(-zeta * K * dt)
    cosine = math.cos(ringing * dt)
    sine = math.sin(ringing * dt) / ringing if ringing * dt > 1e-6 else dt  # divided by ringing
    state.residual = x + decay * (cosine * e + sine * (rate + zeta * K * e))
    state.slope = decay * (cosine * rate - sine * (K * K * e + zeta * K * rate))


@inlined
def _kalman(design, state, dt, x):
    q = design.drift * design.drift
    ee, er, rr = state.error_variance, state.covariance, state.variance
    e = state.error + (state.residual - x) * dt
    # The trapezoidal mean of two samples' noise, divided by dt.
    noise = 0.5 * design.torque_noise * design.torque_noise
    ee += dt * (2.0 * er + dt * (rr + q * dt / 3.0 + noise))
    er += dt * (rr + 0.5 * q * dt)
    rr += q * dt
    innovation = ee + design.momentum_noise * design.momentum_noise
    gain_e, gain_r = ee / innovation, er / innovation
    state.residual -= gain_r * e
    state.error = e - gain_e * e
    state.error_variance = ee - gain_e * ee
    state.covariance = er - gain_e * er
    state.variance = rr - gain_r * er


@compiled
def filter_signal(kind, design, state, dt, x, out):
    """Filter the means ``x`` (k, nv) over k intervals ``dt`` (k,) [s], joint by joint.

    The filtered signal at the end of each interval, in the unit of ``x``, is written to ``out``
    (k, nv). ``design`` and ``state`` are (nv,) of ``DESIGN`` and ``STATE``; ``state`` is changed in
    place. ``kind`` is ``FIRST_ORDER``, ``SECOND_ORDER`` or ``KALMAN``.
    """
    for k in range(x.shape[0]):
        for i in range(x.shape[1]):
            advance(kind, design[i], state[i], dt[k], x[k, i])
            out[k, i] = state[i].residual


@compiled
def filter_balance(kind, design, state, dt, p, rate, drive, out):
    """Run the observer of each joint over k samples, as :func:`observe` does for one.

    The residuals are written to ``out`` (k, nv) [N·m or N]. Each sample ends an interval of length
    ``dt`` (k,) [s]; ``state`` holds the beginning of the first interval. ``p``, ``rate`` and
    ``drive`` are (k, nv). ``design`` and ``state`` are (nv,) of ``DESIGN`` and ``STATE``; ``state``
    is changed in place.
    """
    for k in range(out.shape[0]):
        for i in range(p.shape[1]):
            observe(kind, design[i], state[i], dt[k], p[k, i], rate[k, i], drive[k, i], 0.0)
            out[k, i] = state[i].residual
