"""The onset of a contact, for tests of its messages and pictures."""

from __future__ import annotations

import numpy as np

from rbd_control.estimation import ContactEvent

EVENT = ContactEvent(
    id=3,
    phase="onset",
    level="contact",
    onset=9.0,
    onset_uncertainty=0.002,
    detected=9.012,
    release=None,
    joint="elbow",
    link="forearm",
    peak_torque=8.0,
    force=np.array([0.0, 3.0, -4.0]),
)
