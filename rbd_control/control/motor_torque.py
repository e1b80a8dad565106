"""Conversion of motor torque to the command, and the limit of its rate."""

from __future__ import annotations

from math import isfinite

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.kernels import slowed
from rbd_control.dynamics import Model, gravity_torque

Array = NDArray[np.float64]


class MotorTorque:
    """Stores the motor torque and the command of one arm.

    For an arm that adds its gravity torque (parameter ``gravity_compensated``) the motor torque is
    the sum of command and added torque. The added torque is the gravity torque of the described arm
    with its payload, which must be set in the arm as well, under ``compensated_gravity``. Limits
    and rates apply to the motor torque.

    Args:
        model: the arm with its payload.

    Attributes:
        sent: (nv,) last command [N·m or N].
        acting: (nv,) motor torque since the last command [N·m or N].
        acted: (nv,) motor torque between the last two commands [N·m or N]; valid after
            :meth:`send` and :meth:`send_both` only.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.sent: Array = np.zeros(model.nv)
        self.acting: Array = self.sent
        self.acted: Array = self.sent
        self._before = self.acting, self.sent

    def set_parameters(
        self, model: Model, parameters: ControllerParameters, q: Array | None = None
    ) -> None:
        """Apply another rate limit or payload from the next torque on.

        The command continues from the last one: if the gravity torque that the arm adds changes
        with the payload, so does the stored motor torque.

        Args:
            model: the arm with its payload.
            parameters: rate limit, and whether the arm adds its gravity torque.
            q: (nv,) measured positions [rad or m]; None if they are unknown. The stored motor
                torque is then kept.
        """
        self._model = model
        self._rate = parameters.for_joints("torque_rate", self._model.nv)
        self._compensated = parameters.compensated(model)
        if q is not None:
            added = np.zeros(model.nv)
            if self._compensated is not None:
                added = gravity_torque(self._compensated, q)
            self.acting = self.sent + added
            self._before = self._before[1] + added, self._before[1]

    def slow(self, torque: Array, dt: float, bounds: tuple[Array, Array]) -> Array:
        """Return the torque after the rate limit; one factor scales the change of all joints.

        Args:
            torque: (nv,) requested motor torque [N·m or N].
            dt: time since the last torque [s].
            bounds: least and largest motor torque, (nv,) each [N·m or N].

        Returns:
            (nv,) [N·m or N]; ``torque`` itself if its change from ``acting`` keeps the limit.
        """
        slower, short = slowed(torque, self.acting, self._rate, dt, *bounds)
        return slower if short else torque

    def send(self, motors: Array, q: Array) -> Array:
        """Return the command for a motor torque at ``q``, and store both as the last command.

        Args:
            motors: (nv,) torque of the motors [N·m or N].
            q: (nv,) measured positions [rad or m].

        Returns:
            (nv,) command [N·m or N], without the gravity torque that the arm adds by itself.

        Raises:
            FloatingPointError: for a torque that is not finite; nothing is changed then.
        """
        own = self._compensated
        return self.send_both(motors if own is None else motors - gravity_torque(own, q), motors)

    def send_command(self, sent: Array, q: Array) -> Array:
        """Store and return a command, and store the motor torque that results from it at ``q``.

        The torque that the arm adds does not contain masses that the adaptive law learned.

        Args:
            sent: (nv,) command [N·m or N].
            q: (nv,) measured positions [rad or m].

        Raises:
            FloatingPointError: for a torque that is not finite; nothing is changed then.
        """
        own = self._compensated
        return self.send_both(sent, sent if own is None else sent + gravity_torque(own, q))

    def send_both(self, sent: Array, motors: Array) -> Array:
        """Store and return a command, and store its motor torque.

        Args:
            sent: (nv,) command [N·m or N].
            motors: (nv,) motor torque that results from it [N·m or N].

        Raises:
            FloatingPointError: for a torque that is not finite; nothing is changed then.
        """
        require_finite(sent, "limited torque")
        self._before = self.acting, self.sent
        self.acted, self.acting, self.sent = self.acting, motors, sent
        return sent

    def repeat(self) -> Array:
        """Return the last command once more, and store it as the command of this sample."""
        self._before = self.acting, self.sent
        return self.sent.copy()

    def take_back(self) -> None:
        """Restore ``sent`` and ``acting`` from before the last command, which was not sent."""
        self.acting, self.sent = self._before

    def zero(self, q: Array) -> Array:
        """Store and return a zero command; the stored motor torque is zero.

        An arm that adds its gravity torque continues to do so. Its stored motor torque is the
        added torque at the positions ``q``, (nv,) [rad or m].
        """
        self.halt()
        if self._compensated is not None:
            self.acting = self.acted = gravity_torque(self._compensated, q)
        return self.sent.copy()

    def halt(self) -> Array:
        """Store and return a zero command without any computation that could fail.

        The stored motor torque is zero as well, also for an arm that adds its gravity torque.
        """
        self._before = self.acting, self.sent
        self.sent = np.zeros(self._model.nv)
        self.acting = self.acted = self.sent
        return self.sent.copy()


def require_finite(torque: Array, what: str) -> None:
    """Raise an error for a torque that is not finite.

    Args:
        torque: (nv,) [N·m or N].
        what: name of the torque in the message.

    Raises:
        FloatingPointError: if the torque of any joint is not finite; the message contains ``what``.
    """
    if not isfinite(torque.dot(torque)):
        raise FloatingPointError(f"the {what} is not finite")
