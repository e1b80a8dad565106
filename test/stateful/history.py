"""History of a simulated arm under the controller, with one row for each period."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MODES = ("safe", "hold", "follow", "float")
SAFE, HOLD, FOLLOW, FLOAT = range(len(MODES))

NUMBERS = (
    "time",  # steady time [s]
    "stamp",  # of the joint state [s]; of the last one while there is none
    "mode",  # index into MODES
    "saturated",  # whether the command said so
    "rate_limited",  # likewise
    "unusable",  # successive joint states that no controller may use; -1: it may refuse this one
    "frozen",  # time for which joint states have repeated exactly [s]
    "silent",  # time since the last joint state [s]
    "elapsed",  # time on the stamps since the last usable joint state [s]
    "entry",  # row since which the mode is of the same kind and nothing disturbs; see RigState
    "disturbed",  # whether something disturbs in this row
    "stopping",  # time since an order to stop that still holds [s]; -1 for none
    "brake",  # share of its rate that the brake of mode safe uses
    "energy",  # kinetic energy of the arm, and energy of its springs [J]
    "given",  # work in the period before that the brake of mode safe is not responsible for [J]
)
VECTORS = (
    "q",  # true position [rad or m]
    "v",  # true velocity [rad/s or m/s]
    "seen_q",  # what the controller was shown
    "seen_v",
    "torque",  # on the wire until the next row [N·m or N]
    "q_d",  # desired
    "v_d",
)
_FIRST_ROWS = 4096


class History:
    """Rows of numbers and vectors, see :data:`NUMBERS` and :data:`VECTORS`."""

    def __init__(self, joints: int) -> None:
        self.rows = 0
        self.numbers = np.empty((_FIRST_ROWS, len(NUMBERS)))
        self.vectors = np.empty((_FIRST_ROWS, len(VECTORS), joints))
        self.reasons: list[str] = []
        self.goals: list[str] = []

    def add(
        self, numbers: tuple[float, ...], vectors: tuple[Array, ...], reason: str, goal: str
    ) -> None:
        """Append a row."""
        k = self.rows
        if k == len(self.numbers):
            self.numbers = np.concatenate((self.numbers, np.empty_like(self.numbers)))
            self.vectors = np.concatenate((self.vectors, np.empty_like(self.vectors)))
        self.numbers[k] = numbers
        row = self.vectors[k]
        for i, vector in enumerate(vectors):
            row[i] = vector
        self.reasons.append(reason)
        self.goals.append(goal)
        self.rows = k + 1

    def column(self, name: str, first: int = 0) -> Array:
        """Return the column ``name`` from row ``first`` on, (rows,) or (rows, n)."""
        if name in NUMBERS:
            return self.numbers[first : self.rows, NUMBERS.index(name)]
        return self.vectors[first : self.rows, VECTORS.index(name)]


class Stretch:
    """The rows of one rule, and the one before; the columns of the history are attributes."""

    def __init__(self, rig: Any, first: int) -> None:
        self.rig = rig
        self.first = max(first - 1, 0)
        for name in (*NUMBERS, *VECTORS):
            setattr(self, name, rig.history.column(name, self.first))

    def __getattr__(self, name: str) -> Array:
        raise AttributeError(name)  # tells a type checker that columns are attributes
