"""The last verdict (contact or not) and force estimate of the contact detector, and their age."""

from __future__ import annotations

from math import hypot, inf, isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, frame_placement

Array = NDArray[np.float64]

VERDICT_TIMEOUT = 0.5
"""Age at which a verdict expires [s].

A contact detector repeats a valid verdict at 50 Hz, so a gap of this length means that the detector
is silent, not that one message is late.
"""

FORCE_AGE = 0.1
"""Age up to which a contact force gives the direction of a retraction and the touched link [s]."""

FORCE_WAIT = 0.02
"""Longest wait of a stopped arm for the force of a contact, which arrives after the flag [s]."""


class ContactForce(NamedTuple):
    """An estimate of the contact force."""

    link: str
    """The touched link."""
    force: Array
    """(3,) force on it, in world axes [N]."""
    stamp: float
    """Stamp of the last joint state when the estimate arrived [s]."""


class DetectorVerdict:
    """The last verdict of a contact detector; it expires after :data:`VERDICT_TIMEOUT`."""

    def __init__(self) -> None:
        self._flag = False
        self._heard = -inf
        self._force: ContactForce | None = None

    def update(self, flag: bool, now: float) -> bool:
        """Store a verdict; return whether a contact begins with it.

        A contact begins if ``flag`` is true, and the last verdict was false or has expired.

        Args:
            flag: whether the detector reports contact.
            now: time on the steady clock [s].
        """
        begins = flag and not self.contact(now)
        self._flag, self._heard = flag, now
        return begins

    def set_contact_force(
        self, model: Model, link: str, force: Array, stamp: float, here: Array | None = None
    ) -> None:
        """Store an estimate of the contact force on a link.

        A force that is zero, not finite or of another shape is ignored.

        Args:
            model: the arm.
            link: the touched link, which ``model`` has.
            force: (3,) force on it [N], in world axes or, with ``here``, along the link's axes.
            stamp: stamp of the last joint state [s].
            here: (nq,) positions at which the force is rotated to world axes [rad or m].
        """
        if _is_usable(force):
            if here is not None:
                force = frame_placement(model, here, link)[:3, :3] @ force
            self._force = ContactForce(link, np.array(force, dtype=float), stamp)

    def forget_force(self) -> None:
        """Discard the force estimate, for example after a jump of the clock of the stamps."""
        self._force = None

    def force(self, stamp: float, oldest: float) -> ContactForce | None:
        """Return the last force estimate, or None if there is none or it is too old.

        Args:
            stamp: time on the clock of the joint states to which the age refers [s]. An estimate
                that arrived after this time counts.
            oldest: largest age [s].
        """
        if self._force is None or stamp - self._force.stamp > oldest:
            return None
        return self._force

    def age(self, now: float) -> float:
        """Return the age of the last verdict at ``now`` [s]; infinite before the first verdict."""
        return now - self._heard if isfinite(self._heard) else inf

    def fresh(self, now: float) -> bool:
        """Return whether there is a verdict that has not expired at ``now`` [s]."""
        return self.age(now) <= VERDICT_TIMEOUT

    def missing(self, now: float) -> str:
        """Return a message if :meth:`fresh` is false at ``now`` [s], otherwise an empty text."""
        age = self.age(now)
        if age <= VERDICT_TIMEOUT:
            return ""
        if isfinite(age):
            return f"no verdict about contact for {age:.1f} s"
        return "no contact detector has published yet"

    def excludes_contact(self, now: float) -> bool:
        """Return whether an adaptive law may assume that there is no contact at ``now`` [s].

        True if the last verdict has not expired and reports no contact, and if no verdict has ever
        arrived (an arm without a detector). False during a contact, and after the last verdict has
        expired.
        """
        return not (self._flag if self.fresh(now) else isfinite(self._heard))

    def contact(self, now: float) -> bool:
        """Return whether the last verdict reports contact and has not expired at ``now`` [s]."""
        return self._flag and self.fresh(now)


def _is_usable(force: Array) -> bool:
    return np.shape(force) == (3,) and 0.0 < hypot(*force) < inf
