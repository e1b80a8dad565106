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
    interruption. The first retreat from this position replaces it by the end of the retreat. A
    later contact does not change it, but may move the arm, and the end of the desired motion with
    it. Therefore the arm must be near both: this position and the end of the desired motion.

    Args:
        place: the interrupted trajectory, and the time on it at the interruption.
        rest: (nv,) position at which the arm comes to rest [rad or m].

    Attributes:
        place: as the argument.
    """

    def __init__(self, place: Place, rest: Array) -> None:
        self.place = place
        self._rest = rest
        self._has_retreated = False

    def retreated(self, start: Array, end: Array) -> None:
        """Note a retreat from ``start`` to ``end``, (nv,) each [rad or m].

        The first retreat moves the position of rest to ``end``, if ``start`` is within
        ``START_TOLERANCE`` (0.05 rad or m) of the position of rest on every joint.
        """
        if not self._has_retreated and np.abs(start - self._rest).max() <= START_TOLERANCE:
            self._rest = end
        self._has_retreated = True

    def require_near(self, q: Array, end: Array) -> None:
        """Raise an error unless the arm is near the end of its motion and its position of rest.

        Near means within ``START_TOLERANCE`` (0.05 rad or m) on every joint.

        Args:
            q: (nv,) measured position [rad or m].
            end: (nv,) end of the present desired motion [rad or m].

        Raises:
            TrajectoryError: naming the largest distance of a joint.
        """
        away = float(np.abs(q - np.array([end, self._rest])).max())
        if away > START_TOLERANCE:
            raise TrajectoryError(
                f"the arm is {away:.3g} rad or m from the position where it stopped; at most "
                f"{START_TOLERANCE:g} is permitted"
            )
