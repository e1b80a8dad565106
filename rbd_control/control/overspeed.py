"""Measured speeds that no controlled motion has.

The reference is bounded at 1.2 velocity limits. A light wrist that recoils from a collision exceeds
two of them for some milliseconds; an arm that comes free under load, or that does not obey, for
longer. The latter is a fault.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.kernels import first_above

Array = NDArray[np.float64]

OVERSPEED_TIME = 0.02
"""Time for which a joint may exceed its overspeed limit without a fault [s]."""


class Overspeed:
    """Watches the measured speed of one arm."""

    def __init__(self) -> None:
        self._since = inf

    def fault(self, stamp: float, v: Array, limits: ArmLimits) -> str:
        """Return which joint has been too fast for too long, or an empty text.

        Args:
            stamp: time of the sample [s].
            v: (nv,) measured velocities [rad/s or m/s].
            limits: of the arm; the overspeed limit is used.
        """
        j = first_above(v, limits.overspeed)
        if j < 0 or stamp < self._since:
            self._since = inf if j < 0 else stamp
            return ""
        if stamp - self._since < OVERSPEED_TIME:
            return ""
        return (
            f"{limits.joint_names[j]} at {v[j]:.4g} is too fast: above {limits.overspeed[j]:.4g} "
            f"for {stamp - self._since:.3g} s"
        )
