"""The configuration of the controller: all that follows from the arm and the parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.goals import Tolerances
from rbd_control.control.limits import ArmLimits, SoftLimits
from rbd_control.control.safe_torque import SafeTorque
from rbd_control.control.torque_path import TorqueLimits
from rbd_control.control.tracking_law import TrackingLaw
from rbd_control.dynamics import Model
from rbd_control.errors import InputError, ParameterError

Array = NDArray[np.float64]


HELD_GRAVITY = 0.1
"""Largest part of gravity that may be left over for an arm to hold itself at zero torque [m/s²].

It is 1 % of gravity, or a tilt of 0.6 degrees; gravity varies on the Earth by half of it.
"""


@dataclass(frozen=True, eq=False)
class Configuration:
    """What the model of the arm and the parameters determine.

    It is built as a whole, before any part of the controller changes. An error in a parameter
    therefore leaves the controller with its former configuration.

    Attributes:
        model: the arm with its payload.
        parameters: parameters of the controller.
        limits: limits of torque and speed.
        soft: soft position limits.
        tolerances: tolerances of trajectories, and the limit of the tracking error.
        torque_limits: limits on the torque of the law.
        safe: the torque in mode safe.
        law: the control law with its estimates, energy monitor and energy tank.
    """

    model: Model
    parameters: ControllerParameters
    limits: ArmLimits
    soft: SoftLimits
    tolerances: Tolerances
    torque_limits: TorqueLimits
    safe: SafeTorque
    law: TrackingLaw

    @classmethod
    def of(
        cls,
        model: Model,
        parameters: ControllerParameters,
        before: Configuration | None = None,
        here: Array | None = None,
    ) -> Configuration:
        """Build all parts for a model and parameters.

        Args:
            model, parameters: see the attributes.
            before: the parts that these replace. The level of the energy tank is kept, and for the
                same model the estimates of the adaptive law.
            here: (nv,) measured position of the arm [rad or m]. The soft limits are opened to
                include it, but at most as far as they were open in ``before``. With None (position
                unknown) or without ``before`` they are not opened.

        Raises:
            InputError: for a floating base, for a model with other joints than before, or with
                ``adaptive`` for a link in ``adapted_links`` that is unknown, fixed or rigidly
                joined to another.
            ParameterError: for a per-joint parameter of the wrong length, or for ``safe_torque:
                zero`` if the arm compensates another gravity than its own.
        """
        if model.nq != model.nv:
            raise InputError(f"{model.name}: a floating base cannot be controlled by joint torques")
        if before is not None and model.joint_names != before.model.joint_names:
            raise InputError(
                f"the model has joints {', '.join(model.joint_names)} but the controller was made "
                f"for {', '.join(before.model.joint_names)}"
            )
        _refuse_sinking(model, parameters)
        limits = ArmLimits.of(model, parameters)
        soft = SoftLimits(model, parameters)
        if before is not None and here is not None:
            soft.open_to(here, before.soft)
        return cls(
            model=model,
            parameters=parameters,
            limits=limits,
            soft=soft,
            tolerances=Tolerances(model, parameters),
            torque_limits=TorqueLimits(model, parameters, soft),
            safe=SafeTorque(model, limits, parameters),
            law=TrackingLaw(model, parameters, soft, None if before is None else before.law),
        )


class Setup:
    """The present configuration of a controller, which all its parts read.

    Attributes:
        now: the configuration. It is replaced as a whole, so that another thread may read it.
    """

    def __init__(self, configuration: Configuration) -> None:
        self.now = configuration


def _refuse_sinking(model: Model, parameters: ControllerParameters) -> None:
    """Raise an error for ``safe_torque: zero`` on an arm that zero torque does not hold."""
    rest = parameters.uncompensated(model)
    if parameters.safe_torque != "zero" or rest is None:
        return
    if np.linalg.norm(rest.gravity) > HELD_GRAVITY:
        raise ParameterError(
            f"safe_torque is zero but the arm does not hold itself: it compensates the gravity "
            f"{list(parameters.compensated_gravity)} (compensated_gravity), and gravity is "
            f"{model.gravity.tolist()}; set safe_torque to damping or, if the robot knows its "
            f"mounting, remove compensated_gravity"
        )
