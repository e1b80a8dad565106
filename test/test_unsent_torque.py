"""A torque that could not be published did not go out: limits, tank and faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from control_loop import HOME, IDEAL, NO_RATE, STILL, started

from rbd_control.control import ControllerParameters, PassivityController, TrajectoryPoint
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.simulation import SimulatedArm, arm7_urdf

PERIOD = 0.001


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def test_the_rate_limit_continues_from_the_torque_that_was_sent(model: Model) -> None:
    parameters = replace(NO_RATE, torque_rate=(1000.0,))
    controller = started(model, parameters)
    first = controller.update(PERIOD, HOME, STILL).torque
    largest = np.abs(first).max()
    assert 0.0 < largest <= 1000.0 * PERIOD * (1.0 + 1e-9)  # rounding
    controller.not_sent(PERIOD)
    assert not controller.path.sent.any()
    again = controller.update(2.0 * PERIOD, HOME, STILL).torque
    np.testing.assert_allclose(again, first, rtol=1e-9)  # the same step from the same torque
    np.testing.assert_array_equal(controller.path.sent, again)
    further = controller.update(3.0 * PERIOD, HOME, STILL).torque
    assert np.abs(further).max() > 1.5 * largest


def test_the_tank_accounts_for_the_torque_that_acted(model: Model) -> None:
    """Each third torque is not sent, and the arm keeps the previous one meanwhile."""
    arm = SimulatedArm(model, replace(IDEAL, initial_position=tuple(HOME)))
    parameters = replace(NO_RATE, tank_capacity=1.0, tank_refill=0.0, friction_model="none")
    controller = started(model, parameters)
    target = HOME + 0.2
    controller.set_trajectory(model.joint_names, [TrajectoryPoint(target, time_from_start=0.5)])
    acting, pushing, before = np.zeros(7), np.zeros(7), HOME
    level, unsent, largest_work = 1.0, 0, 0.0
    for k in range(1, 300):
        sample = arm.reading()
        assert sample is not None
        assert sample.v is not None
        command = controller.update(k * PERIOD, sample.q, sample.v)
        work = float(pushing.dot(sample.q - before))
        level = min(level - work, 1.0)
        largest_work = max(largest_work, work)
        # Sums of 300 products of torques of 50 N·m and steps of 1e-3 rad.
        assert controller.law.tank.level == pytest.approx(level, abs=1e-10)
        if k % 3:
            acting = command.torque
        else:
            controller.not_sent(PERIOD)
            unsent += 1
        np.testing.assert_array_equal(controller.path.sent, acting)
        pushing, before = acting - gravity_torque(model, sample.q), sample.q
        arm.step(acting)
    assert unsent > 90
    assert largest_work > 1e-5
    assert controller.mode == "follow"


def test_a_torque_older_than_the_timeout_is_a_fault(model: Model) -> None:
    controller = started(model, replace(NO_RATE, timeout=0.05))
    for k in range(1, 200):
        assert controller.update(k * PERIOD, HOME, STILL).mode == "hold"
        if k % 20 < 19:  # 19 torques are lost, then one goes out
            controller.not_sent((k % 20 + 1) * PERIOD)
    controller.not_sent(0.051)
    command = controller.update(0.2, HOME, STILL)
    assert command.mode == "safe"
    assert command.reason == "no torque could be published for 0.051 s"
    controller.resume()
    assert controller.update(0.201, HOME, STILL).mode == "hold"


def test_zero_torque_that_was_not_sent_did_not_act(model: Model) -> None:
    """The receiver keeps the last torque until zero gets through; zero is tried each time."""
    controller = started(model, replace(NO_RATE, safe_torque="zero"))
    sent = controller.update(PERIOD, HOME, STILL).torque
    assert sent.any()
    controller.modes.fault("test")
    for k in (2, 3):
        assert not controller.update(k * PERIOD, HOME, STILL).torque.any()
        controller.not_sent(PERIOD)
        np.testing.assert_array_equal(controller.path.sent, sent)


def test_a_repeated_torque_that_was_not_sent_takes_back_nothing_else(model: Model) -> None:
    """An unusable sample repeats the last torque; the torque before it stays in force."""
    controller = started(model, replace(NO_RATE, torque_rate=(1000.0,)))
    controller.update(PERIOD, HOME, STILL)
    second = controller.update(2.0 * PERIOD, HOME, STILL).torque
    repeated = controller.update(3.0 * PERIOD, np.full(7, np.nan), STILL)
    np.testing.assert_array_equal(repeated.torque, second)
    controller.not_sent(PERIOD)
    np.testing.assert_array_equal(controller.path.sent, second)


def test_an_arm_without_torque_may_stand_still(model: Model) -> None:
    """Joint states that repeat while no torque goes out are not called frozen."""
    parameters = ControllerParameters(
        timeout=0.05,
        torque_rate=(1e9,),
        tracking_limit=(100.0,),
        repeated_torque_share=0.01,
    )
    controller = PassivityController(model, parameters)
    controller.start(0.0, HOME, STILL)
    controller.update(PERIOD, HOME, STILL)
    controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME + 0.2, time_from_start=0.3)])
    for k in range(2, 100):
        command = controller.update(k * PERIOD, HOME, STILL)
        if command.mode == "safe":
            break
        controller.not_sent((k - 1) * PERIOD)
    assert command.reason.startswith("no torque could be published")
