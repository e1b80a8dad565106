"""Detection of torque that swings to and fro: a control loop that is not stable.

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
"""Number of swings in opposite directions, each by the joint's torque limit or more."""

WITHIN = 0.2
"""Longest time in which these swings are a fault [s]: they are then faster than 20 Hz."""


class Chatter:
    """Watches the torque of one arm for swings.

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

        Args:
            now: time of the torque on the steady clock [s].
            torque: (nv,) torque of the motors [N·m or N].
            limits: limits of the arm; the largest torque is used.
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
