"""Conversion between the effort that a driver publishes and joint torque."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import ParameterError
from rbd_control.parameters import Parameters, parameter

Array = NDArray[np.float64]


@dataclass(frozen=True)
class EffortParameters(Parameters):
    """What joint states contain: kind and gain of the ``effort``, and whether velocities count.

    The methods convert the effort to joint torque and back.

    Raises:
        ParameterError: for a gain of zero.
    """

    HEADING = "What the driver publishes"

    effort_kind: str = parameter(
        "torque",
        "Quantity that the driver publishes as effort: joint torque, motor current (effort_gain "
        "converts it to torque), or joint torque minus the gravity torque of the arm",
        choices=("torque", "current", "torque_without_gravity"),
        found_by_calibrate=True,
    )
    effort_gain: tuple[float, ...] = parameter(
        (1.0,),
        "Torque per unit of effort; negative for a reversed drive",
        unit="N·m or N per unit of effort",
        lower=-1e4,
        upper=1e4,
        per_joint=True,
        found_by_calibrate=True,
    )
    effort_gain_error: tuple[float, ...] = parameter(
        (0.0,),
        "Relative standard error of effort_gain: the thresholds of the detector grow by this share "
        "of the torque of the motor, beyond covered_error",
        lower=0.0,
        upper=10.0,
        per_joint=True,
        expert=True,
        found_by_calibrate=True,
        compiled=True,
    )

    velocity_filter: float = parameter(
        0.0,
        "Time constant of a filter with which the detector, replay, check and calibrate compute "
        "velocities from positions, for a driver that publishes none, or zeros; contacts are seen "
        "later by as much. 0: the velocities of the driver; start with 0.02. The controller needs "
        "those of the driver",
        unit="s",
        lower=0.0,
        upper=0.2,
        live=False,
        found_by_calibrate=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for i in np.flatnonzero(np.array(self.effort_gain) == 0.0):
            raise ParameterError(f"effort_gain[{i}] is 0: every effort would count as zero torque")

    def torque(self, model: Model, q: Array, effort: Array) -> Array:
        """Return the joint torque for a published effort.

        It is ``effort_gain effort``, plus the gravity torque g(q) of the arm if ``effort_kind`` is
        ``torque_without_gravity``.

        Args:
            model: the identified arm.
            q: joint positions, (nq,) [rad or m].
            effort: published effort, (nv,) [N·m, N or unit of the driver].

        Returns:
            The joint torque including the gravity torque, (nv,) [N·m or N]; ``effort`` itself, not
            a copy, if the driver publishes this torque.

        Raises:
            ParameterError: for a gain with neither one nor nv values.
        """
        gain = self.effort_gain
        # A controller calls this in each cycle, usually with one gain for all joints; no array is
        # made then.
        if len(gain) > 1:
            torque = self.for_joints("effort_gain", model.nv) * effort
        else:
            torque = effort if gain[0] == 1.0 else gain[0] * effort
        if self.effort_kind == "torque_without_gravity":
            torque = torque + gravity_torque(model, q)
        return torque

    def effort(self, model: Model, q: Array, torque: Array) -> Array:
        """Return the effort that a driver publishes for a joint torque; inverse of :meth:`torque`.

        Args:
            model: the identified arm.
            q: joint positions, (nq,) [rad or m].
            torque: joint torque including the gravity torque, (nv,) [N·m or N].

        Returns:
            The effort, (nv,) [N·m, N or unit of the driver].

        Raises:
            ParameterError: for a gain with neither one nor nv values.
        """
        if self.effort_kind == "torque_without_gravity":
            torque = torque - gravity_torque(model, q)
        return np.asarray(torque / self.for_joints("effort_gain", model.nv))
