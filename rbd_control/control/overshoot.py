"""Detection of a brake that overshoots because it comes late.

Under the brake of mode safe the velocity of a joint decays without a reversal. In a loop whose
delay is too long for the rate of the brake, the joint overshoots: it reverses, and moves back with
a large part of the kinetic energy that the arm had before. The brake must then be weaker. A light
joint that swings on its spring, or that a heavy one pulls along in a fast motion, reverses as well,
but has a small part of the energy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics.compiled import compiled

Array = NDArray[np.float64]

OVERSHOOT = 0.1
"""Kinetic energy ``M_ii v_i² / 2`` of a joint after a reversal that is an overshoot, as a share of
the largest kinetic energy of the arm under the brake before. If no other joint moves, it is a third
of the speed."""

MEMORY = 0.1
"""Time constant with which the largest kinetic energy is forgotten [s]."""

SLOWEST = 0.1
"""Least speed that counts as an overshoot [rad/s or m/s]; noise and resonances are slower."""


class Overshoot:
    """Detects overshoots of any joint of one arm, by the rule of this module.

    Args:
        joints: number of joints.
    """

    def __init__(self, joints: int) -> None:
        self._memory, self._most = np.zeros((2, joints)), np.zeros(1)

    def reset(self) -> None:
        """Forget all motion, before the brake begins."""
        self._memory[:] = 0.0
        self._most[:] = 0.0

    def found(self, dt: float, M: Array, v: Array) -> bool:
        """Take a sample; return whether a joint overshoots. Each reversal of a joint counts once.

        Args:
            dt: time since the previous sample [s].
            M: mass matrix, (nv, nv) [kg·m² or kg].
            v: (nv,) filtered velocities of the brake [rad/s or m/s].
        """
        self._most *= np.exp(-dt / MEMORY)
        return bool(overshoots(M, v, self._memory, self._most))


@compiled
def overshoots(M, v, memory, most):  # type: ignore[no-untyped-def]
    """Return whether a joint overshoots, see :class:`Overshoot`.

    Args:
        M: mass matrix, (n, n) [kg·m² or kg].
        v: velocities, (n,) [rad/s or m/s].
        memory: (2, n), changed in place: the last velocity that was not slow; 1 if the joint has
            reversed and this was not reported.
        most: (1,), changed in place: largest kinetic energy of the arm [J].
    """
    n, found, energy = v.shape[0], False, 0.0
    for i in range(n):
        for j in range(n):
            energy += 0.5 * v[i] * M[i, j] * v[j]
    most[0] = max(most[0], energy)
    for i in range(n):
        if abs(v[i]) > 0.5 * SLOWEST:
            if v[i] * memory[0, i] < 0.0:
                memory[1, i] = 1.0
            memory[0, i] = v[i]
        returned = 0.5 * M[i, i] * v[i] * v[i]
        if memory[1, i] == 1.0 and abs(v[i]) > SLOWEST and returned > OVERSHOOT * most[0]:
            memory[1, i] = 0.0
            found = True
    return found
