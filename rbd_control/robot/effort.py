"""What a driver publishes as effort, and the joint torque that it stands for."""

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
    """What the ``effort`` of joint states means.

    Raises:
        ParameterError: for a gain of zero.
    """

    effort_kind: str = parameter(
        "torque",
        "What the driver publishes as effort: joint torque, motor current (times effort_gain it is "
        "torque), or torque without what carries the arm's own weight",
        choices=("torque", "current", "torque_without_gravity"),
    )
    effort_gain: tuple[float, ...] = parameter(
        (1.0,),
        "Torque per unit of effort; its sign is that of the drive",
        unit="N·m or N per unit of effort",
        lower=-1e4,
        upper=1e4,
        per_joint=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for i in np.flatnonzero(np.array(self.effort_gain) == 0.0):
            raise ParameterError(f"effort_gain[{i}] is 0: no effort would ever show a torque")

    def torque(self, model: Model, q: Array, effort: Array) -> Array:
        """Return the joint torque that an effort stands for.

        Args:
            model: the identified arm.
            q: joint positions, (nq,) [rad or m].
            effort: as published, (nv,).

        Returns:
            The torque with the weight of the arm in it, (nv,) [N·m or N].
        """
        torque = self.for_joints("effort_gain", model.nv) * effort
        if self.effort_kind == "torque_without_gravity":
            torque = torque + gravity_torque(model, q)
        return torque

    def effort(self, model: Model, q: Array, torque: Array) -> Array:
        """Return what a driver publishes for a joint torque; the inverse of :meth:`torque`."""
        if self.effort_kind == "torque_without_gravity":
            torque = torque - gravity_torque(model, q)
        return np.asarray(torque / self.for_joints("effort_gain", model.nv))
