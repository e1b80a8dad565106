"""Detection of measured speeds above the speed of any controlled motion.

The reference velocity is bounded at 1.2 velocity limits. A light wrist that recoils from a
collision exceeds two velocity limits (the default of ``overspeed_factor``) for some milliseconds.
An arm that is released under load, or does not follow its commands, exceeds them for longer, which
is a fault. An oscillating joint is too fast intermittently; therefore time below the limit is
subtracted at a lower rate than time above it is added.
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
"""Share of the time below the limits that is subtracted from the time above them."""


class Overspeed:
    """Checks whether a joint of one arm is too fast for :data:`OVERSPEED_TIME`."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget the time above the limits."""
        self._time = 0.0

    def fault(self, dt: float, v: Array, limits: ArmLimits) -> str:
        """Process the velocities of a sample; return a message on overspeed, or an empty text.

        Overspeed means that joints have exceeded ``limits.overspeed`` for ``OVERSPEED_TIME``. The
        time is common to all joints, and falls at the rate ``FORGETTING`` while none exceeds its
        limit. A fault resets it.

        Args:
            dt: time since the last sample [s].
            v: (nv,) measured velocities [rad/s or m/s].
            limits: limits of the arm, of which ``limits.overspeed`` is used.
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
