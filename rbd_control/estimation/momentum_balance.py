"""The external torque that the momentum balance asks for, before any filter.

From ``p_dot = tau - tau_friction + Cᵀ v - g + tau_ext`` follows, exactly, the mean external torque
of the time between two samples::

    x_k = (p_k - p_(k-1)) / dt - mean of (tau - tau_friction + Cᵀ v - g)

with the mean by the trapezoidal rule. Each sample gives its momentum ``p`` and its ``rate``, the
parenthesis; samples know nothing of each other, so many are done at once.

The effort a driver publishes is made a torque first: ``tau = effort_gain effort``, and where the
driver takes gravity off, ``tau = effort_gain effort + g``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.dynamics.batches import over_states
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.momentum import momentum_sweep
from rbd_control.dynamics.sweep import new_sweep
from rbd_control.friction import ROWS, Friction, NoFriction, joint_friction

GAIN, LIMIT = ROWS, ROWS + 1
"""Rows of the settings after those of friction."""
SATURATED, NOT_FINITE = 1, 2


class Balance(NamedTuple):
    """What samples say of the momentum balance."""

    p: np.ndarray
    """Generalised momentum M v, (k, nv) [N·m·s or N·s]."""
    rate: np.ndarray
    """tau - tau_friction + Cᵀ v - g, (k, nv) [N·m or N]."""
    quality: np.ndarray
    """(k,) int8: ``SATURATED`` where some joint's torque is at its limit, so that more would not
    show; ``NOT_FINITE`` where the sample is not; else 0."""


@inlined
def mean_external(p, rate, last_p, last_rate, dt):
    """Return the mean external torque x of one joint over ``dt``, see the top of this file."""
    return (p - last_p) / dt - 0.5 * (rate + last_rate)


@compiled
def _balance(packed, kind, gravity_share, settings, q, v, effort, p, rate, g, quality):
    model = unpacked(packed)
    s = new_sweep(model.parent.shape[0])
    for k in range(q.shape[0]):
        momentum_sweep(model, q[k], v[k], s, p[k], rate[k], g[k])
        quality[k] = 0
        for i in range(v.shape[1]):
            torque = settings[GAIN, i] * effort[k, i]
            whole = torque + (1.0 - gravity_share) * g[k, i]
            if abs(whole) >= settings[LIMIT, i]:
                quality[k] = SATURATED
            friction = joint_friction(kind, settings, i, v[k, i])
            rate[k, i] = torque - friction + rate[k, i] - gravity_share * g[k, i]
            if not math.isfinite(rate[k, i] + p[k, i]):
                quality[k] = NOT_FINITE
                break


class MomentumBalance:
    """The momentum balance of one arm.

    Args:
        model: the robot.
        friction: tau_friction(v); none by default.
        effort_gain: torque per unit of effort, a number or (nv,) [N·m or N per unit].
        with_gravity: whether the effort holds the torque that carries the arm's own weight.
        torque_limit: torque at which a joint counts as saturated, (nv,) [N·m or N].
    """

    def __init__(
        self,
        model: Model,
        friction: Friction | None = None,
        *,
        effort_gain: float | np.ndarray = 1.0,
        with_gravity: bool = True,
        torque_limit: float | np.ndarray = np.inf,
    ) -> None:
        friction = friction or NoFriction()
        self.model = model
        self._kind = friction.kind
        self._settings = np.zeros((ROWS + 2, model.nv))
        self._settings[:ROWS] = friction.coefficients(model.nv)
        self._settings[GAIN] = effort_gain
        self._settings[LIMIT] = torque_limit
        self._gravity_share = 1.0 if with_gravity else 0.0
        self._one = self._room(1)

    def run(self, q: np.ndarray, v: np.ndarray, effort: np.ndarray) -> Balance:
        """Momentum and rate of k samples.

        Nothing is checked: arguments are C-contiguous, (k, nq) and (k, nv). What is returned for a
        single sample is overwritten by the next.
        """
        p, rate, g, quality = self._one if v.shape[0] == 1 else self._room(v.shape[0])
        over_states(
            _balance,
            (self.model.packed, self._kind, self._gravity_share, self._settings),
            v.shape[0],
            [q, v, effort, p, rate, g, quality],
        )
        return Balance(p, rate, quality)

    def _room(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        n = self.model.nv
        p, rate, g = (np.empty((count, n)) for _ in range(3))
        return p, rate, g, np.empty(count, dtype=np.int8)
