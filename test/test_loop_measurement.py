"""Measurement of the control loop: delays and drives that are known in a simulation."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any

import numpy as np
import pytest
from control_loop import SHIPPED, Loop, give
from robots import two_joint_urdf

from rbd_control.control import Command, ControllerParameters
from rbd_control.control.loop_fit import JointResponse, LoopResult
from rbd_control.control.loop_measurement import (
    LARGEST,
    LARGEST_MOTION,
    LARGEST_SPEED,
    STANDS,
    LoopMeasurement,
)
from rbd_control.dynamics import Model
from rbd_control.errors import InputError

POSE = np.array([0.3, 0.5])
EXACT: dict[str, Any] = {"velocity_from_encoder": False, "encoder_resolution": 0.0}
"""Sensors without a delay."""


@pytest.fixture(scope="module")
def model() -> Model:
    """Return an arm with vertical axes, so that a reversed drive acts only once the arm moves."""
    return Model.from_urdf(two_joint_urdf().replace('axis xyz="0 1 0"', 'axis xyz="0 0 1"'))


class Measured(Loop):
    """A loop whose drives may be wrong, and the largest motion since the order.

    Args:
        gain: factor of each command: -1 for a reversed drive, 0 for a dead one.
    """

    def __init__(self, model: Model, gain: tuple[float, float] = (1.0, 1.0), **more: Any) -> None:
        super().__init__(model, POSE, **{**SHIPPED, **more})
        self._gain, self.speed, self.motion = np.array(gain), 0.0, 0.0

    def measure(
        self, seconds: float = 30.0, each: Callable[[], object] = lambda: None
    ) -> LoopResult:
        """Measure the loop and return the result."""
        self.advance(0.5)
        self.controller.loop.begin()
        begin = self.arm.q
        end = self.arm.time + seconds
        while self.controller.loop.is_running and self.arm.time < end:
            self.advance(1.0 / self.rate)
            self.speed = max(self.speed, float(np.abs(self.arm.v).max()))
            self.motion = max(self.motion, float(np.abs(self.arm.q - begin).max()))
            each()
        assert self.controller.loop.result is not None
        return self.controller.loop.result

    def advance(self, seconds: float) -> Command:
        for _ in range(round(seconds * self.rate)):
            sample = self.arm.reading()
            assert sample is not None
            command = self.controller.update(sample.stamp, sample.q, sample.v, effort=sample.tau)
            self.arm.step(self._gain * command.torque)
        return command


@pytest.mark.parametrize(("rate", "periods"), [(1000.0, 1), (1000.0, 5), (500.0, 7), (125.0, 1)])
def test_delay_is_found(model: Model, rate: float, periods: int) -> None:
    """Within 1 ms or 12 %, and the arm moves by less than the bounds of the measurement.

    Viscous friction and a delay act almost alike, so errors of the friction model enter the delay.
    """
    loop = Measured(model, simulated={"rate": rate, "command_delay": periods, **EXACT})
    result = loop.measure()
    assert not result.ended
    for each in result.joints:
        assert each.delay == pytest.approx(periods / rate, abs=1e-3, rel=0.12), each
        assert each.inertia_ratio == pytest.approx(1.0, abs=0.1)
        # The effort of a sample is the torque during the period before it.
        assert each.effort_delay == pytest.approx((periods + 0.5) / rate, abs=1e-3)
        assert isnan(each.resonance)
    assert result.period == pytest.approx(1.0 / rate)
    expected = max((periods - 1) / rate, 0.0)
    assert result.loop_delay == pytest.approx(expected, abs=max(1e-3, 0.12 * periods / rate))
    assert loop.speed < LARGEST_SPEED
    assert loop.motion < LARGEST_MOTION


def test_filter_and_encoder_of_the_velocity_delay_it(model: Model) -> None:
    """A difference of encoder positions is half a period old, and the filter adds its delay."""
    cutoff = 60.0
    result = Measured(model, simulated={"command_delay": 2, "velocity_cutoff": cutoff}).measure()
    share = 1.0 - np.exp(-2.0 * np.pi * cutoff / 1000.0)
    expected = 0.0025 + (1.0 - share) / share / 1000.0
    assert result.joints[0].delay == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("joint", [0, 1])
def test_reversed_drive_is_named_before_the_arm_is_fast(model: Model, joint: int) -> None:
    gain = (-1.0, 1.0) if joint == 0 else (1.0, -1.0)
    loop = Measured(model, gain, simulated={"coulomb": (1.5,), "friction_smoothing": 1e-4})
    result = loop.measure()
    name = model.joint_names[joint]
    assert f"reversed drive: {name}" in result.ended
    assert loop.controller.mode == "safe"
    # The bounds, and the delay until the torque of the joint is zero.
    assert loop.speed < 1.5 * LARGEST_SPEED
    assert loop.motion < 2.0 * LARGEST_MOTION
    command = loop.advance(0.1)
    assert f"reversed drive: {name}" in command.reason
    assert command.torque[joint] == 0.0


def test_dead_drive_is_named_by_the_efforts(model: Model) -> None:
    """The effort of its motor does not show the torque, unlike the efforts of the other joint."""
    loop = Measured(model, (1.0, 0.0), simulated={"coulomb": (0.5, 3.0)})
    shoulder, elbow = loop.measure().joints
    assert shoulder.is_determined
    assert elbow.note.startswith("dead drive")
    assert loop.speed < LARGEST_SPEED


def test_joint_that_friction_holds_is_not_determined(model: Model) -> None:
    friction = 2.0 * LARGEST * 100.0
    loop = Measured(model, simulated={"coulomb": (0.5, friction), "friction_smoothing": 1e-4})
    shoulder, elbow = loop.measure().joints
    assert shoulder.is_determined
    assert elbow.note == STANDS
    assert isnan(elbow.delay)


def test_measurement_ends_with_the_mode_and_a_contact(model: Model) -> None:
    for order, reason in (("float", "not held"), ("fault", "safe (test)"), ("contact", "contact")):
        loop = Measured(model, verdict=False, contact_reaction="none")
        controller = loop.controller

        def end(order: str = order, controller: Any = controller, loop: Any = loop) -> None:
            if loop.arm.time > 1.2:
                argument = {"float": "test", "fault": "test", "contact": True}[order]
                give(controller, order, argument)

        result = loop.measure(each=end)
        assert reason in result.ended
        assert not controller.loop.is_running
        with pytest.raises(InputError, match="cannot measure the loop: "):
            controller.loop.begin()


def test_second_order_and_moving_arm_are_refused(model: Model) -> None:
    loop = Measured(model)
    loop.advance(0.2)
    loop.controller.loop.begin()
    with pytest.raises(InputError, match="in progress"):
        loop.controller.loop.begin()
    loop = Measured(model)
    loop.advance(0.2)
    loop.follow(POSE + 0.2, 1.0)
    loop.advance(0.2)
    with pytest.raises(InputError, match="not held at a point"):
        loop.controller.loop.begin()


def test_a_push_ends_the_measurement(model: Model) -> None:
    loop = Measured(model)

    def push() -> None:
        if 1.2 < loop.arm.time < 1.3:
            loop.arm.push("lower", (0.0, 200.0, 0.0), duration=0.05)

    result = loop.measure(each=push)
    assert "moved" in result.ended
    assert "reversed" not in result.ended


def test_slow_joint_states_are_named(model: Model) -> None:
    result = Measured(model, simulated={"rate": 40.0}, resonance=0.0).measure()
    assert all("40 Hz; 50 Hz are needed" in each.note for each in result.joints)
    with pytest.raises(InputError, match="not determined"):
        result.gains(30.0)


def test_gains_follow_from_the_slowest_joint() -> None:
    fast = JointResponse("fast", 0.002, 0.0001, inertia_ratio=1.0)
    late = JointResponse("late", 0.006, 0.0001, inertia_ratio=1.2, resonance=25.0)
    vague = JointResponse("vague", 0.05, 0.01)
    result = LoopResult((fast, late, vague), 0.001)
    assert result.delay == pytest.approx(0.0065)
    assert result.loop_delay == pytest.approx(0.005)
    gains = result.gains(60.0)
    assert gains.resonance == 25.0
    assert gains.bandwidth == pytest.approx(0.5 * gains.damping_rate)
    assert not result.exceeded(0.99 * gains.damping_rate, 0.99 * gains.bandwidth, 60.0)
    assert "too high" in result.exceeded(1.1 * gains.damping_rate, 1.1 * gains.bandwidth, 60.0)
    assert f"    bandwidth: [{int(10.0 * gains.bandwidth) / 10.0}]" in result.parameter_lines(60.0)
    assert LoopResult((fast,), 0.001).gains(60.0).damping_rate > gains.damping_rate


def test_torque_stays_within_its_share_of_the_effort_limit(model: Model) -> None:
    """Also for a joint that never moves."""
    measurement = LoopMeasurement(
        model, np.array([100.0, 20.0]), np.full(2, 1e4), ControllerParameters()
    )
    largest = np.zeros(2)
    for k in range(60_000):
        torque = measurement.take(0.001 * k, POSE, np.zeros(2), np.zeros(2), None)
        largest = np.maximum(largest, np.abs(torque))
        if measurement.result is not None:
            break
    assert measurement.result is not None
    assert [each.note for each in measurement.result.joints] == [STANDS] * 2
    assert largest == pytest.approx([5.0, 1.0], rel=0.02)
