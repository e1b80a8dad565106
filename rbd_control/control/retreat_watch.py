"""Supervision of a retreat: it must end the contact, not press against something else.

The place and the direction of a contact are estimates, and behind the arm may be another obstacle.
A retreat that does not move the link away presses with the stiffness of the law, and so would the
hold at its end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.detector_verdict import DetectorVerdict

Array = NDArray[np.float64]

PATIENCE = 0.5
"""Time from the begin of a retreat until which the contact must have ended [s].

A detector lowers its flag when the residual has decayed and stayed low, by default after 0.2 s.
"""

LAG = 0.2
"""Share of the whole way by which the arm may lag behind the retreat while the contact lasts.

On the shipped arm a free retreat lags by up to 0.12 with a friction of 0.9 N·m on each joint that
nothing compensates.
"""


class RetreatWatch:
    """Watches one retreat at a time, from its begin to its end, and for :data:`PATIENCE` at least.

    Args:
        verdict: the verdict of the contact detector.
    """

    def __init__(self, verdict: DetectorVerdict) -> None:
        self._verdict = verdict
        self._until: float | None = None
        self._way = np.zeros(0)
        self._listens = False

    @property
    def watches(self) -> bool:
        """Whether a retreat is being watched."""
        return self._until is not None

    def begin(self, stamp: float, now: float, way: Array) -> None:
        """Watch a retreat from now on.

        Args:
            stamp: stamp of the last joint state [s].
            now: its arrival on the steady clock [s].
            way: displacement of the joints by the whole retreat, (nv,) [rad or m].
        """
        self._until, self._way = stamp + PATIENCE, way
        self._listens = self._verdict.fresh(now)

    def end(self) -> None:
        """Watch no longer: another motion or another mode has taken the place of the retreat."""
        self._until = None

    def finds(self, stamp: float, now: float, lag: Array, moves: bool) -> str:
        """Return why the retreat must stop, or an empty text; a reason ends the supervision.

        It must stop if the detector still reports contact after :data:`PATIENCE`, or while the arm
        lags behind by more than :data:`LAG` of the way, and if a detector that was heard when the
        retreat began falls silent, because it is then unknown whether the contact has ended.

        Args:
            stamp: stamp of the last joint state [s].
            now: its arrival on the steady clock [s].
            lag: desired less measured position, (nv,) [rad or m].
            moves: whether the desired motion has not ended.
        """
        if self._until is None:
            return ""
        is_late, why = stamp >= self._until, ""
        if self._verdict.contact(now):
            if is_late:
                why = f"the contact has lasted for {PATIENCE:g} s"
            elif lag @ self._way > LAG * (self._way @ self._way):
                why = "the arm cannot move away"
        elif self._listens and not self._verdict.fresh(now):
            why = self._verdict.missing(now)
        if why or (is_late and not moves):
            self._until = None
        return why
