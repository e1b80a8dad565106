"""Limits, exceptions and parameters of the controller, and random events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from control_loop import HOME, NO_RATE, STILL, Loop, assert_zero, give, started
from hypothesis import given, settings
from hypothesis import strategies as st

from rbd_control.control import (
    Command,
    ControllerParameters,
    SlotineLiController,
    TrajectoryPoint,
)
from rbd_control.control.motion import DesiredMotion
from rbd_control.control.safe_torque import SafeTorque
from rbd_control.control.slotine_li import LawTorque
from rbd_control.dynamics import Model, frame_placement, gravity_torque
from rbd_control.errors import InputError, ParameterError, TrajectoryError
from rbd_control.simulation import SimulatedArm, Sphere, arm7_urdf


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def test_torque_is_cut_to_the_limits_and_flagged(model: Model) -> None:
    parameters = replace(NO_RATE, torque_share=(0.5,))
    controller = started(model, parameters)
    assert not controller.update(0.001, HOME, STILL).saturated
    v = np.array([-1.5, 1.0, 0.5, -0.5, 1.0, 1.0, 1.0])
    command = controller.update(0.002, HOME, v)
    assert command.saturated
    used = np.abs(command.torque) / (0.5 * model.effort_limit)
    assert used.max() == pytest.approx(1.0)


def test_torque_changes_at_its_rate(model: Model) -> None:
    controller = started(model, ControllerParameters(torque_rate=(100.0,)))
    wanted = gravity_torque(model, HOME)
    command = controller.update(0.001, HOME, STILL)
    assert command.rate_limited
    assert np.allclose(command.torque, wanted * 0.1 / np.abs(wanted).max())
    for k in range(2, 400):
        command = controller.update(0.001 * k, HOME, STILL)
    assert not command.rate_limited
    assert np.allclose(command.torque, wanted)


@pytest.mark.parametrize("reaction", ["none", "hold", "float"])
def test_a_collision_is_survived(model: Model, reaction: str) -> None:
    """A link runs into a ball of 100 N/mm at 0.8 rad/s; the flag comes 5 ms after the touch."""
    loop = Loop(model, contact_reaction=reaction)
    swung = HOME + [0.6, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    ball = Sphere(tuple(frame_placement(model, swung, "link_6")[:3, 3]), 0.05, 1e5, 200.0)
    loop.arm = SimulatedArm(model, replace(loop.arm.parameters, command_delay=1), [ball])
    loop.follow(HOME + [1.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 1.2)
    touched = [False] * 5

    def flag(command: Command) -> None:
        touched.append(loop.arm.in_contact)
        loop.controller.contact(touched[-5])

    command = loop.run(3.0, flag)
    assert any(touched)
    # The wrist recoils faster than its speed limits; where that lasts it is a fault.
    if command.mode == "safe":
        assert "too fast" in command.reason
    else:
        assert command.mode == ("hold" if reaction == "none" else reaction)
    # Saturated and pressed hard for a while, then at rest again: no limit cycle, little force.
    assert np.abs(loop.arm.v).max() < 0.02
    assert np.linalg.norm(loop.arm.contact_force) < 50.0


def test_a_bad_sample_after_new_parameters_is_passed_over(model: Model) -> None:
    controller = started(model)
    controller.update(0.001, HOME, STILL)
    controller.update(0.002, HOME, STILL)
    controller.set_parameters(replace(NO_RATE, bandwidth=(30.0,)))
    controller.update(0.003, np.full(7, np.nan), STILL)
    assert controller.energy.balance() is None


def test_the_model_raising_is_safe(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = started(model)

    def broken(*arguments: Any) -> None:
        raise RuntimeError("out of cheese")

    monkeypatch.setattr(SlotineLiController, "step", broken)
    command = controller.update(0.001, HOME, STILL)
    assert_zero(command)
    assert command.reason == "the controller failed: RuntimeError: out of cheese"
    monkeypatch.setattr(SafeTorque, "torque", broken)
    again = controller.update(0.002, HOME, STILL)
    assert_zero(again)
    assert again.reason == command.reason


def test_a_motion_that_raises_is_safe(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = started(model)

    def broken(*arguments: Any) -> None:
        raise ValueError("no motion")

    monkeypatch.setattr(DesiredMotion, "advance", broken)
    command = controller.update(0.001, HOME, STILL)
    assert_zero(command)
    assert command.reason == "the controller failed: ValueError: no motion"


@pytest.mark.parametrize("effort", [np.nan, np.inf, 1e308])
def test_efforts_that_cannot_be_are_no_energy(model: Model, effort: float) -> None:
    controller = started(model)
    for k in range(1, 4):
        controller.update(0.001 * k, HOME, np.full(7, 1.0))
        balance = controller.energy.balance(np.full(7, effort))
        assert balance is None or k == 1
    controller.update(0.004, HOME, STILL)
    assert controller.energy.balance(STILL) is not None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_torque_that_is_not_finite_is_never_sent(
    model: Model, monkeypatch: pytest.MonkeyPatch, bad: float
) -> None:
    controller = started(model)
    torque = LawTorque(np.full(7, bad), STILL, STILL)
    monkeypatch.setattr(SlotineLiController, "step", lambda *arguments: torque)
    assert_zero(controller.update(0.001, HOME, STILL))


EVENTS = st.sampled_from(
    ["good", "gap", "back", "same", "nan", "no velocity", "jump", "fast", "silence", "trajectory"]
    + ["bad trajectory", "hold", "float", "resume", "contact", "release"]
)


@settings(max_examples=60, deadline=None)
@given(events=st.lists(EVENTS, max_size=60), seed=st.integers(0, 2**16))
def test_whatever_happens_the_torque_is_finite_and_within_limits(
    model: Model, events: list[str], seed: int
) -> None:
    random = np.random.default_rng(seed)
    controller = started(model, ControllerParameters())
    stamp, q, v = 0.0, HOME, STILL
    now = 0.0  # of a steady clock, which stamps may leave behind
    for event in events:
        now += 0.001
        stamp += {"gap": 1.0, "back": -3.0, "same": 0.0}.get(event, 0.001)
        q = q + 1e-3 * v + (3.0 if event == "jump" else 0.0)
        v = random.uniform(-1.0, 1.0, 7) * (90.0 if event == "fast" else 1.0)
        position = np.full(7, np.nan) if event == "nan" else q
        try:
            if event in ("trajectory", "bad trajectory"):
                point = TrajectoryPoint(HOME + (0.2 if event == "trajectory" else 9.0), (), (), 1.0)
                controller.set_trajectory(model.joint_names, [point])
            elif event in ("hold", "float", "resume"):
                give(controller, event)
            elif event in ("contact", "release"):
                controller.contact(event == "contact")
        except (InputError, TrajectoryError):
            pass
        if event == "silence":
            now += 1.0
            command = controller.silence(now)
            assert_zero(command)
        else:
            velocity = None if event == "no velocity" else v
            command = controller.update(stamp, position, velocity, now)
        assert command is not None
        assert np.isfinite(command.torque).all()
        assert np.all(np.abs(command.torque) <= model.effort_limit)


def test_changed_parameters_apply_and_bad_ones_leave_the_old(model: Model) -> None:
    controller = started(model)
    moved = HOME + 0.01
    before = controller.update(0.001, moved, STILL).torque
    with pytest.raises(ParameterError, match="torque_rate has 2 values"):
        controller.set_parameters(replace(NO_RATE, bandwidth=(9.0,), torque_rate=(1.0, 2.0)))
    assert controller.parameters == NO_RATE
    assert np.allclose(controller.update(0.002, moved, STILL).torque, before)
    controller.set_parameters(replace(NO_RATE, bandwidth=(9.0,)))
    assert not np.allclose(controller.update(0.003, moved, STILL).torque, before)


def test_changed_parameters_neither_fill_the_tank_nor_forget(model: Model) -> None:
    """What was learned carries the arm in float, too, at once."""
    loop = Loop(model, adaptive=True, tank_capacity=5.0)
    loop.arm = SimulatedArm(
        model.with_payload("link_7", 2.0, [0.0, 0.0, 0.05], np.eye(3) * 1e-3), loop.arm.parameters
    )
    loop.follow(HOME + 0.5, 1.0)
    loop.run(0.5)
    controller = loop.controller
    tank, learned = controller.law.tank, controller.law.adaptive
    assert learned is not None
    assert abs(learned.payload) > 0.1
    for change in ({"bandwidth": (30.0,)}, {"goal_time": 2.0}, {"tank_capacity": 9.0}):
        level = controller.law.tank.level
        assert level < 4.9
        controller.set_parameters(replace(controller.parameters, **change))
        assert controller.law.tank is not tank
        assert controller.law.tank.level == level
    assert controller.law.adaptive is not None
    assert controller.law.adaptive.payload == pytest.approx(learned.payload)
    controller.modes.order("float")
    controller.set_parameters(replace(controller.parameters, tank_capacity=0.1))
    assert controller.law.tank.level == pytest.approx(0.1)
    weight = gravity_torque(controller.law.adaptive.model, loop.arm.q)
    assert not np.allclose(weight, gravity_torque(model, loop.arm.q), atol=0.5)
    assert np.allclose(controller.law.floating_torque(loop.arm.q, loop.arm.v), weight)
