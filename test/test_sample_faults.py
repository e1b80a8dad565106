"""Joint states that are a fault: silence, gaps, unusable samples, and jumps of the clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from control_loop import HOME, NO_RATE, STILL, Loop, assert_zero, give, started

from rbd_control.control import (
    ControllerParameters,
    PassivityController,
    TrajectoryPoint,
)
from rbd_control.control.samples import FORGIVING
from rbd_control.dynamics import Model
from rbd_control.errors import InputError, TrajectoryError
from rbd_control.simulation import arm7_urdf


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def test_silence_is_safe_and_latched(model: Model) -> None:
    controller = PassivityController(model)
    controller.start(1e9, HOME, STILL, now=10.0)
    assert controller.silence(10.04) is None
    command = controller.silence(10.06)
    assert_zero(command)
    assert command is not None
    assert command.reason == "no joint states for 0.06 s"
    with pytest.raises(InputError, match="no valid joint states"):
        controller.resume()
    back = controller.update(1e9 + 1.0, HOME, STILL, now=11.0)
    assert back.mode == "safe"
    with pytest.raises(TrajectoryError, match="no joint states for"):
        controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME)])
    with pytest.raises(InputError, match="resume first"):
        controller.modes.order("hold")
    assert controller.resume() == "holding here"
    assert controller.update(1e9 + 1.001, HOME, STILL, now=11.001).mode == "hold"


def test_a_gap_between_stamps_is_silence(model: Model) -> None:
    controller = started(model)
    assert controller.update(0.04, HOME, STILL).mode == "hold"
    command = controller.update(0.14, HOME, STILL)
    assert (command.mode, command.reason) == ("safe", "no joint states for 0.1 s")


def test_a_clock_that_jumps_forward_is_safe(model: Model) -> None:
    """Whatever the joints did meanwhile, the trajectory does not leap."""
    controller = PassivityController(model)
    controller.start(0.0, HOME, STILL, now=50.0)
    command = controller.update(60.0, HOME, STILL, now=50.001)
    assert (command.mode, command.reason) == ("safe", "stamps jumped by 60 s")


def test_a_pause_of_the_process_is_silence(model: Model) -> None:
    """Its queue was filled meanwhile, so that stamps go on without a gap."""
    controller = PassivityController(model)
    controller.start(0.0, HOME, STILL, now=50.0)
    assert controller.update(0.001, HOME, STILL, now=50.001).mode == "hold"
    command = controller.update(0.002, HOME, STILL, now=50.101)
    assert (command.mode, command.reason) == ("safe", "no joint states for 0.1 s")


@pytest.mark.parametrize(
    ("q", "v", "why"),
    [
        (HOME, None, "no velocity"),
        (np.full(7, np.nan), STILL, "not finite"),
        (HOME, np.full(7, np.inf), "not finite"),
        (HOME + 0.5, STILL, "joint_1 jumped by 0.5"),
        (HOME, np.full(7, 16.0), "joint_1 at a speed of 16 is implausible"),
        (HOME[:3], STILL, "7 joints"),
    ],
)
def test_unusable_samples_are_a_fault_after_a_few(model: Model, q: Any, v: Any, why: str) -> None:
    controller = started(model)
    good = controller.update(0.001, HOME, STILL)
    for k in range(4):
        command = controller.update(0.002 + 0.001 * k, q, v)
        assert command.mode == "hold"
        assert why in command.reason
        assert np.array_equal(command.torque, good.torque)
    command = controller.update(0.006, q, v)
    assert_zero(command)
    assert why in command.reason


def test_one_unusable_sample_in_20_is_passed_over(model: Model) -> None:
    controller = started(model)
    for k in range(1, 3000):
        controller.update(0.001 * k, HOME + (0.5 if k % 20 == 0 else 0.0), STILL)
    command = controller.update(3.0, HOME + 1e-6, STILL)
    assert (command.mode, command.reason) == ("hold", "")


MOCK = HOME + 0.5
"""Positions of a simulated arm whose joint states come between those of the arm [rad]."""


@pytest.mark.parametrize(("mocks", "bad_samples"), [(1, 5), (4, 5), (10, 5), (1, 1), (1, 2)])
def test_two_sources_that_contradict_each_other_are_a_fault(
    model: Model, mocks: int, bad_samples: int
) -> None:
    """Whichever source the first sample is of, and no sample of either gives torque then."""
    controller = started(model, replace(NO_RATE, bad_samples=bad_samples), MOCK)
    modes = []
    for k in range(1, 1001):
        command = controller.update(0.001 * k, MOCK if k % (mocks + 1) else HOME, STILL)
        modes.append(command.mode)
        # With bad_samples of 1 the first fault is that of a single sample.
        if k > 60 * (mocks + 1):
            assert_zero(command)
    # Each unusable sample counts 1, less what the valid samples before it make up for.
    unusable = 2 + (bad_samples - 1) / (1.0 - FORGIVING * mocks)
    assert modes.index("safe") < unusable * (mocks + 1)
    with pytest.raises(InputError, match="cannot resume: no valid joint states"):
        controller.resume()


@pytest.mark.parametrize("delay", [0.0, 0.2])
def test_a_delay_that_has_grown_hides_no_contradiction_and_no_end_of_it(
    model: Model, delay: float
) -> None:
    """A controller that is not started may have observed joint states with less delay."""
    controller = PassivityController(model, ControllerParameters(delay_growth=0.05))
    for k in range(1, 2000):
        now = 0.001 * k
        stamp = now - delay * min(now, 1.0)
        controller.observed.take(stamp, MOCK if 1000 < k < 1900 and k % 2 else HOME, STILL, now)
        if k == 1800:
            assert controller.observed.mixed
    assert not controller.observed.mixed


def test_a_motion_between_two_observations_hides_no_contradiction(model: Model) -> None:
    """A short motion under control, observed at its ends only, contradicts no velocity."""
    controller = PassivityController(model)
    for k in range(20):
        controller.observed.take(0.001 * k, HOME, STILL, 0.001 * k)
    controller.start(0.02, HOME, STILL)
    speed = np.full(model.nv, 1.5)
    for k in range(60):
        controller.update(0.02 + 0.001 * (k + 1), HOME + 0.001 * (k + 1) * speed, speed)
    for k in range(60):
        place = MOCK if k % 2 else HOME + 0.06 * speed
        controller.observed.take(0.1 + 0.001 * k, place, STILL, 0.1 + 0.001 * k)
    assert controller.observed.mixed


def test_one_source_is_used_again_when_the_other_has_ended(model: Model) -> None:
    controller = started(model)
    for k in range(1, 100):
        command = controller.update(0.001 * k, MOCK if k % 2 else HOME, STILL)
    assert command.mode == "safe"
    assert "second publisher" in command.reason
    for k in range(100, 120):  # 17 valid samples make up for an unusable one
        command = controller.update(0.001 * k, HOME, STILL)
    assert command.torque.any()
    assert controller.resume() == "holding here"


def test_a_clock_set_back_does_not_move_the_arm(model: Model) -> None:
    controller = started(model)
    controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME + 0.3, time_from_start=1.0)])
    before = controller.update(0.01, HOME, STILL)
    after = controller.update(-5.0, HOME, STILL)
    assert np.array_equal(after.q_d, before.q_d)
    assert np.all(controller.update(-4.99, HOME, STILL).q_d > before.q_d)


def test_a_clock_that_went_back_ends_the_trajectory_where_the_arm_is(model: Model) -> None:
    """Simulators that start again put the arm elsewhere, too."""
    loop = Loop(model, tank_capacity=5.0)
    loop.follow(HOME + 0.3, 1.0)
    loop.run(0.5)
    controller = loop.controller
    level = controller.law.tank.level
    controller.clock_went_back()
    command = controller.update(-5.0, HOME - 0.4, STILL, now=0.502)
    assert (command.mode, command.goal, command.reason) == ("hold", "cancelled", "")
    assert np.array_equal(command.q_d, HOME - 0.4)
    assert controller.energy.balance() is None  # none over a jump
    controller.update(-4.999, HOME - 0.4, STILL, now=0.503)
    assert controller.law.tank.level == pytest.approx(level, abs=0.01)  # the jump was no work
    controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME, time_from_start=1.0)])
    assert controller.update(-4.998, HOME - 0.4, STILL, now=0.504).mode == "follow"


def test_after_the_clock_was_set_any_stamp_will_do(model: Model) -> None:
    """Later samples count as well; the gap before them is a fault nevertheless."""
    controller = started(model)
    for stamp, now, mode in ((60.0, 0.001, "hold"), (-5.0, 0.2, "safe")):
        controller.clock_went_back()
        assert controller.update(stamp, HOME, STILL, now).mode == mode


@pytest.mark.parametrize("order", ["hold", "float", "fault"])
def test_a_clock_that_went_back_resumes_nothing(model: Model, order: str) -> None:
    controller = started(model)
    controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME + 0.3, time_from_start=1.0)])
    controller.update(0.01, HOME, STILL, now=0.01)
    give(controller, order, "somebody wants it")
    controller.clock_went_back()
    with pytest.raises(InputError, match="no valid joint states"):
        controller.resume()
    after = controller.update(-5.0, HOME, STILL, now=0.02)
    assert after.mode == {"hold": "hold", "float": "float", "fault": "safe"}[order]
    assert (after.goal, after.reason) == ("cancelled", "somebody wants it")
    assert np.array_equal(after.q_d, HOME)
    with pytest.raises(TrajectoryError, match="resume first"):
        controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME)])


@pytest.mark.parametrize("hold", [10, 20])
@pytest.mark.parametrize("jump", [0.0, 0.15, 1.0])
def test_a_hardware_that_updates_every_tenth_message_makes_no_jumps(
    model: Model, hold: int, jump: float
) -> None:
    """The motion since the last change was compared with the time since the last message.

    At 1.5 rad/s a joint moves by 30 mrad in 20 ms; an encoder that jumps further is refused.
    """
    controller = started(model)
    random = np.random.default_rng(0)
    reasons, v = set(), STILL
    for k in range(600):
        time = 0.001 * (k - k % hold)
        offset = jump if k >= 500 else 0.0
        if k % hold == 0:
            v = np.full(7, 1.5) + 1e-3 * random.normal(size=7)
        reasons.add(controller.update(0.001 * (k + 1), HOME + 1.5 * time + offset, v).reason[:14])
    assert reasons == ({""} if not jump else {"", "joint_1 jumped"})


@pytest.mark.parametrize("rate", [1000.0, 500.0, 125.0])
@pytest.mark.parametrize("size", [0.1, 1.0])
@pytest.mark.parametrize("speed", [0.0, 1.0])
def test_a_glitch_of_a_driver_that_differentiates_positions_is_refused(
    model: Model, rate: float, size: float, speed: float
) -> None:
    """Position and velocity of the one sample agree with each other."""
    controller = started(model, replace(NO_RATE, timeout=0.1))
    before, refused = HOME.copy(), []
    for k in range(1, 150):
        q = HOME + speed * k / rate
        if k == 100:
            q[3] += size * max(1000.0 / rate, 1.0)
        command = controller.update(k / rate, q, rate * (q - before))
        before = q
        if "is implausible" in command.reason or "jumped" in command.reason:
            refused.append(k)
        assert command.mode == "hold"
    assert refused in ([100], [100, 101])
