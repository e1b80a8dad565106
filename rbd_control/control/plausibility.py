"""Which joint states an arm can have."""

from __future__ import annotations

from math import isfinite

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.kernels import PLAUSIBLE, first_implausible

Array = NDArray[np.float64]


class Plausibility:
    """Tells joint states that an arm can have from those it cannot.

    Args:
        limits: of the arm; the plausible speed is used.
        jump: jump of position that is plausible at any speed [rad or m].
    """

    def __init__(self, limits: ArmLimits, jump: float) -> None:
        self._names = limits.joint_names
        self._fastest = limits.plausible_speed
        self._jump = jump

    def refusal(self, stamp: float, q: Array, v: Array, before: Array, elapsed: float) -> str:
        """Return why a sample cannot be used, or an empty text.

        Args:
            stamp: time of the sample [s].
            q, v: positions, unwrapped, and velocities, (nv,) each [rad or m, rad/s or m/s].
            before: positions of the last good sample, (nv,); ``q`` itself without one.
            elapsed: time since that sample [s].
        """
        found = first_implausible(q, v, before, self._fastest, self._jump, elapsed)
        if found == PLAUSIBLE and isfinite(stamp):
            return ""
        if found < 0:
            return "joint states are not finite"
        n = len(self._names)
        name, i = self._names[found % n], found % n
        if found < n:
            return (
                f"{name} at a speed of {v[i]:.4g} is implausible (at most {self._fastest[i]:.4g})"
            )
        return f"{name} jumped by {abs(q[i] - before[i]):.4g} in {elapsed:.3g} s"
