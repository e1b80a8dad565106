"""The torque command that the controller returns for each joint state, and its state."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mode = Literal["hold", "follow", "float", "safe"]
Goal = Literal["none", "moving", "paused", "reached", "missed", "aborted", "cancelled"]


class Command(NamedTuple):
    """The torque command of one sample, with the state of the controller.

    ``mode`` is ``hold`` (the arm is kept at a point), ``follow`` (it tracks a trajectory),
    ``float`` (gravity compensation only) or ``safe`` (after a fault, and before the start).
    """

    torque: Array
    """(nv,) torque command [N·m or N]; always finite and within the limits."""
    q_d: Array
    """(nv,) desired position [rad or m]; the measured position in modes float and safe."""
    v_d: Array
    """(nv,) desired velocity [rad/s or m/s]; the measured velocity in modes float and safe."""
    mode: Mode
    saturated: bool
    """Whether the torque limits changed the torque of the control law."""
    rate_limited: bool
    """Whether the change since the last torque was reduced, to keep ``torque_rate``."""
    goal: Goal
    """State or outcome of the last trajectory.

    ``none`` before the first trajectory since the start; ``moving`` or, while it is interrupted,
    ``paused``; then ``reached`` or ``missed`` by the goal tolerance, ``aborted`` by the path
    tolerance, or ``cancelled``.
    """
    reason: str
    """Why the mode is not the requested mode, or why the joint state was not used.

    The text is empty if the mode is the requested mode and the joint state was used.
    """
