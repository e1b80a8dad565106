"""The compiled periods of the energy monitor and of the energy tank.

:mod:`~rbd_control.control.energy` and :mod:`~rbd_control.control.energy_tank` say what is computed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.compiled import compiled
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.momentum import momentum_sweep
from rbd_control.dynamics.spatial import copy
from rbd_control.dynamics.sweep import new_sweep


class LawGains(NamedTuple):
    """Lambda, the diagonal part of K_D, (n,) each, and the part proportional to M."""

    Lambda: np.ndarray
    damping: np.ndarray
    damping_rate: float


class LastSample(NamedTuple):
    """What the monitor keeps of a sample, changed by every call."""

    s: np.ndarray  # (n,)
    law: np.ndarray  # (n,) the law's torque
    storage: np.ndarray  # (1,) V [J]
    power: np.ndarray  # (1,) dissipated [W]


@compiled
def balance_step(packed, gains, last, q, v, q_d, v_d, law, acting, dt):
    """``(V, dissipated, injected, bound)`` of the period that ends here; keeps this sample.

    Not finite if an argument is; then nothing is kept. With dt = 0 the energies are zero.
    """
    model, n = unpacked(packed), q.shape[0]
    s = np.empty(n)
    elastic, power = 0.0, 0.0
    for i in range(n):
        e, e_dot = q[i] - q_d[i], v[i] - v_d[i]
        s[i] = e_dot + gains.Lambda[i] * e
        K = 2.0 * gains.Lambda[i] * gains.damping[i]
        elastic += 0.5 * K * e * e
        power += gains.damping[i] * e_dot * e_dot + 0.5 * K * gains.Lambda[i] * e * e
    p, unused, g = np.empty(n), np.empty(n), np.empty(n)
    momentum_sweep(model, q, s, new_sweep(model.parent.shape[0]), p, unused, g)
    injected, bound, weighted = 0.0, 0.0, 0.0
    for i in range(n):
        weighted += s[i] * p[i]
        change = law[i] - last.law[i]
        injected += last.s[i] * (acting[i] - last.law[i]) + s[i] * (acting[i] - law[i])
        bound += max(abs(last.s[i]), abs(s[i])) * abs(change)
    storage = 0.5 * weighted + elastic
    power += gains.damping_rate * weighted
    dissipated = 0.5 * dt * (power + last.power[0])
    injected *= 0.5 * dt
    bound *= 0.5 * dt
    if np.isfinite(storage + power + injected + bound):
        copy(s, last.s)
        copy(law, last.law)
        last.storage[0] = storage
        last.power[0] = power
        return storage, dissipated, injected, bound
    return np.nan, np.nan, np.nan, np.nan


@compiled
def tank_step(packed, damping, damping_rate, q, v, tau, share, most, limited):
    """Write ``g - K_D v + share w`` with ``w = tau - g + K_D v``, and minus g of it to ``tau``.

    The share is made smaller where the power against the arm would be more than ``most``; what it
    was is returned.
    """
    model, n = unpacked(packed), q.shape[0]
    p, unused, g = np.empty(n), np.empty(n), np.empty(n)
    momentum_sweep(model, q, v, new_sweep(model.parent.shape[0]), p, unused, g)
    taken, active = 0.0, 0.0
    for i in range(n):
        drag = damping[i] * v[i] + damping_rate * p[i]
        limited[i] = g[i] - drag
        taken += v[i] * drag
        active += v[i] * (tau[i] - limited[i])
    if share * active > most + taken:
        share = (most + taken) / active
    for i in range(n):
        limited[i] += share * (tau[i] - limited[i])
        tau[i] = limited[i] - g[i]
    return share
