"""The control loop of a robot: joint states, controller, watchdog, commands; and scripts of use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bench.robots.plant import Plant, Push
from rbd_control.control import Command, ControllerParameters, PassivityController
from rbd_control.control.reactions import ORDERS
from rbd_control.control.waypoints import Points
from rbd_control.errors import InputError, TrajectoryError

Array = NDArray[np.float64]
Script = Iterator[float]
"""A user of the controller: does something, and yields the time until it goes on [s]."""

TRANSPORT = 0.0003
"""Time from the stamp of a joint state to its arrival [s]."""
WATCH_PERIOD = 0.01
"""Period of the watchdog, as in the node [s]."""


@dataclass(frozen=True)
class Fault:
    """A switch to mode safe."""

    t: float
    reason: str


class Session:
    """Runs one controller on one plant, sample by sample as the node does.

    Args:
        plant: the plant; it is put at rest.
        parameters: parameters of the controller; by default those of the robot.
        start: position of the start, (nv,) [rad]; by default the centre of the arm's motions.

    Attributes:
        controller: the controller.
        fault: the first fault, or None.
        command: the last command.
        seen: the last joint state that the controller has received.
        lose: function of the time [s] that tells whether the joint state of this time is lost.
        second: a joint state (q, v) of a second publisher, between two of the arm; or None.
        flag: verdict that the contact detector repeats; None: there is no detector.
        watch: called after each period; None: nothing.
    """

    def __init__(
        self,
        plant: Plant,
        parameters: ControllerParameters | None = None,
        start: Array | None = None,
    ) -> None:
        self.plant = plant
        self.parameters = parameters or plant.robot.parameters()
        self.names = plant.arm.model.joint_names
        plant.start(plant.arm.centre if start is None else start)
        self.controller = PassivityController(plant.robot.model(plant.arm.model), self.parameters)
        self.fault: Fault | None = None
        self.lose: Callable[[float], bool] | None = None
        self.second: tuple[Array, Array] | None = None
        self.flag: bool | None = None
        self.watch: Callable[[Session], None] | None = None
        self._watched = 0.0
        first = self.seen = plant.measure()
        self.controller.start(plant.t, first.q, first.v, plant.t + TRANSPORT)
        self._step()

    def run(
        self, seconds: float, script: Script | None = None, *, past_fault: bool = False
    ) -> None:
        """Continue for a time, or until a fault.

        Args:
            seconds: the time [s].
            script: the user; without one nobody uses the controller.
            past_fault: whether to go on after a fault.
        """
        end = self.plant.t + seconds
        goes_on = -np.inf if script else np.inf
        while self.plant.t < end - _EPSILON:
            if script is not None and self.plant.t >= goes_on - _EPSILON:
                goes_on = self.plant.t + next(script, np.inf)
            self._step()
            if self.fault is not None and not past_fault:
                return

    def _step(self) -> None:
        plant = self.plant
        plant.advance(plant.robot.period)
        if self.lose is None or not self.lose(plant.t):
            self._take(self._update(plant.t))
            if self.second is not None:
                stamp = plant.t + 0.5 * plant.robot.period
                q, v = self.second
                arrival = stamp + TRANSPORT
                self._take(self.controller.update(stamp, q, v, arrival, None))
        if plant.t >= self._watched + WATCH_PERIOD - _EPSILON:
            self._watched = plant.t
            if self.flag is not None:
                self.controller.contact(self.flag, plant.t)
            silent = self.controller.silence(plant.t)
            if silent is not None:
                self._take(silent)
        if self.watch is not None:
            self.watch(self)

    def _update(self, stamp: float) -> Command:
        """Measure, and return the answer of the controller."""
        seen = self.seen = self.plant.measure()
        return self.controller.update(stamp, seen.q, seen.v, stamp + TRANSPORT, seen.effort)

    def _take(self, command: Command) -> None:
        self.command = command
        self.plant.send(command.torque)
        if command.mode == "safe" and self.fault is None:
            self.fault = Fault(self.plant.t, command.reason)

    # --- Orders ----------------------------------------------------------------------------------

    def follow(self, points: Points) -> bool:
        """Order a trajectory; return whether the controller accepts it."""
        now = self.plant.t
        try:
            self.controller.accept(self.controller.plan_trajectory(self.names, points, now))
        except TrajectoryError:
            return False
        return True

    def order(self, name: str) -> bool:
        """Give an order without arguments, such as ``hold``; return whether it is accepted."""
        try:
            if name in ORDERS:
                self.controller.modes.order(name)
            else:
                owner = self.controller.modes if name == "cancel" else self.controller
                getattr(owner, name)()
        except InputError:
            return False
        return True

    def push(self, row: int, force: Array, seconds: float, *, is_held: bool = False) -> Push:
        """Push a link from now on, 5 cm beside the origin of its frame.

        Args:
            row: row of the joint that moves the link.
            force: the largest force, (3,) in world axes [N].
            seconds: duration [s].
            is_held: whether the force is constant; otherwise it is a half sine.
        """
        point = np.array([0.05, 0.0, 0.0])
        push = Push(row, point, force, self.plant.t, seconds, is_held)
        self.plant.pushes.append(push)
        return push

    def provoke_tracking_fault(self) -> None:
        """Lower ``tracking_limit`` below any tracking error, which is a fault of a healthy arm."""
        self.controller.set_parameters(replace(self.parameters, tracking_limit=(_TINY,)))


_EPSILON = 1e-7
"""Rounding of times [s]."""
_TINY = 1e-7
"""A distance below every tracking error [rad]."""
