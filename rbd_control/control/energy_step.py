"""Compiled code of the energy monitor and of the energy tank for one period between samples.

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
    """Data of the energy monitor at the last sample; :func:`balance_step` changes them in place.

    Attributes:
        s: (n,) velocity error v - v_r [rad/s or m/s].
        law: (n,) torque of the control law [N·m or N].
        elastic: (n,) elastic energy E_i that the damping of each joint stores [J].
        damped: (n,) power ``D_i s_i²`` of the damping of each joint [W].
        storage: (1,) storage function V [J].
        power: (1,) power that is dissipated in addition to ``damped``: by ``damping_rate M`` and
            at the springs of the soft limits [W].
    """

    s: np.ndarray
    law: np.ndarray
    elastic: np.ndarray
    damped: np.ndarray
    storage: np.ndarray
    power: np.ndarray


@compiled
def balance_step(packed, gains, bounds, last, q, v, q_d, v_r, law, acting, dt):
    """Return ``(V, dissipated, injected, bound)`` [J] of the period that ends with this sample.

    :class:`~rbd_control.control.energy.EnergyBalance` describes the results. If an argument is not
    finite, they are NaN and nothing is stored. With dt = 0, which begins a new balance, all but V
    are zero.

    Args:
        packed: the model as one array.
        gains: gains of the control law, ``LawGains``.
        bounds: soft position limits with their springs, ``ReferenceBounds``.
        last: data of the last sample, replaced by the data of this sample.
        q, v: measured positions [rad or m] and velocities [rad/s or m/s], (n,) each.
        q_d: (n,) desired positions [rad or m].
        v_r: (n,) reference velocity [rad/s or m/s].
        law: (n,) torque of the control law for this sample, before limits [N·m or N].
        acting: (n,) torque of the motors since the last sample [N·m or N].
        dt: time since the last sample [s].
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
    """Write ``g - K_D v + share w`` with ``w = tau - g + K_D v``; return the share that was used.

    The share is reduced if the injected power ``vᵀ (tau' - g)`` of the result tau' would exceed
    ``most``.

    Args:
        packed: the model as one array.
        damping, damping_rate: K_D is ``diag(damping) + damping_rate M``.
        q, v: measured positions [rad or m] and velocities [rad/s or m/s], (n,) each.
        tau: (n,) requested torque [N·m or N]; replaced by the result less g.
        share: share of w that the level of the tank permits, 0 to 1.
        most: largest injected power [W].
        limited: (n,) resulting torque [N·m or N], written.
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
