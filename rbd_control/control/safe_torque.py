"""The torque after a fault.

Without valid joint states (silence, no velocity, invalid numbers, frozen data) the command is
exactly zero. Then v is unknown, so any other torque may accelerate a moving arm towards a person.
Zero is also the last command when this process ends, and arms answer it with their brakes or their
own gravity compensation. An arm that has neither will sink: it needs brakes. With
``safe_torque: zero`` the command is always exactly zero, for arms that hold themselves. The gravity
torque is not subtracted: ``-g`` would cancel the arm's own compensation.

With ``safe_torque: damping`` and valid joint states the motors compensate gravity and damp each
joint separately::

    tau = g + brake        brake_i between 0 and -D_i v_i        D_i = safe_damping M_ii(q), or less

Therefore ``v_i (tau_i - g_i) <= 0`` for every joint in every sample: the safe torque removes energy
from each joint and adds none. Damping by the full mass matrix would not have this property, because
one joint could accelerate another. Four rules preserve it:

- D is scaled down, all joints alike, until ``period * |D^½ M^-1 D^½| <= 0.5``. This norm bounds the
  largest eigenvalue of M^-1 D, so no velocity changes its sign within a period, at any rate of the
  joint states. The period is the longest of late, M that of the arm as described: an inertia that
  was learned too large would make the brake unstable.
- Torque limits cut joint by joint: first the weight, then the brake to the room that is left.
- The rate limit holds for a brake that grows. Whatever the last torque had beside the weight that
  would push a joint along its motion, or brake it harder than D_i, is dropped at once, and the
  weight is there at once.
- An arm that compensates its own gravity gets the brake only. What its motors bear beside the brake
  is the weight that it knows of, whatever the controller has learned.

A joint whose gravity torque exceeds its torque limit sinks; the remaining torque still damps it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.torque_step import safe_step
from rbd_control.dynamics import Model

Array = NDArray[np.float64]


class SafeTorque:
    """The safe torque of one arm.

    Args:
        model: the described arm, whose M determines the damping.
        limits: limits of the arm.
        parameters: the safe torque and the torque rate.
    """

    def __init__(self, model: Model, limits: ArmLimits, parameters: ControllerParameters) -> None:
        self._described = model.packed
        self._largest = limits.torque
        self._rate = parameters.for_joints("torque_rate", len(limits.torque))
        self._damping = parameters.safe_damping
        self._compensated = parameters.gravity_compensated
        self.is_zero = parameters.safe_torque == "zero"

    def torque(
        self, packed: Array, q: Array, v: Array, acting: Array, dt: float, period: float
    ) -> tuple[Array, Array]:
        """Return the command and the corresponding motor torque, (nv,) each [N·m or N].

        Args:
            packed: the model whose weight is carried, as kernels take it; an arm that compensates
                its own gravity carries that of the model as described.
            q, v: measured positions and velocities, (nv,) each.
            acting: (nv,) last torque of the motors [N·m or N].
            dt: time since the last torque [s].
            period: longest time for which the torque is held [s].
        """
        weight, brake = safe_step(
            self._described if self._compensated else packed,
            self._described,
            q,
            v,
            acting,
            self._largest,
            self._damping,
            self._rate * dt,
            period,
        )
        motors = weight + brake
        return (brake if self._compensated else motors), motors
