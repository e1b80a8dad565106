"""The check that the motors of an arm can hold its weight."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError

Array = NDArray[np.float64]


def excess_weight(model: Model, q: Array, limit: Array) -> Array:
    """Return by how much the gravity torque of each joint exceeds its limit, or zero.

    Args:
        model: the arm with its payload.
        q: joint positions, (nq,) [rad or m].
        limit: largest torque of each joint, (nv,) [N·m or N]; infinite, or zero and below, for a
            joint without limit.

    Returns:
        (nv,) [N·m or N].
    """
    excess = np.maximum(np.abs(gravity_torque(model, q)) - limit, 0.0)
    return np.where(limit > 0.0, excess, 0.0)


def require_weight(model: Model, q: Array, limit: Array, accepted: Array | float = 0.0) -> None:
    """Raise an error if the gravity torque of a joint exceeds its limit.

    Args:
        model, q, limit: as of :func:`excess_weight`.
        accepted: excess that is no error, (nv,) [N·m or N].

    Raises:
        InputError: naming the first such joint, its gravity torque and its limit.
    """
    weight, excess = gravity_torque(model, q), excess_weight(model, q, limit)
    for i in np.flatnonzero(excess > accepted)[:1]:
        raise InputError(
            f"too heavy: {model.joint_names[i]} cannot hold the arm here: gravity torque "
            f"{abs(weight[i]):.3g}, limit {limit[i]:.3g} N·m or N"
        )
