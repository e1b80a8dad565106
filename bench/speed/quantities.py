"""Timed quantities and the libraries that compute them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

Results = tuple[np.ndarray, ...]


class Quantity(Enum):
    """Quantity that is computed at one state."""

    MASS = "M"
    CORIOLIS = "C"
    TERMS = "M, C, Cᵀv, g"
    CHRISTOFFEL = "Γ"
    INVERSE = "RNEA"
    FORWARD = "ABA"
    ROTORS = "ABA with rotors"
    SLOTINE_LI = "Slotine-Li torque"
    GDAHJ = "M by GDAHJ"


class Column(Enum):
    """Library that computes a quantity, and language of the caller."""

    PLAIN = "ours\nPython"
    BATCH = "ours\nbatch"
    FROZEN = "frozen\nPython"
    LOOP = "frozen\nloop"
    PINOCCHIO = "Pinocchio\nPython"
    PINOCCHIO_CPP = "Pinocchio\nC++"
    MUJOCO = "MuJoCo\nPython"
    EXPORTED = "exported\nC"
    CASADI = "Pinocchio\nCasADi's C"
    DRAKE = "Drake\nPython"
    FRAX = "frax\nPython"
    FRAX_BATCH = "frax\nbatch"


@dataclass(frozen=True)
class Contestant:
    """A library for one quantity of one mechanism: one column of the table."""

    run: Callable[[int], float]
    """Computes the quantity a number of times, at successive states, and returns the time [s]."""
    result: Callable[[], Results]
    """Returns the result at the first state, in our order of joints."""


@dataclass(frozen=True)
class States:
    """States, one per row, in our order of joints."""

    q: np.ndarray
    v: np.ndarray
    x: np.ndarray
    """Acceleration, torque or reference velocity, depending on the quantity."""
    y: np.ndarray
    """Reference acceleration."""

    def inputs(self, quantity: Quantity) -> tuple[np.ndarray, ...]:
        """Return the arguments of ``quantity``, one state per row."""
        if quantity in (Quantity.MASS, Quantity.CHRISTOFFEL, Quantity.GDAHJ):
            return (self.q,)
        if quantity in (Quantity.CORIOLIS, Quantity.TERMS):
            return (self.q, self.v)
        if quantity is Quantity.SLOTINE_LI:
            return (self.q, self.v, self.x, self.y)
        return (self.q, self.v, self.x)
