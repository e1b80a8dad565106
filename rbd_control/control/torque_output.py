"""The torque that acts: its rate of change, and what of it is the command."""

from __future__ import annotations

from math import isfinite

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.kernels import slowed
from rbd_control.dynamics import Model, gravity_torque

Array = NDArray[np.float64]


class TorqueOutput:
    """Keeps the torque of the motors and the command of one arm.

    For an arm that adds its own weight (parameter ``gravity_compensated``) the motors bear the
    command and the weight. Limits and rates are those of the motors.

    Args:
        model: the arm, with the payload that it carries.

    Attributes:
        sent: (nv,) last command [N·m or N].
        acting: (nv,) torque of the motors now [N·m or N]; ``acted`` that before.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.sent: Array = np.zeros(model.nv)
        self.acting: Array = self.sent
        self.acted: Array = self.sent

    def set_parameters(
        self, model: Model, limits: ArmLimits, parameters: ControllerParameters
    ) -> None:
        """Use other limits, or another payload, from the next torque on."""
        self._model = model
        self._largest = limits.torque
        self._rate = parameters.for_joints("torque_rate", self._model.nv)
        self._compensated = parameters.gravity_compensated

    def slow(self, torque: Array, dt: float) -> Array:
        """Return the torque, or as far from the last one towards it as all joints can go in ``dt``.

        Args:
            torque: (nv,) wanted torque of the motors [N·m or N].
            dt: time since the last one [s].
        """
        slower, short = slowed(torque, self.acting, self._rate, dt, self._largest)
        return slower if short else torque

    def send(self, motors: Array, q: Array) -> Array:
        """Return the command for a torque of the motors at the positions ``q``.

        Raises:
            FloatingPointError: for a torque that is not finite; nothing has changed then.
        """
        # What the arm adds by itself is no part of the command.
        sent = motors - gravity_torque(self._model, q) if self._compensated else motors
        return self.send_both(sent, motors)

    def send_command(self, sent: Array, q: Array) -> Array:
        """Return a command after noting the torque that the motors bear with it at ``q``.

        An arm that adds its own weight knows nothing of masses that the controller has learned.

        Raises:
            FloatingPointError: for a torque that is not finite; nothing has changed then.
        """
        motors = sent + gravity_torque(self._model, q) if self._compensated else sent
        return self.send_both(sent, motors)

    def send_both(self, sent: Array, motors: Array) -> Array:
        """Return a command that goes with a torque of the motors.

        Raises:
            FloatingPointError: for a torque that is not finite; nothing has changed then.
        """
        require_finite(sent, "limited torque")
        self.acted, self.acting, self.sent = self.acting, motors, sent
        return sent

    def zero(self, q: Array) -> Array:
        """Return the command of exactly zero; an arm that adds its weight goes on to do so."""
        self.halt()
        if self._compensated:
            self.acting = self.acted = gravity_torque(self._model, q)
        return self.sent.copy()

    def halt(self) -> Array:
        """Return the command of exactly zero, with nothing computed that could fail."""
        self.sent = np.zeros(self._model.nv)
        self.acting = self.acted = self.sent
        return self.sent.copy()


def require_finite(torque: Array, what: str) -> None:
    """Refuse a torque that is not finite.

    Raises:
        FloatingPointError: saying what is not finite.
    """
    if not isfinite(torque.dot(torque)):
        raise FloatingPointError(f"the {what} is not finite")
