"""The energy of an arm after a fault, and the energy that it may have.

The energy E of motion, and of springs, may grow after a fault by the work of people, by the work of
torque that was on its way to the motors at the fault, and by the work of gravity on an arm that
nothing holds:

    excess = E - E_fault - W_people - W_on_its_way - W_gravity

While commands are zero, all work of gravity that the drive does not compensate counts, also if it
is negative. While the safe torque compensates gravity, the arm may sink, because motors may be too
weak or dead, but gravity does not excuse an arm that rises.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.robots.kernel import COMMANDED, GRAVITY, PUSHED
from bench.robots.plant import Plant


@dataclass(frozen=True)
class Reading:
    """Energy of motion and springs, potential energy in gravity, and works, of one moment [J]."""

    motion: float
    height: float
    commanded: float
    own_gravity: float
    people: float

    @classmethod
    def of(cls, plant: Plant) -> Reading:
        """Return the present energies of a plant."""
        motion, height = plant.energies()
        work = plant.work
        return cls(
            motion, height, float(work[COMMANDED]), float(work[GRAVITY]), float(work[PUSHED])
        )

    def gravity(self, before: Reading) -> float:
        """Return the work since ``before`` of gravity that the drive does not compensate [J]."""
        return (before.height - self.height) + (self.own_gravity - before.own_gravity)


class EnergyAfterFault:
    """Compares the energy of an arm after a fault with the permitted energy; see the module.

    Args:
        fault: the energies at the fault.

    Attributes:
        start: the energies at the fault.
        excess: the largest excess so far [J].
    """

    def __init__(self, fault: Reading) -> None:
        self.start = self._last = fault
        self._on_its_way = True
        self._permitted = 0.0
        self._sunk = 0.0
        """Work of gravity while the safe torque was not zero [J]."""
        self.excess = 0.0

    def add(self, now: Reading, *, has_arrived: bool, is_zero: bool) -> None:
        """Account for the time since the last call.

        Args:
            now: the present energies.
            has_arrived: whether the motors deliver the torque that was commanded after the fault.
            is_zero: whether the command is zero.
        """
        last, self._last = self._last, now
        gravity = now.gravity(last)
        if self._on_its_way:
            self._permitted += now.commanded - last.commanded + gravity
            self._on_its_way = not has_arrived
        elif is_zero:
            self._permitted += gravity
        else:
            self._sunk += gravity
        people = now.people - self.start.people
        permitted = self._permitted + max(self._sunk, 0.0) + people
        self.excess = max(self.excess, now.motion - self.start.motion - permitted)


def is_zero(torque: np.ndarray) -> bool:
    """Return whether a command is exactly zero."""
    return not torque.any()
