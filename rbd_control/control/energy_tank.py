"""A bound on the energy that a controller may inject into the arm and its surroundings.

A law that tracks a trajectory is passive with respect to ``s = v - v_r``, not to v: an obstacle in
the path is pushed with the full power of the motors. The tank bounds the energy with respect to v.
Its level falls by the work of the controller on the arm, and rises by the work taken from the arm,
up to a capacity::

    level_dot = refill - vᵀ (tau - g) + vᵀ F(v)        level <= capacity

(tau: torque of the motors; g: gravity torque; F: the known friction, whose losses occur inside the
joints and do not count as injection, or zero if the drives supply these losses
(``friction_compensated``); capacity, refill and valve: parameters ``tank_capacity``,
``tank_refill`` and ``tank_valve``.) The torque has a dissipative part, ``g - K_D v``, and an active
part ``w = tau - g + K_D v``, which contains ``K_D v_r`` and the feed-forward. While the level is
below ``valve`` x capacity, w fades::

    tau' = g - K_D v + min(1, level / (valve capacity)) w

and further if the power expected at the measured v would empty the tank within the period. Over any
time t the controller therefore injects at most ``capacity + refill t``, for any trajectory: after a
collision the arm releases at most its kinetic energy, the content of the tank, and the refill.
Work is computed exactly, as held torque times distance. If v changes within the period, the work
may exceed the level by O(dt²). If the next sample is late or cannot be used, the torque stands for
up to ``timeout`` and may exceed the level by its power times that time. The level is then negative
until it is refilled.

The limits of torque and rate act after the tank, and the rate limit may prolong a torque that the
tank has withdrawn. Therefore :meth:`EnergyTank.sent` is the last step: if the torque would inject
more energy than the level, the driving torque of each joint, ``v_i (tau_i - g_i) > 0``, is reduced
at once, without regard to ``torque_rate``. The safe torque withdraws driving torque in the same
way.

Lifting a weight that the model does not contain also takes energy from the tank; for a loaded arm,
use a model with the payload.

Sources: Duindam & Stramigioli, *Port-based asymptotic curve tracking for mechanical systems*,
European Journal of Control 2004; Ferraguti, Secchi & Fantuzzi, *A tank-based approach to impedance
control with variable stiffness*, ICRA 2013. The account along v is our choice.
"""

from __future__ import annotations

from math import isfinite

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.energy_parameters import EnergyParameters
from rbd_control.control.energy_step import tank_step
from rbd_control.control.gains import law_gains
from rbd_control.dynamics import Model
from rbd_control.errors import InputError
from rbd_control.robot.friction import NoFriction

Array = NDArray[np.float64]


