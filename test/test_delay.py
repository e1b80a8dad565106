"""Joint states whose delay grows on their way to the controller, and what looks like it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from control_loop import HOME, NO_RATE, STILL, assert_zero, started
from lone_check import LoneCheck

from rbd_control.control import Command, PassivityController
from rbd_control.control.samples import CLOCK_DRIFT, Late
from rbd_control.dynamics import Model

EPOCH = 1.7e9
"""Offset of the clock of the stamps from the steady clock [s]."""

PERIOD, GROWTH = 0.001, 0.05

RNG = np.random.default_rng(3)


def running(model: Model) -> PassivityController:
    controller = started(model, replace(NO_RATE, delay_growth=GROWTH))
    controller.clock_went_back()
    return controller


def send(
    controller: PassivityController,
    duration: float,
    delay: Callable[[float], float],
    begin: float = 0.0,
) -> tuple[float, Command]:
    """Send joint states until the controller is in mode safe, and return the time and the command.

    Args:
        controller: the controller.
        duration: longest time [s].
        delay: returns the delay of a joint state for its time [s].
        begin: time of the first joint state [s].
    """
    for k in range(1, round(duration / PERIOD) + 1):
        sent = begin + PERIOD * k
        now = sent + delay(sent)
        command = controller.update(EPOCH + sent, HOME, STILL, now=now)
        if command.mode == "safe":
            break
    return now, command


@pytest.mark.parametrize("rate", [0.02, 0.2])
def test_a_growing_delay_is_a_fault_soon_after_it_has_grown(model: Model, rate: float) -> None:
    """In each second, CLOCK_DRIFT of the growth is taken for drift."""
    controller = running(model)
    now, command = send(controller, 60.0, lambda t: 0.01 + rate * t)
    assert_zero(command)
    assert command.reason.startswith("joint states arrive too late: their delay has grown by 0.05")
    passes = GROWTH / (rate - CLOCK_DRIFT * (1.0 + rate)) * (1.0 + rate)
    # The fifth late joint state is the fault.
    assert 0.0 <= now - 0.01 - passes <= 7 * PERIOD * (1.0 + rate)


@pytest.mark.parametrize("drift", [2e-4])
def test_drift_is_never_an_excess(drift: float) -> None:
    """A quarter of an hour of it, with jitter."""
    late = LoneCheck(Late)
    times = np.arange(0.0, 900.0, 0.01)
    jitter = RNG.uniform(0.0, 0.004, times.size)
    excess = [
        late.delay(EPOCH + t, t + drift * t + j)
        for t, j in zip(times.tolist(), jitter.tolist(), strict=True)
    ]
    # Not more than the jitter: rounding of stamps since 1970 is 2.4e-7 s.
    assert max(excess) < 0.004 + 1e-6


@pytest.mark.parametrize("step", [-0.02, 0.03])
def test_a_step_of_the_clock_is_no_delay(model: Model, step: float) -> None:
    """Stamps that decrease restart the comparison, and so does a jump that the node reports."""
    for tells in (False, True):
        controller = running(model)
        send(controller, 0.5, lambda t: 0.001)
        if tells and step < 0.0:
            controller.clock_went_back()
        for k in range(501, 3000):
            now = PERIOD * k
            command = controller.update(EPOCH + now + step, HOME, STILL, now=now + 0.001)
            assert command.mode == "hold"


@pytest.mark.parametrize("pause", [0.045])
def test_a_pause_shorter_than_the_timeout_is_harmless(model: Model, pause: float) -> None:
    """The first joint state afterwards is the oldest of the queue, and then come the newest."""
    controller = running(model)
    for begin in range(20):
        start = begin * (0.103 + 2.0 * pause)
        send(controller, 0.1, lambda t: 0.001, start)
        waited = controller.update(EPOCH + start + 0.101, HOME, STILL, now=start + 0.101 + pause)
        assert waited.mode == "hold"
        for late in (pause, 0.5 * pause):
            now = start + 0.102 + 2.0 * pause - late
            stamp = EPOCH + now - late
            assert controller.update(stamp, HOME, STILL, now=now).mode == "hold"
        _, command = send(controller, 0.001, lambda t: 0.001, start + 0.102 + 2.0 * pause)
        assert (command.mode, command.reason) == ("hold", "")


def test_refused_joint_states_leave_no_gap_that_excuses_a_late_one(model: Model) -> None:
    """After samples of implausible speed, for longer than ``timeout``, a late one is refused."""
    controller = running(model)
    for k in range(1, 100):
        controller.update(EPOCH + PERIOD * k, HOME, STILL, now=PERIOD * k)
    for k in range(100, 400):
        now = PERIOD * k
        command = controller.update(EPOCH + now - 2.0 * GROWTH, HOME, STILL + 1e3, now=now)
    assert command.mode == "safe"
    now += PERIOD
    # The plausible one moves, so that damping would need torque.
    command = controller.update(EPOCH + now - 2.0 * GROWTH, HOME, STILL + 0.5, now=now)
    assert_zero(command)
    assert "arrive too late" in command.reason
