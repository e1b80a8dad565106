"""The answer of the controller to a joint state."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mode = Literal["hold", "follow", "float", "safe"]
Goal = Literal["none", "moving", "paused", "reached", "missed", "aborted", "cancelled"]


class Command(NamedTuple):
    """The torque command of one sample, with the state of the controller."""

    torque: Array
    """(nv,) torque command [N·m or N]; always finite and within the limits."""
    q_d: Array
    """(nv,) desired position [rad or m]; the measured position in modes float and safe."""
    v_d: Array
    """(nv,) desired velocity [rad/s or m/s]; the measured velocity in modes float and safe."""
    mode: Mode
    saturated: bool
    """Whether the torque was reduced to keep the limits."""
    rate_limited: bool
    """Whether the rate of the torque was limited."""
    goal: Goal
    """Outcome of the last trajectory."""
    reason: str
    """The reason why the mode is not the requested mode, or why the sample was not used.

    The text is empty in the requested mode with a used sample.
    """
