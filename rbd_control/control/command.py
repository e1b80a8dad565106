"""What the controller answers to a joint state."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mode = Literal["hold", "follow", "float", "safe"]
Goal = Literal["none", "moving", "paused", "reached", "missed", "aborted", "cancelled"]


class Command(NamedTuple):
    """What to send, and what to say about it."""

    torque: Array
    """(nv,) [N·m or N]; finite and within the limits, always."""
    q_d: Array
    """(nv,) desired position; the measured one in modes without."""
    v_d: Array
    """(nv,) desired velocity; the measured one in modes without."""
    mode: Mode
    saturated: bool
    """The torque was made smaller to keep the limits."""
    rate_limited: bool
    """The torque was slowed down to keep the largest rate of change."""
    goal: Goal
    """What became of the last trajectory."""
    reason: str
    """Why the mode is not the one asked for, or the sample was not used; else empty."""