class EnergyTank:
    """The energy tank of one arm, initially full.

    Args:
        model: the arm; its gravity torque does not count as injection.
        parameters: parameters of the law; the tank uses K_D and friction.
        energy: capacity, refill and valve; with capacity zero, torques pass unchanged.

    Attributes:
        model: the arm; it may be replaced between samples, for example by one with new estimates.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(
        self, model: Model, parameters: ControllerParameters, energy: EnergyParameters
    ) -> None:
        self.model = model
        self._energy = energy
        _, self._damping, self._damping_rate = law_gains(parameters, model)
        self._friction = parameters.friction(model.nv)
        self.reset()

    def reset(self) -> None:
        """Fill the tank; the work of the present period is not counted."""
        self._level = self._energy.tank_capacity
        self._pushing = np.zeros(self.model.nv)
        self._losing = np.zeros(self.model.nv)
        self._weight, self._v, self._dt = self._pushing, self._pushing, np.inf
        self.skip()

    def skip(self) -> None:
        """Do not count the work of the present period, because another torque acts in it."""
        self._q: Array | None = None

    def take_over(self, before: EnergyTank) -> None:
        """Copy the level and the present period of a tank for the same arm.

        If the previous tank was disabled, this tank is full. A smaller tank is at most full; a
        larger tank keeps the previous level.
        """
        if before._energy.tank_capacity == 0.0:
            return
        self._level = min(before._level, self._energy.tank_capacity)
        self._q, self._pushing, self._losing = before._q, before._pushing, before._losing
        self._weight, self._v, self._dt = before._weight, before._v, before._dt

    @property
    def level(self) -> float:
        """Energy left in the tank [J]; negative after more work than it contained."""
        return self._level

    @property
    def share(self) -> float:
        """Share of the active torque w (see the module) that the level permits, 0 to 1.

        It is 1 with capacity zero.
        """
        capacity = self._energy.tank_capacity
        if capacity == 0.0:
            return 1.0
        return min(max(self._level / (self._energy.tank_valve * capacity), 0.0), 1.0)

    def limit(self, q: Array, v: Array, tau: Array, dt: float, damping_share: float = 1.0) -> Array:
        """Account for the work of the last period, then limit a torque as the level requires.

        Send the returned torque to the motors. If other limits change it before, send the torque
        that :meth:`sent` returns.

        Args:
            q, v: measured positions [rad or m] and velocities [rad/s or m/s], (nv,) each.
            tau: requested torque, (nv,) [N·m or N], already limited: even a small share of an
                unlimited torque may be too large.
            dt: the period [s]: time since the last call, and until the next.
            damping_share: share of K_D that ``tau`` contains, 0 to 1. The dissipative part uses the
                same share, so that an empty tank does not damp an arm that floats.

        Returns:
            (nv,) [N·m or N]; ``tau`` itself if it need not be limited, and with capacity zero.

        Raises:
            InputError: for arguments of the wrong shape or not finite, or ``dt`` that is not
                positive and finite; the level is then unchanged. Capacity zero skips these checks.
        """
        if self._energy.tank_capacity == 0.0:
            return tau
        n = self.model.nv
        arrays = []
        for name, x in (("q", q), ("v", v), ("tau", tau)):
            x = np.array(x, dtype=np.float64)
            if x.shape != (n,):
                raise InputError(f"{name} has shape {x.shape} but the model has nv = {n}")
            if not isfinite(x.dot(x)):
                raise InputError(f"{name} is {x.tolist()}; give finite numbers")
            arrays.append(x)
        q, v, pushing = arrays
        if not 0.0 < dt < np.inf:
            raise InputError(f"dt is {dt} s; it must be positive and finite")
        if self._q is not None:
            work = float((self._pushing - self._losing).dot(q - self._q))
            self._level = min(
                self._level - work + self._energy.tank_refill * dt, self._energy.tank_capacity
            )
        limited = np.empty(n)
        share = tank_step(
            self.model.packed,
            damping_share * self._damping,
            damping_share * self._damping_rate,
            q,
            v,
            pushing,
            self.share,
            max(self._level, 0.0) / dt,
            limited,
        )
        self._q, self._pushing = q, pushing
        self._weight, self._v, self._dt = limited - pushing, v, dt
        if not isinstance(self._friction, NoFriction):
            self._losing = self._friction.torque(v)
        elif self._losing.any():  # taken over from a tank with friction
            self._losing = np.zeros(n)
        return limited if share < 1.0 else tau

    def acts(self, tau: Array) -> None:
        """Account for a torque that acts until the next call of :meth:`limit`.

        Args:
            tau: acting torque of the motors, (nv,) [N·m or N], in place of the result of
                :meth:`limit` or :meth:`sent`.
        """
        self._pushing = tau - self._weight

    def sent(self, limited: Array, tau: Array, bounds: tuple[Array, Array] | None = None) -> Array:
        """Return the torque to send in place of ``limited``, and count the work of this torque.

        The driving torque is ``tau_i - g_i`` of the joints with ``v_i (tau_i - g_i) > 0``. If
        ``tau`` would inject more than the level within one period, the driving torque is reduced by
        one factor in all joints.

        Args:
            limited: result of :meth:`limit` for this sample, (nv,) [N·m or N].
            tau: ``limited`` after other limits, for example of the rate, (nv,) [N·m or N].
            bounds: least and largest torque of the motors, (nv,) each [N·m or N], which hold after
                the reduction. A motor that is too weak to hold the weight may therefore inject more
                than the level.

        Returns:
            (nv,) [N·m or N]; ``tau`` itself unless it would inject more than the level.
        """
        if tau is limited or self._energy.tank_capacity == 0.0:
            return tau
        pushing = tau - self._weight
        power = self._v * pushing
        drives = power > 0.0
        driving, taken = float(power[drives].sum()), -float(power[~drives].sum())
        most = max(self._level, 0.0) / self._dt + taken
        if driving > most:
            pushing = np.where(drives, most / driving * pushing, pushing)
            tau = self._weight + pushing
            if bounds is not None:
                tau = np.minimum(np.maximum(tau, bounds[0]), bounds[1])
        self._pushing = tau - self._weight
        return tau
