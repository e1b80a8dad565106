"""Check that the motors of an arm can hold its weight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rbd_control.errors import InputError

Array = NDArray[np.float64]


def needed_share(weight: Array, limit: Array) -> Array:
    """Return ``|weight| / limit``: the share of its limit that each joint needs to hold the arm.

    Args:
        weight: gravity torque, (..., nv) [N·m or N].
        limit: largest torque of each joint, (nv,) [N·m or N]; infinite, or zero and below, for a
            joint without limit.

    Returns:
        The shares, (..., nv); above 1 if the joint is too weak, zero for a joint without limit.
    """
    limited = limit > 0.0
    return np.where(limited, np.abs(weight) / np.where(limited, limit, 1.0), 0.0)


def require_weight(
    names: Sequence[str],
    weight: Array,
    limit: Array,
    accepted: Array | float = 1.0,
    place: str = "here",
) -> None:
    """Raise an error if the gravity torque of a joint exceeds its limit.

    Args:
        names: names of the joints, nv of them.
        weight, limit: gravity torques and torque limits, as for :func:`needed_share`.
        accepted: largest accepted share of the limit, (nv,) or one for all; a value below 1 counts
            as 1. With the share of the present payload, a joint that is overloaded already is
            accepted if its share does not grow.
        place: words for the pose in the message, such as ``at the last point``.

    Raises:
        InputError: naming the first joint that is too weak, its gravity torque and its limit.
    """
    share = needed_share(weight, limit)
    for i in np.flatnonzero(share > np.maximum(accepted, 1.0))[:1]:
        raise InputError(
            f"too heavy: {names[i]} cannot hold the arm {place}: gravity torque "
            f"{abs(weight[i]):.3g}, limit {limit[i]:.3g} N·m or N"
        )
