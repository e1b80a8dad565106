"""A controller on the simulated arm, for tests of the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rbd_control.control import (
    Command,
    ControllerParameters,
    PassivityController,
    TrajectoryPoint,
)
from rbd_control.control.goals import GoalResult, TrajectoryGoal
from rbd_control.control.reactions import ORDERS
from rbd_control.dynamics import Model
from rbd_control.simulation import SimulatedArm, SimulationParameters

HOME = np.array([0.0, 0.5, 0.0, -1.2, 0.0, 0.9, 0.0])
STILL = np.zeros(7)
RIGID: dict[str, Any] = {
    "resonance": 0.0,
    "loop_delay": 0.0,
    "bias_rate": 0.0,
    "bandwidth": (40.0,),
    "damping_rate": 80.0,
    "damping": (0.3,),
    "tracking_limit": (0.5,),
}
"""Stiff gains for a simulated arm: rigid joints, and a loop without delay beyond its sampling."""
SHIPPED: dict[str, Any] = {name: getattr(ControllerParameters(), name) for name in RIGID}
"""The default gains, for :class:`Loop`."""
SCRIPTED: dict[str, Any] = {
    **RIGID,
    "repeated_time": 3600.0,
    "repeated_torque_share": 2.0,
    "tracking_limit": (100.0,),
    "velocity_mismatch": 0.0,
}
"""Parameters for invented joint states, which may repeat, contradict each other and be far away."""
NO_RATE = ControllerParameters(torque_rate=(1e9,), **SCRIPTED)
IDEAL = SimulationParameters(
    coulomb=(0.0,),
    viscous=(0.0,),
    encoder_resolution=0.0,
    velocity_from_encoder=False,
    effort_noise=0.0,
    substeps=8,
)
"""An arm without friction and with perfect sensors."""


def give(controller: PassivityController, order: str, *arguments: Any) -> None:
    """Give an order to hold, float, retract or slow down, or call a method, by name."""
    if order in ORDERS:
        controller.modes.order(order, *arguments)
    else:
        owner = controller.modes if order in ("cancel", "fault") else controller
        getattr(owner, order)(*arguments)


def rigid(**parameters: Any) -> ControllerParameters:
    """Return parameters with the gains :data:`RIGID`, unless ``parameters`` replace them."""
    return ControllerParameters(**{**RIGID, **parameters})


class Loop:
    """A controller and an arm, at 1 kHz unless ``simulated`` sets another ``rate``.

    The gains are :data:`RIGID`, unless ``parameters`` replace them.
    """

    def __init__(
        self,
        model: Model,
        q: np.ndarray = HOME,
        verdict: bool | None = None,
        simulated: Mapping[str, Any] | None = None,
        **parameters: Any,
    ) -> None:
        given = {"coulomb": (0.3,), "viscous": (0.3,), **(simulated or {})}
        simulation = SimulationParameters(initial_position=tuple(q), **given)
        self.rate = simulation.rate
        self.arm = SimulatedArm(model, simulation)
        self.controller = PassivityController(model, rigid(**parameters))
        sample = self.arm.reading()
        assert sample is not None
        if verdict is not None:
            self.controller.contact(verdict, sample.stamp)
        self.controller.start(sample.stamp, sample.q, sample.v)

    def run(self, time: float, each: Callable[[Command], object] = lambda command: None) -> Command:
        for _ in range(round(time * self.rate)):
            sample = self.arm.reading()
            assert sample is not None
            command = self.controller.update(sample.stamp, sample.q, sample.v, effort=sample.tau)
            self.arm.step(command.torque)
            each(command)
        return command

    def follow(self, target: np.ndarray, time: float) -> None:
        self.controller.set_trajectory(
            self.controller.model.joint_names, [TrajectoryPoint(target, time_from_start=time)]
        )


class Driven:
    """Joint states of an arm on a motion of 4 s from HOME, for a started controller."""

    def __init__(self, controller: PassivityController) -> None:
        self._controller, self._k, self._q, self._v = controller, 0, HOME, STILL
        controller.update(0.0005, HOME, STILL)
        names = controller.model.joint_names
        controller.set_trajectory(names, [TrajectoryPoint(HOME + 0.8, time_from_start=4.0)])

    def run(self, seconds: float, beside: float = 0.0) -> None:
        """Send joint states for a time, ``beside`` the desired positions [rad]."""
        for _ in range(round(1e3 * seconds)):
            self._k += 1
            command = self._controller.update(1e-3 * self._k, self._q + beside, self._v)
            self._q, self._v = command.q_d + 1e-3 * command.v_d, command.v_d


def started(
    model: Model, parameters: ControllerParameters = NO_RATE, q: np.ndarray = HOME
) -> PassivityController:
    controller = PassivityController(model, parameters)
    controller.start(0.0, q, STILL)
    return controller


def assert_zero(command: Command | None) -> None:
    """Assert that a command is exactly zero, in mode safe."""
    assert command is not None
    assert command.mode == "safe"
    assert not command.torque.any()


def ended(goal: TrajectoryGoal) -> GoalResult:
    """Return the result of a goal that has ended."""
    assert goal.result is not None, "the goal has not ended"
    return goal.result
