"""Limits on torque and speed of one arm, from its description and the parameters.

A limit of zero or below counts as unknown, from any source. The parameters
``effort_limit`` and ``velocity_limit`` replace a description's limit joint by joint.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.dynamics import Model
from rbd_control.errors import InputError
from rbd_control.robot.weight import needed_share, require_weight

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ArmLimits:
    """Limits of one arm, each (nv,); infinite for a joint without limit.

    Attributes:
        joint_names: names of the joints.
        effort: largest torque of the motors [N·m or N].
        torque: largest torque that the controller uses, ``torque_share * effort`` [N·m or N].
        torque_rate: largest rate of the torque that the controller uses [N·m/s or N/s].
        weight: largest gravity torque that the arm can hold [N·m or N]: ``torque``, or ``effort``
            if the arm adds its gravity torque to the command.
        velocity: speed limit of planned motions [rad/s or m/s].
        assumed_velocity: ``velocity``, with an assumed limit for joints without a limit; finite.
        plausible_speed: speed above which a sample is implausible [rad/s or m/s]; finite. A lower
            ``velocity_limit`` of the parameters does not reduce it: an arm that is faster than its
            planned motions, for example after a knock, must be braked and not lose its torque.
        overspeed: measured speed above which :class:`Overspeed` counts time towards a fault [rad/s
            or m/s]; finite.
    """

    joint_names: tuple[str, ...]
    effort: Array
    torque: Array
    torque_rate: Array
    weight: Array
    velocity: Array
    assumed_velocity: Array
    plausible_speed: Array
    overspeed: Array

    @classmethod
    def of(cls, model: Model, parameters: ControllerParameters) -> ArmLimits:
        """Return the limits of an arm from its description and the parameters.

        Raises:
            ParameterError: for a per-joint parameter of the wrong length.
        """
        n = model.nv
        effort = _replaced(model.effort_limit, parameters.for_joints("effort_limit", n))
        velocity = _replaced(model.velocity_limit, parameters.for_joints("velocity_limit", n))
        assumed = parameters.assumed_velocity(model, velocity)
        fastest = np.maximum(assumed, parameters.assumed_velocity(model, model.velocity_limit))
        torque = parameters.for_joints("torque_share", n) * effort
        return cls(
            joint_names=model.joint_names,
            effort=effort,
            torque=torque,
            torque_rate=parameters.for_joints("torque_rate", n),
            weight=effort if parameters.gravity_compensated else torque,
            velocity=velocity,
            assumed_velocity=assumed,
            plausible_speed=parameters.implausible_speed * fastest,
            overspeed=parameters.overspeed_factor * assumed,
        )

    def require_effort(self) -> None:
        """Raise an error if the torque of a joint has no limit.

        Raises:
            InputError: naming the joints and the parameter to set.
        """
        unknown = [
            name
            for name, limit in zip(self.joint_names, self.effort, strict=False)
            if not np.isfinite(limit)
        ]
        if unknown:
            raise InputError(
                f"no effort limit for {', '.join(unknown)}: the robot description has none, or "
                f"zero; set parameter effort_limit"
            )

    def require_weight(self, weight: Array) -> None:
        """Raise an error if the weight of the arm needs more than the torque limits allow.

        Args:
            weight: gravity torque of the arm with its payload, (nv,) [N·m or N].

        Raises:
            InputError: naming the first such joint, its gravity torque and its limit.
        """
        require_weight(self.joint_names, weight, self.weight)

    def refuse_heavier(self, weight: Array, before: ArmLimits, former: Array) -> None:
        """Raise an error if a joint cannot hold the arm after a change of payload or limits.

        The limits of this object apply after the change. A joint whose gravity torque exceeds its
        limit already is accepted if it needs no larger share of its limit than before.

        Args:
            weight: gravity torque after the change, (nv,) [N·m or N].
            before: limits before the change.
            former: gravity torque before the change, (nv,) [N·m or N].

        Raises:
            InputError: naming the first such joint, its gravity torque and its limit.
        """
        accepted = needed_share(former, before.weight)
        require_weight(self.joint_names, weight, self.weight, accepted)


def _replaced(described: Array, given: Array) -> Array:
    """Return the given limits where they are positive, else the described ones, else infinity."""
    limit = np.where(given > 0.0, given, described)
    return np.where(limit > 0.0, limit, np.inf)
