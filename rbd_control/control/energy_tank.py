"""A bound on the energy that a controller may put into the arm and what it touches.

A law that tracks a trajectory is passive along ``s = v - v_r``, not along v: what stands in the
way of v_r is pushed with all the power of the motors. A tank makes the bound along v. Its level
falls by the work that the controller does against the arm, and rises by the work it takes out, up
to a capacity::

    level_dot = refill - vᵀ (tau - g) + vᵀ F(v)        level <= capacity

(F: the known friction, whose losses stay inside the joints and are no injection.) The torque has a
part that only takes out, ``g - K_D v``, and the active rest ``w = tau - g + K_D v``, which holds
``K_D v_r`` and the feed-forward. While the level is below ``valve`` x capacity, w fades with it::

    tau' = g - K_D v + min(1, level / (valve capacity)) w

and further where the power expected at the measured v would empty the tank within the period. So
over any time t the controller injects no more than ``capacity + refill t``, wherever the trajectory
leads: after a collision the arm gives away the kinetic energy it had, what was in the tank, and the
refill. Work is accounted exactly, as held torque times way. Only where v changes within the period
can a little more be taken than is left, O(dt²); the level is negative then, to be filled up again.

Weights that the model has wrong are lifted out of the tank too; a loaded arm wants a learned model.

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
from rbd_control.dynamics import Model
from rbd_control.errors import InputError
from rbd_control.robot.friction import NoFriction

Array = NDArray[np.float64]


class EnergyTank:
    """The tank of one arm; full at first.

    Args:
        model: the arm; its gravity torque is no injection.
        parameters: of the law, whose K_D and friction are used.
        energy: capacity, refill and valve; without a capacity torques pass unchanged.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(
        self, model: Model, parameters: ControllerParameters, energy: EnergyParameters
    ) -> None:
        self.model = model
        self._energy = energy
        self._damping = parameters.for_joints("damping", model.nv)
        self._damping_rate = parameters.damping_rate
        self._friction = parameters.friction(model.nv)
        self.reset()

    def reset(self) -> None:
        """Full, with no period to account for."""
        self._level = self._energy.tank_capacity
        self._pushing = np.zeros(self.model.nv)
        self._losing = np.zeros(self.model.nv)
        self.skip()

    def skip(self) -> None:
        """Leave out the period that runs: something else than the last torque acted in it."""
        self._q: Array | None = None

    def take_over(self, before: EnergyTank) -> None:
        """Go on with the level, and the account of this period, of a tank for the same arm.

        A tank that was switched off before is full now, and one that became smaller is at most
        full; one that became larger has no more in it than it had.
        """
        if before._energy.tank_capacity == 0.0:
            return
        self._level = min(before._level, self._energy.tank_capacity)
        self._q, self._pushing, self._losing = before._q, before._pushing, before._losing

    @property
    def level(self) -> float:
        """Energy left [J]."""
        return self._level

    @property
    def share(self) -> float:
        """The share of the active torque that the level allows, 0 to 1."""
        capacity = self._energy.tank_capacity
        if capacity == 0.0:
            return 1.0
        return min(max(self._level / (self._energy.tank_valve * capacity), 0.0), 1.0)

    def limit(self, q: Array, v: Array, tau: Array, dt: float) -> Array:
        """Account for the last period, then let through what the level allows.

        What is returned must be what acts. Where other limits follow, tell :meth:`sent`.

        Args:
            q, v: measured positions [rad or m] and velocities [rad/s or m/s], (nv,) each.
            tau: wanted torque, (nv,) [N·m or N], cut to the limits: of a torque that nobody could
                give a small share is still too much.
            dt: the period [s]: time since the last call, and until the next.

        Returns:
            (nv,) [N·m or N]; ``tau`` itself where all of it may pass.

        Raises:
            InputError: for arguments of the wrong shape or not finite; the level is then as it was.
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
            self._damping,
            self._damping_rate,
            q,
            v,
            pushing,
            self.share,
            max(self._level, 0.0) / dt,
            limited,
        )
        self._q, self._pushing = q, pushing
        if not isinstance(self._friction, NoFriction):
            self._losing = self._friction.torque(v)
        return limited if share < 1.0 else tau

    def sent(self, limited: Array, tau: Array) -> None:
        """Correct the account: not ``limited``, which :meth:`limit` gave, but ``tau`` was sent."""
        self._pushing += tau - limited
