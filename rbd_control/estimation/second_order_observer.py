"""The momentum residual through a second-order filter.

The residual obeys ``r_ddot = K² (tau_ext - r) - 2 zeta K r_dot``.
"""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.errors import InputError
from rbd_control.estimation.linear_filters import SECOND_ORDER
from rbd_control.estimation.observers import Observer, positive
from rbd_control.robot.friction import Friction


class SecondOrderObserver(Observer):
    """Second-order momentum observer.

    Args:
        model: the robot.
        gain: K [1/s], a number or (nv,), positive: its natural frequency.
        friction: tau_friction(v); none by default.
        damping: zeta in (0, 1]; 1 is critical, and less overshoots.

    Raises:
        InputError: for a gain of the wrong shape or not positive, or a damping out of bounds.
    """

    kind = SECOND_ORDER

    def __init__(
        self,
        model: Model,
        gain: float | np.ndarray,
        friction: Friction | None = None,
        damping: float = 1.0,
    ) -> None:
        if not 0.0 < damping <= 1.0:
            raise InputError(f"damping is {damping}; it must lie above 0 and at most at 1")
        self.gain = positive("gain", gain, model)
        super().__init__(model, friction, gain=self.gain, damping=np.full(model.nv, damping))
