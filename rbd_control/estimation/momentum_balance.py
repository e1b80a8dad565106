"""The external torque from the momentum balance, before any filter.

From ``p_dot = tau - tau_friction + Cᵀ v - g + tau_ext`` follows, exactly, the mean external torque
of the time between two samples::

    x_k = (p_k - p_(k-1)) / dt - mean of (tau - tau_friction + Cᵀ v - g)

with the mean by the trapezoidal rule. Each sample gives its momentum ``p`` and its ``rate``, the
term in parentheses; samples are independent of each other, so blocks are processed at once.

The published effort is first converted to a torque: ``tau = effort_gain effort``, and if the
driver subtracts gravity, ``tau = effort_gain effort + g``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.dynamics.batches import STATES_FOR_LANES, Kernels, over_states
from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.memory import lane_scratch
from rbd_control.dynamics.momentum import momentum_of_states, momentum_sweep
from rbd_control.dynamics.sweep import new_lane_sweep, new_sweep, position_offset
from rbd_control.robot.friction import ROWS, Friction, NoFriction, joint_friction

GAIN = ROWS
"""Row of the effort gain in the settings, after the rows of friction."""
LARGEST = 1e9
"""Largest momentum or torque in range [N·m·s, N·s, N·m or N]."""

USABLE, OUT_OF_RANGE, NOT_FINITE = 0, 1, 2
"""Quality of a sample: usable; finite numbers with results beyond ``LARGEST``; NaN or infinite."""


class Balance(NamedTuple):
    """Terms of the momentum balance of k samples."""

    p: np.ndarray
    """Generalised momentum M v, (k, nv) [N·m·s or N·s]."""
    rate: np.ndarray
    """tau - tau_friction + Cᵀ v - g, (k, nv) [N·m or N]."""
    torque: np.ndarray
    """Torque of the joint, the driver's effort converted, (k, nv) [N·m or N]."""
    load: np.ndarray
    """Gravity torque in the driver's effort, (k, nv) [N·m or N]; zero if it is excluded."""
    drive: np.ndarray
    """Torque of the motors less gravity, tau - g, which ``rate`` contains, (k, nv) [N·m or N]."""
    quality: np.ndarray
    """(k,) int8: ``USABLE``, ``OUT_OF_RANGE`` or ``NOT_FINITE``."""


@inlined
def mean_external(p, rate, last_p, last_rate, dt):
    """Return the mean external torque of one joint between two samples, which are ``dt`` [s] apart.

    ``p`` is the momentum [N·m·s or N·s] and ``rate`` its rate without external torque [N·m or N].
    """
    return (p - last_p) / dt - 0.5 * (rate + last_rate)


@inlined
def _quality(q, v, effort, p, rate):
    """Return the quality of one sample."""
    numbers, in_range = 0.0, True
    for i in range(q.shape[0]):
        numbers += 0.0 * q[i]
    for i in range(v.shape[0]):
        numbers += 0.0 * v[i] + 0.0 * effort[i]
        in_range = in_range and abs(p[i]) <= LARGEST and abs(rate[i]) <= LARGEST
    if not math.isfinite(numbers):
        return NOT_FINITE
    return USABLE if in_range else OUT_OF_RANGE


@inlined
def _take_effort(kind, gravity_share, settings, v, effort, k, rate, torque, load, drive):
    """Complete sample ``k``, in which ``rate`` holds Cᵀ v and ``load`` holds g."""
    for i in range(v.shape[1]):
        g = load[k, i]
        measured = settings[GAIN, i] * effort[k, i]
        torque[k, i] = measured + (1.0 - gravity_share) * g
        load[k, i] = gravity_share * g
        drive[k, i] = measured - gravity_share * g
        friction = joint_friction(kind, settings, i, v[k, i])
        rate[k, i] = measured - friction + rate[k, i] - gravity_share * g


@compiled
def _balance(
    packed, kind, gravity_share, settings, q, v, effort, p, rate, torque, load, drive, quality
):
    model = unpacked(packed)
    s = new_sweep(model.parent.shape[0])
    for k in range(q.shape[0]):
        momentum_sweep(model, q[k], v[k], s, p[k], rate[k], load[k])
        _take_effort(kind, gravity_share, settings, v, effort, k, rate, torque, load, drive)
        quality[k] = _quality(q[k], v[k], effort[k], p[k], rate[k])


@compiled
def _balance_in_lanes(
    packed, kind, gravity_share, settings, q, v, effort, p, rate, torque, load, drive, quality
):
    """Compute the result of :func:`_balance` with the momentum of several samples at a time."""
    model = unpacked(packed)
    s = new_lane_sweep(model.parent.shape[0])
    room = lane_scratch(5 * model.nv + position_offset(model))
    momentum_of_states(model, q, v, q.shape[0], s, room, p, rate, load)
    for k in range(q.shape[0]):
        _take_effort(kind, gravity_share, settings, v, effort, k, rate, torque, load, drive)
        quality[k] = _quality(q[k], v[k], effort[k], p[k], rate[k])


_BALANCE = Kernels(_balance, _balance_in_lanes, compiled_from=STATES_FOR_LANES)
"""Kernels for one sample and for blocks; nodes process single samples and use the first only."""


class MomentumBalance:
    """Computes the terms of the momentum balance of one arm from samples.

    Args:
        model: the robot.
        friction: tau_friction(v); none by default.
        effort_gain: torque per unit of effort, a number or (nv,) [N·m or N per unit].
        with_gravity: whether the effort includes the gravity torque of the arm.

    Attributes:
        model: the robot.
        single: result of the last call of :meth:`run` with one sample.
    """

    def __init__(
        self,
        model: Model,
        friction: Friction | None = None,
        *,
        effort_gain: float | np.ndarray = 1.0,
        with_gravity: bool = True,
    ) -> None:
        friction = friction or NoFriction()
        self.model = model
        self._settings = np.zeros((ROWS + 1, model.nv))
        self._settings[:ROWS] = friction.coefficients(model.nv)
        self._settings[GAIN] = effort_gain
        gravity_share = 1.0 if with_gravity else 0.0
        self._shared = (model.packed, friction.kind, gravity_share, self._settings)
        self.single = self._room(1)

    def run(self, q: np.ndarray, v: np.ndarray, effort: np.ndarray) -> Balance:
        """Return the momentum balance of k samples.

        Arguments are not checked: they must be C-contiguous. The result of a single sample is
        overwritten by the next call. Numbers that are not finite are reported in ``quality``.

        Args:
            q, v: positions and velocities, (k, nq) and (k, nv) [rad or m, rad/s or m/s].
            effort: efforts as published, (k, nv).
        """
        count = v.shape[0]
        if count == 1:
            _balance(*self._shared, q, v, effort, *self.single)
            return self.single
        balance = self._room(count)
        over_states(_BALANCE.of(count), self._shared, count, [q, v, effort, *balance])
        return balance

    def _room(self, count: int) -> Balance:
        p, rate, torque, load, drive = (np.empty((count, self.model.nv)) for _ in range(5))
        return Balance(p, rate, torque, load, drive, np.empty(count, dtype=np.int8))
