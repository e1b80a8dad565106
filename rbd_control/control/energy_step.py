"""The compiled periods of the energy monitor and of the energy tank.

:mod:`~rbd_control.control.energy` and :mod:`~rbd_control.control.energy_tank` have the equations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.compiled import compiled
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.momentum import momentum_sweep
from rbd_control.dynamics.spatial import copy
from rbd_control.dynamics.sweep import new_sweep


class LastSample(NamedTuple):
    """The monitor's data of the last sample; every call changes them in place."""

    s: np.ndarray  # (n,)
    law: np.ndarray  # (n,) the law's torque
    elastic: np.ndarray  # (n,) energy stored by each joint's damping [J]
    damped: np.ndarray  # (n,) power of each joint's damping [W]
    storage: np.ndarray  # (1,) V [J]
    power: np.ndarray  # (1,) dissipated without the joints' damping [W]


@compiled
def balance_step(packed, gains, bounds, last, q, v, q_d, v_r, law, acting, dt):
    """Return ``(V, dissipated, injected, bound)`` of the period that ends with this sample.

    The sample is stored in ``last``. If an argument is not finite, the results are not finite and
    nothing is stored. With dt = 0 the energies are zero.
    """
    model, n = unpacked(packed), q.shape[0]
    s, elastic, damped = np.empty(n), np.empty(n), np.empty(n)
    stored, power, dissipated = 0.0, 0.0, 0.0
    for i in range(n):
        e = q[i] - q_d[i]
        s[i] = v[i] - v_r[i]
        damped[i] = gains.damping[i] * s[i] * s[i]
        elastic[i] = gains.Lambda[i] * gains.damping[i] * e * e
        if dt > 0.0:
            # The stored energy rises by no more than the work of the damping.
            work = 0.5 * dt * (damped[i] + last.damped[i])
            elastic[i] = min(elastic[i], last.elastic[i] + work)
            dissipated += work - (elastic[i] - last.elastic[i])
        stored += elastic[i]
        depth = max(bounds.lower[i] - q[i], 0.0) - max(q[i] - bounds.upper[i], 0.0)
        if depth != 0.0:
            spring = bounds.stiffness[i] * depth
            stored += 0.5 * spring * depth
            power += v_r[i] * spring
    p, unused, g = np.empty(n), np.empty(n), np.empty(n)
    momentum_sweep(model, q, s, new_sweep(model.parent.shape[0]), p, unused, g)
    injected, bound, weighted = 0.0, 0.0, 0.0
    for i in range(n):
        weighted += s[i] * p[i]
        change = law[i] - last.law[i]
        injected += last.s[i] * (acting[i] - last.law[i]) + s[i] * (acting[i] - law[i])
        bound += max(abs(last.s[i]), abs(s[i])) * abs(change)
    storage = 0.5 * weighted + stored
    power += gains.damping_rate * weighted
    dissipated += 0.5 * dt * (power + last.power[0])
    injected *= 0.5 * dt
    bound *= 0.5 * dt
    if np.isfinite(storage + power + dissipated + injected + bound):
        copy(s, last.s)
        copy(law, last.law)
        copy(elastic, last.elastic)
        copy(damped, last.damped)
        last.storage[0] = storage
        last.power[0] = power
        return storage, dissipated, injected, bound
    return np.nan, np.nan, np.nan, np.nan


@compiled
def tank_step(packed, damping, damping_rate, q, v, tau, share, most, limited):
    """Write ``g - K_D v + share w`` with ``w = tau - g + K_D v``; ``tau`` gets the same minus g.

    The share is reduced where the injected power would exceed ``most``; the share used is returned.
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
