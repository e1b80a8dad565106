"""Measured speeds that no controlled motion has.

The reference is bounded at 1.2 velocity limits. A light wrist that recoils from a collision exceeds
two of them for some milliseconds; an arm that comes free under load, or that does not obey, for
longer. The latter is a fault. A joint that rings is too fast again and again: time below the limit
is forgotten more slowly than time above it counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.kernels import first_above

Array = NDArray[np.float64]

OVERSPEED_TIME = 0.02
"""Time for which a joint may exceed its overspeed limit without a fault [s]."""

FORGETTING = 0.25
"""Share of the time below the limits that is taken off the time above them."""


class Overspeed:
    """Watches the measured speed of one arm."""

    def __init__(self) -> None:
        self._time = 0.0

    def fault(self, dt: float, v: Array, limits: ArmLimits) -> str:
        """Return which joint has been too fast for too long, or an empty text.

        Args:
            dt: time since the last sample [s].
            v: (nv,) measured velocities [rad/s or m/s].
            limits: of the arm; the overspeed limit is used.
        """
        j = first_above(v, limits.overspeed)
        if j < 0:
            self._time = max(self._time - FORGETTING * dt, 0.0)
            return ""
        self._time += dt
        if self._time < OVERSPEED_TIME:
            return ""
        time, self._time = self._time, 0.0
        return (
            f"{limits.joint_names[j]} at {v[j]:.4g} is too fast: above {limits.overspeed[j]:.4g} "
            f"for {time:.3g} s"
        )
