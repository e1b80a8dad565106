"""Torques cut to what the arm may get, without turning their direction.

Cutting each joint for itself would turn the direction of the torque, and through the mass matrix
a joint that is cut throws its neighbours about: an arm that brakes with its shoulder at the limit
spins its wrist. What is too much is made smaller as a whole instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.dynamics import Model, gravity_torque

Array = NDArray[np.float64]


class TorqueLimits:
    """Limits on torque and its rate of change, from the model and the parameters.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(self, model: Model, parameters: ControllerParameters) -> None:
        self._model = model
        self._largest = parameters.for_joints("torque_share", model.nv) * model.effort_limit
        self._rate = parameters.for_joints("torque_rate", model.nv)

    def cut(self, torque: Array, q: Array) -> Array:
        """The torque itself, or the arm's weight and as much of the rest as all joints can bear.

        The weight alone is cut joint by joint where even that is too much.
        """
        if (np.abs(torque) <= self._largest).all():
            return torque
        weight = gravity_torque(self._model, q).clip(-self._largest, self._largest)
        rest = torque - weight
        room = np.where(rest > 0.0, self._largest - weight, self._largest + weight)
        return (weight + _share(room, rest) * rest).clip(-self._largest, self._largest)

    def slow(self, torque: Array, last: Array, dt: float) -> Array:
        """The torque itself, or as far from ``last`` towards it as all joints can go in ``dt``."""
        change = torque - last
        share = _share(self._rate * dt, change)
        if share == 1.0:
            return torque
        # The last torque lies outside of limits that have just been lowered.
        return (last + share * change).clip(-self._largest, self._largest)


def _share(room: Array, wanted: Array) -> float:
    """The largest share of ``wanted``, at most 1, that every joint has room for."""
    over = np.abs(wanted) > room
    return float((room[over] / np.abs(wanted[over])).min()) if over.any() else 1.0
