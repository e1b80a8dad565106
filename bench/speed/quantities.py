"""Quantities that are timed, and libraries that compute them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

Results = tuple[np.ndarray, ...]


class Quantity(Enum):
    """Quantity of the dynamics that is computed at one state; the value is its name in tables."""

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
    """Library that computes a quantity, and how it is called; the value is a heading in tables."""

    PLAIN = "ours\nPython"
    BATCH = "ours\nbatch"
    FROZEN = "frozen\nPython"
    LOOP = "frozen\nloop"
    FROZEN_BATCH = "frozen\nbatch"
    LIMIT = "limit of\none core"
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
    """Function that computes the quantity at as many successive states as its argument says, and
    returns the time [s]."""
    result: Callable[[], Results]
    """Function that returns the result at the first state, in our order of joints; empty if the
    library has no comparable result."""


@dataclass(frozen=True)
class States:
    """States, one per row; the order of joints is that of the library that uses them."""

    q: np.ndarray
    v: np.ndarray
    x: np.ndarray
    """Acceleration, torque or reference velocity, depending on the quantity."""
    y: np.ndarray
    """Reference acceleration."""

    def inputs(self, quantity: Quantity) -> tuple[np.ndarray, ...]:
        """Return the arguments of the function for ``quantity``, one state per row."""
        if quantity in (Quantity.MASS, Quantity.CHRISTOFFEL, Quantity.GDAHJ):
            return (self.q,)
        if quantity in (Quantity.CORIOLIS, Quantity.TERMS):
            return (self.q, self.v)
        if quantity is Quantity.SLOTINE_LI:
            return (self.q, self.v, self.x, self.y)
        return (self.q, self.v, self.x)
