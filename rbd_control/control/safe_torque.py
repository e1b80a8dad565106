"""The torque after a fault.

Without good joint states (silence, no velocity, garbage, frozen data) the command is exactly zero.
Then nothing is known of v, so any other torque may push a moving arm on, into whoever stands beside
it; zero is also what a consumer gets when this process ends, and the one command that arms answer
with their brakes or their own gravity compensation. An arm that has neither will sink: give it
brakes. With ``safe_torque: zero`` the command is exactly zero always, for arms that hold
themselves. No weight is taken off it: ``-g`` would cancel the arm's own compensation.

With ``safe_torque: damping`` and good joint states the motors carry the weight and each joint is
braked for itself::

    tau = g + brake        brake_i between 0 and -D_i v_i        D_i = safe_damping M_ii(q), or less

So ``v_i (tau_i - g_i) <= 0`` for every joint in every sample: the safe torque takes energy out of
each joint and gives none to any, and no joint drags another along, as damping by the whole mass
matrix would. Four rules keep this true on the way to the motors:

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

A joint whose weight is over its torque limit sinks; it still is braked as far as it can be.
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
        model: the arm as described, by which it is braked.
        limits: of the arm.
        parameters: of which the safe torque and the torque rate are used.
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
        """Return the command and the torque of the motors that goes with it, (nv,) each [N·m or N].

        Args:
            packed: the model whose weight is carried, as kernels take it; an arm that compensates
                its own gravity carries that of the model as described.
            q, v: measured positions and velocities, (nv,) each.
            acting: (nv,) last torque of the motors.
            dt: time since then [s].
            period: longest time for which the torque stands [s].
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
