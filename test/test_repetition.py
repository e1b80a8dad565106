"""Joint states that repeat to the last digit: frozen in motion, or not updated yet, or at rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from control_loop import HOME, NO_RATE, STILL, Loop, started
from lone_check import LoneCheck

from rbd_control.control import Command, ControllerParameters, PassivityController
from rbd_control.control.samples import Frozen
from rbd_control.dynamics import Model
from rbd_control.errors import InputError
from rbd_control.simulation import arm7_urdf

SHIPPED = ControllerParameters()
REPEATING = replace(NO_RATE, repeated_time=0.015)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


class FrozenLoop(Loop):
    """A controller that receives the last joint state again with new stamps."""

    def freeze(self, time: float, effort: str, each: Callable[[Command], None]) -> Command:
        sample = self.arm.reading()
        assert sample is not None
        random = np.random.default_rng(0)
        for k in range(1, round(time * 1000) + 1):
            measured = None if effort == "none" else sample.tau
            if effort == "live":  # from torque sensors, say, with their noise
                measured = self.arm.torque + 0.01 * random.normal(size=7)
            command = self.controller.update(
                sample.stamp + 0.001 * k, sample.q, sample.v, effort=measured
            )
            self.arm.step(command.torque)
            each(command)
        return command


@pytest.mark.parametrize("effort", ["repeats", "none", "live"])
def test_an_arm_in_motion_does_not_run_away(model: Model, effort: str) -> None:
    """From the first repeated sample to zero torque in less than 20 ms; 14 rad/s once."""
    loop = FrozenLoop(model)
    loop.follow(HOME + 0.5, 1.0)
    loop.run(0.5)
    before, modes, speeds = np.abs(loop.arm.v).max(), [], []

    def look(command: Command) -> None:
        modes.append(command.mode)
        speeds.append(np.abs(loop.arm.v).max())

    command = loop.freeze(1.0, effort, look)
    assert command.mode == "safe"
    assert "repeated to the last digit" in command.reason
    assert modes.index("safe") < 20
    # Zero torque lets the arm fall; the runaway is over by then.
    assert max(speeds[:20]) < 2.0 * before
    assert not command.torque.any()
    with pytest.raises(InputError, match="no valid joint states"):
        loop.controller.resume()


@pytest.mark.parametrize("bits", [12, 14, 16])
@pytest.mark.parametrize("speed", [0.024, 0.1])
def test_slow_motion_on_a_coarse_encoder_is_not_frozen(bits: int, speed: float) -> None:
    """Position and velocity repeat until the next step, and velocities have steps as well."""
    step = 2.0 * np.pi / 2**bits
    repetition = LoneCheck(Frozen)
    for k in range(3000):
        q = step * np.round(0.001 * k * speed / step)
        assert repetition.take(0.001 * k, np.array([q]), np.array([speed]), None) == "", k
    # Its period of updates is known; half a second without one cannot be missing.
    frozen = [
        repetition.take(3.0 + 0.001 * k, np.array([q]), np.array([speed]), None) for k in range(500)
    ]
    assert frozen[-1]


@pytest.mark.parametrize(
    ("rate", "hardware"), [(1000.0, 1000.0), (1000.0, 250.0), (1000.0, 100.0), (200.0, 100.0)]
)
@pytest.mark.parametrize("effort", [True, False])
def test_hardware_that_updates_more_slowly_is_not_frozen(
    model: Model, rate: float, hardware: float, effort: bool
) -> None:
    """The publisher has jitter and is not synchronous with the hardware."""
    controller = PassivityController(model)
    random = np.random.default_rng(0)
    controller.start(0.0, HOME, STILL)
    every, q, v = rate / hardware, HOME, STILL
    due = 0.0
    for k in range(1, round(2.0 * rate)):
        if k >= due:
            due += every + random.uniform(-0.5, 0.5) * (every > 1.0)
            v = np.full(7, 0.02) + random.uniform(-0.01, 0.01, 7)
            q = HOME + 0.001 * random.uniform(-1.0, 1.0, 7)
            tau = random.uniform(-1.0, 1.0, 7)
        command = controller.update(k / rate, q, v, effort=tau if effort else None)
        assert (command.mode, command.reason) == ("hold", "")


def test_frozen_data_stay_so_until_a_number_changes(model: Model) -> None:
    controller = started(model, REPEATING)
    for k in range(1, 100):
        command = controller.update(0.001 * k, HOME, STILL + 0.2)
    assert command.mode == "safe"
    assert not command.torque.any()
    with pytest.raises(InputError, match="no valid joint states"):
        controller.resume()
    v = STILL + 0.2
    v[3] = np.nextafter(v[3], 1.0)
    assert controller.update(0.1, HOME, v).torque.any()
    assert controller.resume() == "holding here"


@pytest.mark.parametrize("rate", [1000.0, 200.0, 30.0])
def test_three_samples_at_least(model: Model, rate: float) -> None:
    """At any rate two equal samples are no evidence of a frozen driver."""
    controller = PassivityController(model)
    controller.start(0.0, HOME, STILL)
    v = STILL + 0.5
    modes = [controller.update(k / rate, HOME, v).mode for k in range(1, 40)]
    first = modes.index("safe")
    assert first >= 2
    # The first sample with this velocity shows a period of updates.
    assert first <= max(4, round(0.02 * rate) + 1)


def test_repetition_at_rest_is_reported(model: Model) -> None:
    """After 5 s while torque is sent; measured efforts that change are a sign of life."""
    controller = started(model)

    def see(time: float, effort: float) -> str:
        controller.update(time, HOME, STILL, effort=np.full(7, effort))
        return controller.path.frozen

    times = np.arange(0.01, 5.05, 0.01)
    assert not any(see(t, effort=t) for t in times)
    said = [see(5.05 + t, effort=1.0) for t in times]
    assert said[-1] == "joint states have repeated for 5.03 s while torque is sent"
    assert not any(said[: round(5.0 / 0.01) - 1])
    assert controller.mode == "hold"
    controller.silence(99.0)
    assert not controller.path.frozen  # no torque


@pytest.mark.parametrize("effort", [np.nan, np.inf])
def test_efforts_that_are_no_numbers_hide_no_repetition(effort: float) -> None:
    repetition = LoneCheck(Frozen, ("a", "b"))
    said = [
        repetition.take(0.001 * k, np.zeros(2), np.full(2, 0.5), np.full(2, effort))
        for k in range(1, 40)
    ]
    first = next(k for k, text in enumerate(said) if text)
    assert "repeated to the last digit" in said[first]
    assert 0.001 * first <= 0.02


def test_a_jump_of_the_clock_does_not_end_frozen_joint_states(model: Model) -> None:
    """One more identical sample was accepted, and ``resume`` held a stale posture."""
    controller = started(model, REPEATING)
    for k in range(1, 100):
        controller.update(0.001 * k, HOME, STILL + 0.2)
    controller.clock_went_back()
    command = controller.update(0.0, HOME, STILL + 0.2)
    assert command.mode == "safe"
    with pytest.raises(InputError, match="no valid joint states"):
        controller.resume()
    assert controller.update(0.001, HOME + 1e-4, STILL + 0.2) is not None
    assert controller.resume() == "holding here"
