"""Estimate of the constant torque of each joint that the model lacks: friction, weight.

Gains that an arm with elastic gears and a late loop bears are soft: a friction of 8 % of the effort
limit, which the model does not know, would leave a wrist behind by some tenths of a radian. The law
therefore adds an estimate b of the missing torque, which is learned from the velocity error s::

    db_i/dt = -rate c_i / s_i_max  (s_i, less a dead zone of ZONE s_i_max)         |b_i| <= c_i

with the bound ``c_i = SHARE`` of the effort limit, and the largest reference speed s_i_max. With the
storage ``½ sᵀ M s + sum of ½ s_i_max (b_i - d_i)² / (rate c_i)`` for a missing torque d within the
bounds, the arm is passive with respect to s, as without the estimate: this is adaptation of one
parameter for each joint. Estimates fall faster than they rise. The dead zone prevents that a joint which sticks hunts around its target.

The estimate is zero at the start of a motion or hold, is kept during a contact that the detector
reports, and while limits change the torque. An adaptive law learns friction and weight by itself.

Source: Slotine & Li, *Applied Nonlinear Control*, 1991, section 9.2 (adaptation of a constant).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics.compiled import compiled

Array = NDArray[np.float64]

SHARE = 0.15
"""Bound of the estimate, as a share of the effort limit."""

ZONE = 0.05
"""Dead zone of the velocity error, as a share of the largest reference speed."""


UNLEARNING = 10.0
"""Factor of the rate at which an estimate falls.

When a joint breaks loose, static friction ends at once, and the estimate drives it beyond its
reference.
"""


class Bias:
    """Learns the missing torque of each joint of one arm, by the equations of this module.

    Args:
        effort: (nv,) effort limits [N·m or N]; joints without limit learn nothing.
        speed: (nv,) largest reference speeds [rad/s or m/s].
        rate: rate at which the estimate reaches its bound for the largest velocity error [1/s].

    Attributes:
        torque: (nv,) the estimates [N·m or N].
    """

    def __init__(self, effort: Array, speed: Array, rate: float) -> None:
        self._bound: Array = np.where(np.isfinite(effort), SHARE * effort, 0.0)
        self._speed, self._rate = speed, rate
        self.torque: Array = np.zeros(len(effort))

    def take_over(self, before: Bias) -> None:
        """Continue from the estimates of another object for the same arm, within the bounds."""
        if self._rate > 0.0:
            self.torque = np.clip(before.torque, -self._bound, self._bound)

    def reset(self) -> None:
        """Set the estimates to zero."""
        self.torque = np.zeros(len(self._bound))

    def learn(self, s: Array, dt: float) -> None:
        """Correct the estimates.

        Args:
            s: (nv,) velocity error v - v_r [rad/s or m/s].
            dt: time since the previous sample [s].
        """
        if self._rate > 0.0 and dt > 0.0:
            self.torque = learned(self.torque, s, self._bound, self._speed, self._rate * dt)


@compiled
def learned(b, s, bound, speed, step):  # type: ignore[no-untyped-def]
    """Return the estimates after a step; see the module.

    Args:
        b, bound: estimates and their bounds, (n,) each [N·m or N].
        s, speed: velocity errors and largest reference speeds, (n,) each [rad/s or m/s].
        step: rate times the time since the previous sample.
    """
    out = np.empty(b.shape[0])
    for i in range(b.shape[0]):
        zone = ZONE * speed[i]
        excess = s[i] - min(max(s[i], -zone), zone)
        change = -step * bound[i] * excess / speed[i]
        if change * b[i] < 0.0:
            change *= UNLEARNING
        out[i] = min(max(b[i] + change, -bound[i]), bound[i])
    return out
