"""Torques cut to what the arm may get, without turning their direction.

Cutting each joint for itself would turn the direction of the torque, and through the mass matrix
a joint that is cut throws its neighbours about: an arm that brakes with its shoulder at the limit
spins its wrist. What is too much is made smaller as a whole instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.kernels import cut, exceeds, slowed
from rbd_control.dynamics import Model, gravity_torque

Array = NDArray[np.float64]


class TorqueLimits:
    """Limits on torque and its rate of change, from the model and the parameters.

    Both are of what the motors bear. For an arm that adds its own weight (parameter
    ``gravity_compensated``) that is the torque sent and the weight.

    Attributes:
        largest: (nv,) torque that may be asked of the motors [N·m or N].

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(self, model: Model, parameters: ControllerParameters) -> None:
        self._model = model
        self.largest: Array = parameters.for_joints("torque_share", model.nv) * model.effort_limit
        self._rate = parameters.for_joints("torque_rate", model.nv)

    def cut(self, torque: Array, q: Array) -> Array:
        """The torque itself, or the arm's weight and as much of the rest as all joints can bear.

        The weight alone is cut joint by joint where even that is too much.
        """
        if not exceeds(torque, self.largest):
            return torque
        less: Array = cut(torque, gravity_torque(self._model, q), self.largest)
        return less

    def slow(self, torque: Array, last: Array, dt: float) -> Array:
        """The torque itself, or as far from ``last`` towards it as all joints can go in ``dt``."""
        slower, short = slowed(torque, last, self._rate, dt, self.largest)
        return slower if short else torque
