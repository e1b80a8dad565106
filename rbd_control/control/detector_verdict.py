"""What the contact detector said, and how old it is."""

from __future__ import annotations

from math import hypot, inf, isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

VERDICT_TIMEOUT = 0.5
"""Age at which a verdict ends [s].

A contact detector repeats a valid verdict at 50 Hz, so silence for this long is no delay.
"""

FORCE_AGE = 0.1
"""Age up to which an estimate of the contact force tells where to retract to [s]."""


class ContactForce(NamedTuple):
    """An estimate of the contact force."""

    link: str
    """The touched link."""
    force: Array
    """(3,) force on it, in world axes [N]."""
    stamp: float
    """Time of the joint state at which it came [s]."""


class DetectorVerdict:
    """The last verdict of a contact detector; it ends after VERDICT_TIMEOUT of silence."""

    def __init__(self) -> None:
        self._flag = False
        self._heard = -inf
        self._force: ContactForce | None = None

    def hear(self, flag: bool, now: float) -> bool:
        """Take a verdict; return whether a contact begins with it.

        Args:
            flag: whether there is contact.
            now: time on the steady clock [s].
        """
        begins = flag and not self.contact(now)
        self._flag, self._heard = flag, now
        return begins

    def feel(self, link: str, force: Array, stamp: float) -> None:
        """Take an estimate of the force on a link; a force without direction is ignored.

        Args:
            link: the touched link.
            force: (3,) force on it, in world axes [N].
            stamp: time of the last joint state [s].
        """
        if np.shape(force) == (3,) and 0.0 < hypot(*force) < inf:
            self._force = ContactForce(link, np.array(force, dtype=float), stamp)

    def forget_force(self) -> None:
        """Forget the estimate of the force, as its stamp means nothing any more."""
        self._force = None

    def force(self, stamp: float, oldest: float) -> ContactForce | None:
        """Return the last estimate of the force unless it is older than ``oldest`` [s]."""
        if self._force is None or stamp - self._force.stamp > oldest:
            return None
        return self._force

    def age(self, now: float) -> float:
        """Return the age of the last verdict [s]; infinite before the first."""
        return now - self._heard if isfinite(self._heard) else inf

    def fresh(self, now: float) -> bool:
        """Return whether there is a verdict that has not ended."""
        return self.age(now) <= VERDICT_TIMEOUT

    def missing(self, now: float) -> str:
        """Return since when there is no verdict, in words; empty while there is one."""
        age = self.age(now)
        if age <= VERDICT_TIMEOUT:
            return ""
        if isfinite(age):
            return f"no verdict about contact for {age:.1f} s"
        return "no contact detector was ever heard"

    def contact(self, now: float) -> bool:
        """Return whether the detector says that there is contact."""
        return self._flag and self.fresh(now)
