"""Detection of a brake that overshoots because it comes late.

Under the brake of mode safe the velocity of a joint decays without a reversal. In a loop whose
delay is too long for the rate of the brake, the joint overshoots: it reverses, and moves back with
a large part of its former speed. The brake must then be weaker.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics.compiled import compiled

Array = NDArray[np.float64]

OVERSHOOT = 0.3
"""Speed after a reversal, as a share of the largest speed before it, that is an overshoot."""

SLOWEST = 0.1
"""Least speed that counts as an overshoot [rad/s or m/s]; noise and resonances are slower."""


class Overshoot:
    """Detects overshoots of any joint of one arm, by the rule of this module.

    Args:
        joints: number of joints.
    """

    def __init__(self, joints: int) -> None:
        self._memory = np.zeros((3, joints))

    def reset(self) -> None:
        """Forget all motion, before the brake begins."""
        self._memory[:] = 0.0

    def found(self, v: Array) -> bool:
        """Take the velocities of a sample, (nv,) [rad/s or m/s]; return whether one overshoots.

        Each reversal of a joint counts once.
        """
        return bool(overshoots(v, self._memory))


@compiled
def overshoots(v, memory):  # type: ignore[no-untyped-def]
    """Return whether a joint overshoots, see :class:`Overshoot`.

    Args:
        v: velocities, (n,) [rad/s or m/s].
        memory: (3, n), changed in place: largest speed since the last reversal, with its sign; the
            same before the last reversal; 1 if this reversal was reported.
    """
    found = False
    for i in range(v.shape[0]):
        if v[i] * memory[0, i] < 0.0 and abs(v[i]) > 0.5 * SLOWEST:
            memory[1, i], memory[0, i], memory[2, i] = memory[0, i], v[i], 0.0
        elif abs(v[i]) > abs(memory[0, i]):
            memory[0, i] = v[i]
        is_large = abs(memory[0, i]) > max(SLOWEST, OVERSHOOT * abs(memory[1, i]))
        if is_large and memory[1, i] != 0.0 and memory[2, i] == 0.0:
            memory[2, i] = 1.0
            found = True
    return found
