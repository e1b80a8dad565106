"""Parameters of the torque that the drives of an arm add to the command by themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.errors import ParameterError
from rbd_control.parameters import Parameters, parameter


@dataclass(frozen=True)
class DriveParameters(Parameters):
    """Parameters of the gravity and friction that the drives of an arm compensate by themselves.

    Raises:
        ParameterError: for ``compensated_gravity`` without three values, or without
            ``gravity_compensated``.
    """

    HEADING = "What the drives compensate"

    gravity_compensated: bool = parameter(
        False,
        "the arm adds its gravity torque to the command (Franka, UR, KUKA FRI): send the torque "
        "without gravity",
        live=False,
    )
    compensated_gravity: tuple[float, ...] = parameter(
        (),
        "gravity that the arm assumes in its own compensation, in the frame of the root link: "
        "x y z; empty: the parameter gravity, because the arm knows its mounting. Give it for a "
        "tilted arm that assumes an upright base: the controller then sends the difference",
        unit="m/s²",
        lower=-100.0,
        upper=100.0,
        live=False,
    )
    friction_compensated: bool = parameter(
        False,
        "the arm compensates its joint friction by itself (Franka, UR): send the torque without "
        "friction; friction_* then apply to detector and calibration only",
        live=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.compensated_gravity) not in (0, 3):
            raise ParameterError(
                f"compensated_gravity has {len(self.compensated_gravity)} values; give x y z, or "
                f"none for an arm that knows its mounting"
            )
        if self.compensated_gravity and not self.gravity_compensated:
            raise ParameterError(
                f"compensated_gravity is {list(self.compensated_gravity)} but gravity_compensated "
                f"is false; set it to true, or remove compensated_gravity"
            )

    def compensated(self, model: Model) -> Model | None:
        """Return the arm with the gravity that it compensates by itself, ``compensated_gravity``.

        Args:
            model: the arm with its payload. The payload is assumed to be set in the arm as well.

        Returns:
            The arm; None if it does not compensate gravity.
        """
        if not self.gravity_compensated:
            return None
        if not self.compensated_gravity:
            return model
        return _under(model, np.array(self.compensated_gravity))

    def uncompensated(self, model: Model) -> Model | None:
        """Return the arm under the part of gravity that an arm with own compensation leaves over.

        The gravity torque is linear in gravity, so that the gravity torque of the result is
        ``g(q; gravity) - g(q; compensated_gravity)``.

        Args:
            model: the arm with its payload.

        Returns:
            The arm; None if nothing is left, or if the arm does not compensate gravity.
        """
        if not self.compensated_gravity:
            return None
        rest = model.gravity - np.array(self.compensated_gravity)
        return _under(model, rest) if rest.any() else None


def commanded(parameters: DriveParameters, model: Model) -> Model:
    """Return the arm under the part of gravity that its commands contain.

    It is the arm itself, or for an arm that compensates gravity the result of
    :meth:`DriveParameters.uncompensated`, without gravity if nothing is left over.
    """
    if not parameters.gravity_compensated:
        return model
    return parameters.uncompensated(model) or _under(model, np.zeros(3))


def _under(model: Model, gravity: np.ndarray) -> Model:
    """Return the arm under another gravity, (3,) [m/s²]."""
    return replace(model, gravity=gravity, arrays=model.arrays._replace(gravity=gravity))
