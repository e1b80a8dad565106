"""The check that the motors of an arm can hold its weight."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError

Array = NDArray[np.float64]


def require_weight(model: Model, q: Array, limit: Array) -> None:
    """Raise an error if the gravity torque of a joint exceeds its limit.

    Args:
        model: the arm with its payload.
        q: joint positions, (nq,) [rad or m].
        limit: largest torque of each joint, (nv,) [N·m or N]; infinite, or zero and below, for a
            joint without limit.

    Raises:
        InputError: naming the first such joint, its gravity torque and its limit.
    """
    weight = gravity_torque(model, q)
    for i in np.flatnonzero((np.abs(weight) > limit) & (limit > 0.0))[:1]:
        raise InputError(
            f"too heavy: {model.joint_names[i]} cannot hold the arm here: gravity torque "
            f"{abs(weight[i]):.3g}, limit {limit[i]:.3g} N·m or N"
        )
