"""The energy of an arm after a fault, and the energy that it may have.

The energy E of motion, and of springs, may grow after a fault by the work of people, by the work of
torque that was on its way to the motors at the fault, and by the work of gravity on an arm that
nothing holds:

    excess = E - E_fault - W_people - W_on_its_way - W_gravity

W_gravity is the work of gravity that no torque balances: the work of gravity, plus the work of the
drive's own compensation, plus the work of the part of each commanded torque that lies between zero
and the gravity torque of its joint.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.robots.kernel import COMMANDED, GRAVITY, PUSHED
from bench.robots.plant import Plant
from rbd_control.dynamics import gravity_torque


@dataclass(frozen=True)
class Reading:
    """Energy of motion and springs, potential energy in gravity, and works, of one moment [J]."""

    motion: float
    height: float
    commanded: float
    own_gravity: float
    people: float
    support: float = 0.0
    """Power of the commanded torque that balances gravity [W]."""

    @classmethod
    def of(cls, plant: Plant) -> Reading:
        """Return the present energies of a plant."""
        motion, height = plant.energies()
        work = plant.work
        support = 0.0
        if not plant.robot.compensates_gravity:
            weight = gravity_torque(plant.arm.model, plant.state.q)
            delivered = plant.failures.motor * plant.delivered
            balancing = np.clip(delivered, np.minimum(weight, 0.0), np.maximum(weight, 0.0))
            support = float(balancing @ plant.state.v)
        works = (float(work[COMMANDED]), float(work[GRAVITY]), float(work[PUSHED]))
        return cls(motion, height, *works, support)

    def gravity(self, before: Reading, dt: float) -> float:
        """Return the work since ``before``, ``dt`` ago [s], of gravity that nothing balances [J]."""
        own = self.own_gravity - before.own_gravity
        return before.height - self.height + own + 0.5 * dt * (self.support + before.support)


class EnergyAfterFault:
    """Compares the energy of an arm after a fault with the permitted energy; see the module.

    Args:
        fault: the energies at the fault.

    Attributes:
        start: the energies at the fault.
        excess: the largest excess so far [J].
        sunk: largest work of gravity that nothing balanced, so far [J].
    """

    def __init__(self, fault: Reading) -> None:
        self.start = self._last = fault
        self._on_its_way = True
        self._permitted = self._gravity = 0.0
        self.excess = self.sunk = 0.0

    def add(self, now: Reading, dt: float, *, has_arrived: bool) -> None:
        """Account for the time since the last call.

        Args:
            now: the present energies.
            dt: this time [s].
            has_arrived: whether the motors deliver the torque that was commanded after the fault.
        """
        last, self._last = self._last, now
        if self._on_its_way:
            self._permitted += now.commanded - last.commanded + last.height - now.height
            self._permitted += now.own_gravity - last.own_gravity
            self._on_its_way = not has_arrived
        else:
            self._gravity += now.gravity(last, dt)
            self.sunk = max(self.sunk, self._gravity)
        people = now.people - self.start.people
        permitted = self._permitted + self._gravity + people
        self.excess = max(self.excess, now.motion - self.start.motion - permitted)


def is_zero(torque: np.ndarray) -> bool:
    """Return whether a command is exactly zero."""
    return not torque.any()
