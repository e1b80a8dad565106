"""State of one arm at one instant for the page, and its residuals of the last seconds."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rbd_control.estimation import ContactEvent

Array = NDArray[np.float64]
Verdict = Literal["contact", "collision", "free", "no verdict"]

WINDOW = 10.0
"""Time span of the chart of residuals [s]."""


@dataclass(frozen=True, eq=False)
class Touch:
    """A contact at an instant while it lasts.

    Attributes:
        link: the link that was most probably touched; empty if it is unknown.
        probabilities: probability of each link that may have been touched, by name, in [0, 1].
        force: force of the environment on the arm, (3,) world axes [N]; None if not observable.
        point: contact point, (3,) world axes [m]; None if not observable.
    """

    link: str
    probabilities: dict[str, float]
    force: Array | None
    point: Array | None


@dataclass(frozen=True, eq=False)
class ArmState:
    """State of one arm at one instant; unknown values are None, NaN or empty.

    Attributes:
        time: time of the state [s]: since the first sample of a recording, or since the creation
            of the source of a live arm.
        q: joint positions in the order of the model, (nq,) [rad or m]; None before the first joint
            state.
        verdict: the detector's verdict.
        touch: the present contact; None without contact.
        joints: names of the joints in ``ratios``.
        ratios: residual (estimated external torque) of each of ``joints`` divided by its threshold,
            signed, (n,); None if it is unknown.
        events: the latest event (onset or release) of each contact, the oldest contact first; for a
            recording all its contacts, including contacts after ``time``.
        current: index in ``events`` of the present contact; -1 without contact.
        mode: mode of the controller; empty if it is unknown.
        tracking_error: largest absolute position error of a joint [rad or m]; NaN if it is unknown.
        storage: energy stored in tracking errors [J]; NaN if it is unknown.
        tank: level of the controller's energy tank [J]; NaN if it is unknown.
        notice: message for the user about missing, silent or doubtful data; empty without problem.
    """

    time: float
    q: Array | None = None
    verdict: Verdict = "no verdict"
    touch: Touch | None = None
    joints: tuple[str, ...] = ()
    ratios: Array | None = None
    events: tuple[ContactEvent, ...] = ()
    current: int = -1
    mode: str = ""
    tracking_error: float = math.nan
    storage: float = math.nan
    tank: float = math.nan
    notice: str = ""


def probabilities(event: ContactEvent) -> dict[str, float]:
    """Return the probability of each candidate link of an event, by name, in [0, 1].

    The event contains the probability of its link only (``confidence``). The remainder is divided
    equally among the other candidates, so the last candidates may be less probable than shown. If
    the confidence is unknown, all candidates are equally probable. If the event names no link, the
    result is empty.
    """
    others = [link for link in event.candidates if link != event.link]
    if not event.link:
        return {}
    if not others:
        return {event.link: 1.0}
    first = event.confidence if 0.0 <= event.confidence <= 1.0 else 1.0 / (1 + len(others))
    return {event.link: first, **dict.fromkeys(others, (1.0 - first) / len(others))}


class ResidualHistory:
    """Ratios of residual to threshold in the last seconds, for the chart.

    Args:
        window: length of the stored history [s].

    Attributes:
        joints: names of the joints in the history; empty before the first call of :meth:`add`.
    """

    def __init__(self, window: float = WINDOW) -> None:
        self._window = window
        self._rows: deque[tuple[float, Array]] = deque()
        self.joints: tuple[str, ...] = ()

    def add(self, time: float, joints: Sequence[str], ratios: Array) -> None:
        """Add ratios of residual to threshold at one time.

        If the joints change or the time goes back, a new history begins.

        Args:
            time: time of the residuals [s], on any clock.
            joints: names of the n joints.
            ratios: ratio of each joint, (n,), signed.
        """
        if tuple(joints) != self.joints or (self._rows and time < self._rows[-1][0]):
            self._rows.clear()
            self.joints = tuple(joints)
        self._rows.append((time, ratios))
        while self._rows[0][0] < time - self._window:
            self._rows.popleft()

    def series(self) -> tuple[Array, Array]:
        """Return the stored times, (k,) [s], and ratios, (k, n); k is 0 for an empty history."""
        if not self._rows:
            return np.zeros(0), np.zeros((0, len(self.joints)))
        times, rows = zip(*self._rows, strict=True)
        return np.array(times), np.array(rows)
