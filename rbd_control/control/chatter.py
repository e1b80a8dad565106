"""Detection of an unstable control loop by motor torque that oscillates.

Gains that are too high for the delay of the loop or the rate of the joint states, a wrong model, or
an inertia that the adaptive law has learned in a collision can make the loop unstable. The limits
of the torque and of its rate bound the oscillation, which then lasts: the joint shakes with all the
torque that the limits permit. The delay determines the frequency, mostly 6 to 40 Hz.

The criterion is :data:`SWINGS` successive large swings within :data:`WITHIN`. A swing leads from
one reversal of the torque to the next. It is large if it exceeds the torque limit of the joint from
peak to peak, or :data:`RATE_SHARE` of what ``torque_rate`` permits in its time. The following do
not count:

- Slow swings: a person who guides or shakes the arm reverses the torque at less than 5 Hz.
- The part of a swing that the desired acceleration demands, as of a back-and-forth trajectory. The
  range of the demand over two swings is subtracted, because the torque may lag behind it.
- Noise: its swings are shorter than :data:`SHORTEST`, in which it would need most of the rate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.kernels import Swings, swinging

Array = NDArray[np.float64]

SWINGS = 8
"""Number of successive large swings in opposite directions that are a fault."""

WITHIN = 0.68
"""Time of :data:`SWINGS` swings below which they are a fault [s]: an oscillation above 5.9 Hz."""

RATE_SHARE = 0.8
"""Share of the rate limit above which the mean rate of a swing makes it large."""

SHORTEST = 0.01
"""Least time that is used for a swing in the comparison with the rate limit [s].

Full use of the rate is therefore noticed up to about 60 Hz. Faster swings must exceed the torque
that is reached in this time, or the torque limit, whichever is smaller.
"""


class Chatter:
    """Detects a motor torque that oscillates, on any joint of one arm.

    Args:
        joints: number of joints.
    """

    def __init__(self, joints: int) -> None:
        self._swings = Swings(
            peak=np.zeros(joints),
            at=np.zeros(joints),
            direction=np.ones(joints),
            start=np.zeros(joints),
            demanded=np.zeros((2, 2, joints)),
            times=np.empty((joints, SWINGS + 1)),
        )
        self.reset()

    def reset(self) -> None:
        """Forget all swings, for example after a change of the mode."""
        self._swings.times.fill(-np.inf)

    def fault(self, now: float, torque: Array, demanded: Array, limits: ArmLimits) -> str:
        """Return a message if the torque of a joint oscillates, otherwise an empty text.

        The module has the criterion. Call the method for each sample. After a message the recorded
        swings are discarded.

        Args:
            now: time of the torque on the steady clock [s].
            torque: (nv,) torque of the motors [N·m or N].
            demanded: (nv,) torque that the desired acceleration demands [N·m or N].
            limits: limits of the arm; ``torque`` and ``torque_rate`` are used.
        """
        j = swinging(
            torque,
            demanded,
            now,
            limits.torque,
            RATE_SHARE * limits.torque_rate,
            SHORTEST,
            WITHIN,
            self._swings,
        )
        if j < 0:
            return ""
        times = self._swings.times[j]
        time = float(times[-1] - times[0])
        self.reset()
        return (
            f"the torque of {limits.joint_names[j]} swung {SWINGS} times within {time:.2g} s by "
            f"more than {limits.torque[j]:.4g}, or {RATE_SHARE:.0%} of what torque_rate permits: "
            f"bandwidth, damping or damping_rate is too high for the delay of the loop or the rate "
            f"of the joint states, or the model is wrong"
        )
