"""Detection of an unstable control loop by motor torque that swings to and fro.

Gains that are too high for the rate of the joint states, a wrong model, or an inertia that the
adaptive law has learned in a collision can make the loop unstable. The torque limits bound the
oscillation, which then lasts: the joint shakes with full torque. People, payloads and contacts
reverse torques at some 10 Hz at most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.kernels import swinging

Array = NDArray[np.float64]

SWINGS = 8
"""Number of successive swings in opposite directions, each by more than the torque limit."""

WITHIN = 0.2
"""Time from the first to the last swing below which they are a fault [s].

There are seven half periods from the first swing to the eighth: the oscillation is faster than
17.5 Hz.
"""


class Chatter:
    """Detects a motor torque that swings to and fro, on any joint of one arm.

    Args:
        joints: number of joints.
    """

    def __init__(self, joints: int) -> None:
        self._extreme, self._direction = np.zeros(joints), np.ones(joints)
        self._times = np.empty((joints, SWINGS))
        self.reset()

    def reset(self) -> None:
        """Forget all swings, for example after a change of the mode."""
        self._times.fill(-np.inf)

    def fault(self, now: float, torque: Array, limits: ArmLimits) -> str:
        """Return a message if the torque of a joint swings to and fro, otherwise an empty text.

        The criterion is :data:`SWINGS` swings, each by more than the torque limit of the joint,
        within :data:`WITHIN`. Call the method for each sample. After a message the recorded swings
        are discarded.

        Args:
            now: time of the torque on the steady clock [s].
            torque: (nv,) torque of the motors [N·m or N].
            limits: limits of the arm, of which ``limits.torque`` is used.
        """
        j = swinging(
            torque, limits.torque, now, WITHIN, self._extreme, self._direction, self._times
        )
        if j < 0:
            return ""
        time = now - self._times[j, 0]
        self.reset()
        return (
            f"the torque of {limits.joint_names[j]} swung {SWINGS} times by more than "
            f"{limits.torque[j]:.4g} within {time:.2g} s: bandwidth, damping or damping_rate is "
            f"too high for the rate of the joint states, or the model is wrong"
        )
