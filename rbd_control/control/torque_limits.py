"""Torques cut to what the arm may get, without turning their direction.

Cutting each joint for itself would turn the direction of the torque, and through the mass matrix
a joint that is cut throws its neighbours about: an arm that brakes with its shoulder at the limit
spins its wrist. What is too much is made smaller as a whole instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.kernels import cut, exceeds, slowed
from rbd_control.dynamics import Model, gravity_torque

Array = NDArray[np.float64]


class LimitedTorque(NamedTuple):
    """A torque that may be sent."""

    torque: Array
    """(nv,) [N·m or N]."""
    saturated: bool
    """It was made smaller to keep the limits."""
    rate_limited: bool
    """It was slowed down to keep the largest rate of change."""


class TorqueLimits:
    """Limits on torque and its rate of change, from the model and the parameters.

    Limits are of what the motors bear. For an arm that adds its own weight (parameter
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
        self._compensated = parameters.gravity_compensated

    def apply(self, torque: Array, q: Array, last: Array, dt: float) -> LimitedTorque:
        """What to send for ``torque`` at the position ``q``, ``dt`` after ``last`` was sent.

        The arm's weight is kept, with as much of the rest as all joints can bear; the weight alone
        is cut joint by joint where even that is too much. Then the torque goes as far from the
        last towards that as all joints can.
        """
        saturated = bool(exceeds(torque, self.largest))
        if saturated or self._compensated:
            weight = gravity_torque(self._model, q)
            torque = cut(torque, weight, self.largest)
        added = weight if self._compensated else 0.0
        torque, slow = slowed(torque, last + added, self._rate * dt, self.largest)
        torque -= added
        return LimitedTorque(torque, saturated, slow)
