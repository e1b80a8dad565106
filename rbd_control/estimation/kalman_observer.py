"""Kalman filter of the external torque, modelled as a random-walk disturbance of the momentum."""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.estimation.linear_filters import KALMAN
from rbd_control.estimation.observers import Observer, positive
from rbd_control.robot.friction import Friction


class KalmanObserver(Observer):
    """Momentum-based disturbance observer, a Kalman filter of momentum and external torque.

    Source of the idea: Hu & Xiong, *Contact Force Estimation for Robot Manipulator Using
    Semiparametric Model and Disturbance Kalman Filter*, IEEE Trans. Ind. Electron. 65(4), 2018.
    Joints are filtered one by one here, as their momenta are measured one by one.

    Args:
        model: the robot.
        torque_noise: standard deviation of one sample of the torque, a number or (nv,) [N·m or N].
        momentum_noise: standard deviation of one sample of the momentum: standard deviation of
            the velocity times the inertia of the joint, a number or (nv,) [N·m·s or N·s].
        drift: random walk of the external torque, a number or (nv,) [N·m/√s or N/√s].
        friction: tau_friction(v); none by default.

    Raises:
        InputError: for a noise of the wrong shape or not positive.
    """

    kind = KALMAN

    def __init__(
        self,
        model: Model,
        torque_noise: float | np.ndarray,
        momentum_noise: float | np.ndarray,
        drift: float | np.ndarray,
        friction: Friction | None = None,
    ) -> None:
        super().__init__(
            model,
            friction,
            torque_noise=positive("torque_noise", torque_noise, model),
            momentum_noise=positive("momentum_noise", momentum_noise, model),
            drift=positive("drift", drift, model),
        )
