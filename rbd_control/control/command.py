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
    """(nv,) torque command [N·m or N]; always finite.

    The torque limits apply to the motor torque: the command, plus the gravity torque of an arm that
    adds it by itself (``gravity_compensated``).
    """
    q_d: Array
    """(nv,) desired position [rad or m]; the last valid measured position in float and safe."""
    v_d: Array
    """(nv,) desired velocity [rad/s or m/s]; the last valid measured velocity in float and safe."""
    mode: Mode
    saturated: bool
    """Whether the torque limits changed the torque of the control law for this joint state.

    It is false if there is no such torque: in mode safe, and if the last torque is repeated.
    """
    rate_limited: bool
    """Whether ``torque_rate`` reduced the change since the last torque; false as ``saturated``."""
    goal: Goal
    """State or outcome of the last trajectory.

    ``none`` before the first trajectory since the start; ``moving`` or, while it is interrupted,
    ``paused``; then ``reached`` or ``missed`` by the goal tolerance, ``aborted`` by the path
    tolerance, or ``cancelled``.
    """
    reason: str
    """Why the joint state was not used, or else the reason of the mode; otherwise an empty text.

    Reasons of the mode are a fault, an order, a contact, an aborted trajectory or a reduced speed.
    """
