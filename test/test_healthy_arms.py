"""Healthy arms with the encoders, drivers and friction of real robots keep their torque."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from control_loop import HOME

from rbd_control.control import ControllerParameters, PassivityController, TrajectoryPoint
from rbd_control.dynamics import Model
from rbd_control.simulation import SimulatedArm, SimulationParameters, arm7_urdf

Array = np.ndarray

FRICTION = 0.08
"""Static friction as a share of the effort limit, as of geared servos and a UR5."""


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


@dataclass(frozen=True)
class Rate:
    """Rate of the messages, and of the hardware that is read for every ``hold``-th of them."""

    rate: float
    hold: int
    bandwidth: float
    damping_rate: float


@dataclass(frozen=True)
class Sensors:
    """Steps of the positions [rad] and velocities, their filter [s], and their bias [rad/s]."""

    position_step: float
    velocity_step: float = 0.0
    late: float = 0.0
    bias: float = 0.0


RATES = {
    "1000 Hz": Rate(1000.0, 1, 20.0, 40.0),
    "125 Hz": Rate(125.0, 1, 8.0, 16.0),
    "50 Hz": Rate(50.0, 1, 4.0, 8.0),
    "100 Hz as 1000 Hz": Rate(1000.0, 10, 6.0, 12.0),
    "50 Hz as 1000 Hz": Rate(1000.0, 20, 4.0, 8.0),
}
SENSORS = {
    "steps of 1 mrad/s": Sensors(1.7e-5, velocity_step=1e-3, bias=1e-3),
    "bias of 5 mrad/s": Sensors(1.2e-5, velocity_step=1e-3, bias=5e-3),
    "geared servo": Sensors(1.534e-3, velocity_step=0.1, late=0.025),
}


class Driver:
    """Reads a simulated arm as a driver does."""

    def __init__(self, arm: SimulatedArm, rate: Rate, sensors: Sensors) -> None:
        self._arm, self._rate, self._sensors = arm, rate, sensors
        self._count, self._filtered = 0, arm.v
        self._last = self._measured()

    def read(self) -> tuple[Array, Array]:
        self._count += 1
        if self._count % self._rate.hold == 0:
            self._last = self._measured()
        return self._last

    def _measured(self) -> tuple[Array, Array]:
        sensors, period = self._sensors, self._rate.hold / self._rate.rate
        weight = 1.0 - np.exp(-period / sensors.late) if sensors.late else 1.0
        self._filtered = self._filtered + weight * (self._arm.v - self._filtered)
        q, v = self._arm.q, self._filtered + sensors.bias
        q = np.rint(q / sensors.position_step) * sensors.position_step
        if sensors.velocity_step:
            v = np.rint(v / sensors.velocity_step) * sensors.velocity_step
        return q, v


@pytest.mark.parametrize("sensors", SENSORS.values(), ids=SENSORS)
@pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
def test_a_healthy_arm_keeps_its_torque(model: Model, rate: Rate, sensors: Sensors) -> None:
    """At rest, in slow starts, in reversals, in a fast motion, and after a push.

    Formerly the velocity at rest counted as that of a frozen driver, friction as a stuck joint, and
    a slow hardware as jumps.
    """
    if sensors.late:  # the damping of a higher bandwidth comes too late
        rate = Rate(rate.rate, rate.hold, 4.0, 8.0)
    arm = SimulatedArm(
        model,
        SimulationParameters(
            initial_position=tuple(HOME),
            rate=rate.rate,
            substeps=max(round(4000.0 / rate.rate), 4),
            coulomb=tuple(FRICTION * model.effort_limit),
            friction_smoothing=1e-4,  # it sticks
        ),
    )
    controller = PassivityController(
        model,
        ControllerParameters(
            bandwidth=(rate.bandwidth,),
            damping_rate=rate.damping_rate,
            resonance=0.0,
            loop_delay=0.0,
            timeout=0.1,
        ),
    )
    driver = Driver(arm, rate, sensors)
    controller.start(0.0, *driver.read())
    direction = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0])

    def run(seconds: float) -> None:
        for _ in range(round(seconds * rate.rate)):
            command = controller.update(arm.time + 1.0 / rate.rate, *driver.read())
            assert command.reason == "", f"at {arm.time:.3g} s"
            arm.step(command.torque)

    run(0.4)
    for offset, seconds in ((0.03, 1.5), (-0.03, 1.5), (0.4, 0.8)):
        point = TrajectoryPoint(HOME + offset * direction, time_from_start=seconds)
        controller.set_trajectory(model.joint_names, [point])
        run(seconds + 0.2)
    arm.push("tool", np.array([0.0, 30.0, 0.0]), duration=0.05)
    run(0.3)
