"""The generalised-momentum residual: the external torque, through a first-order filter.

De Luca & Mattone (2003); De Luca, Albu-Schaeffer, Haddadin & Hirzinger (2006); EW21 section 1 for
the role of the Coriolis matrix. From ``p_dot = tau - tau_friction + Cᵀ v - g + tau_ext``::

    r = K_O ( p(t) - p(0) - integral of (tau - tau_friction + Cᵀ v - g + r) dt )
    so  r_dot = K_O (tau_ext - r)
"""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.estimation.linear_filters import FIRST_ORDER
from rbd_control.estimation.observers import Observer, positive
from rbd_control.robot.friction import Friction


class MomentumObserver(Observer):
    """First-order momentum observer; call :meth:`update` with every sample.

    With the mean external torque ``x_k`` of an interval its filter is::

        r_k = exp(-K_O dt) r_(k-1) + (1 - exp(-K_O dt)) x_k

    The pole lies in (0, 1) for every ``dt``; explicit Euler would oscillate for ``K_O dt > 1``, at
    30 Hz from 30 1/s, and diverge for ``K_O dt > 2``.

    Args:
        model: the robot.
        gain: K_O [1/s], a number or (nv,), positive; 1 / K_O is the time constant.
        friction: tau_friction(v); none by default.

    Raises:
        InputError: for a gain of the wrong shape or not positive.
    """

    kind = FIRST_ORDER

    def __init__(
        self, model: Model, gain: float | np.ndarray, friction: Friction | None = None
    ) -> None:
        self.gain = positive("gain", gain, model)
        super().__init__(model, friction, gain=self.gain)
