"""An interrupted trajectory, and the position of the arm from which it may continue."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.motion import Place
from rbd_control.control.trajectory import START_TOLERANCE
from rbd_control.errors import TrajectoryError

Array = NDArray[np.float64]


class Interruption:
    """The interruption of a trajectory by a hold.

    The trajectory may continue while the arm is at the position where it came to rest after the
    interruption. The first retreat from there moves this position. A later contact does not: it may
    move the arm, and the end of the desired motion with it, so that both are checked.

    Args:
        place: where the trajectory was interrupted.
        rest: (nv,) where the arm comes to rest [rad or m].

    Attributes:
        place: where the trajectory was interrupted.
    """

    def __init__(self, place: Place, rest: Array) -> None:
        self.place = place
        self._rest = rest
        self._has_retreated = False

    def retreated(self, start: Array, end: Array) -> None:
        """Note a retreat from ``start`` to ``end``, (nv,) [rad or m].

        The first retreat moves the position of rest if it begins there.
        """
        if not self._has_retreated and np.abs(start - self._rest).max() <= START_TOLERANCE:
            self._rest = end
        self._has_retreated = True

    def require_near(self, q: Array, end: Array) -> None:
        """Raise an error if the arm is not where its motion ended and where it came to rest.

        Args:
            q: (nv,) measured position [rad or m].
            end: (nv,) end of the present desired motion [rad or m].

        Raises:
            TrajectoryError: naming the distance.
        """
        away = float(np.abs(q - np.array([end, self._rest])).max())
        if away > START_TOLERANCE:
            raise TrajectoryError(f"the arm is {away:.3g} away from where it stopped")
