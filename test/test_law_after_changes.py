"""Estimates and energy tank after a change of parameters, a fault, or a jump of the clock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from adaptive_law import arm7
from control_loop import HOME, NO_RATE, SCRIPTED, STILL, Driven, Loop, started

from rbd_control.control import (
    AdaptiveSlotineLiController,
    ControllerParameters,
    Estimates,
    PassivityController,
)
from rbd_control.dynamics import gravity_torque
from rbd_control.errors import InputError

ADAPTIVE = ControllerParameters(adaptive=True, contact_reaction="none", **SCRIPTED)


def estimates(mass: float) -> Estimates:
    """Return the estimates of a law that has learned a payload [kg]."""
    loaded = arm7().with_payload("tool", mass, np.zeros(3), 0.01 * np.eye(3))
    return AdaptiveSlotineLiController(loaded, ADAPTIVE, ADAPTIVE).estimates


def payload(controller: PassivityController) -> float:
    """Return the learned payload [kg]."""
    assert controller.law.adaptive is not None
    return controller.law.adaptive.payload


def test_a_file_of_estimates_is_read_when_learning_is_switched_on(tmp_path: Path) -> None:
    """It was not, and the next ~/save_estimates overwrote it."""
    pytest.importorskip("rclpy", reason="ROS 2 is not installed")
    from rbd_control.nodes.passivity_controller import PassivityControllerNode

    path = tmp_path / "estimates.yaml"
    estimates(0.5).save(path)
    node: Any = PassivityControllerNode.__new__(PassivityControllerNode)
    model = arm7()
    lines: list[str] = []
    parameters = SimpleNamespace(current=None)
    robot = SimpleNamespace(model=model, in_model_order=lambda given: given.law)
    robot.with_parameters = lambda _parameters: robot
    node.__dict__.update(
        _controller=PassivityController(model, replace(ADAPTIVE, adaptive=False)),
        _declared=parameters,
        robot=robot,
        _input=SimpleNamespace(period=0.001),
        get_clock=lambda: SimpleNamespace(ros_time_is_active=False),
        get_logger=lambda: SimpleNamespace(
            info=lines.append, warning=lines.append, error=lines.append
        ),
    )
    quiet = {"estimates": str(path), "rate_warning": lambda _period: ""}
    parameters.current = SimpleNamespace(law=ADAPTIVE, **quiet)
    node.parameters_changed()
    assert payload(node.controller) == pytest.approx(0.5, abs=1e-9)
    assert lines == [f"estimates of {path}: payload 0.5 kg"]
    # A law that learns already keeps what it has learned.
    node.controller.law.set_estimates(estimates(0.3))
    node.parameters_changed()
    assert payload(node.controller) == pytest.approx(0.3, abs=1e-9)
    # A file that cannot be used is no defect of the node.
    path.write_text("a: [", encoding="utf-8")
    parameters.current = SimpleNamespace(law=replace(ADAPTIVE, adaptive=False), **quiet)
    node.parameters_changed()
    parameters.current = SimpleNamespace(law=ADAPTIVE, **quiet)
    node.parameters_changed()
    assert "the estimates are not used: cannot read estimates" in lines[-1]


def test_estimates_that_are_too_heavy_for_the_motors_are_refused() -> None:
    """A change of ``adaptive`` loaded them after the check of the weight."""
    loaded = arm7().with_payload("tool", 0.5, np.zeros(3), 0.01 * np.eye(3))
    weights = [np.abs(gravity_torque(model, HOME)) for model in (arm7(), loaded)]
    limit = np.where(np.arange(7) == 1, np.mean(weights, axis=0), arm7().effort_limit)
    weak = replace(ADAPTIVE, effort_limit=tuple(limit))
    controller = started(arm7(), weak)
    with pytest.raises(InputError, match="too heavy: joint_2"):
        controller.set_estimates(estimates(0.5))
    assert payload(controller) == pytest.approx(0.0, abs=1e-9)
    controller.set_estimates(estimates(0.1))
    assert payload(controller) == pytest.approx(0.1, abs=1e-9)
    # Before a start the posture is not known: the start is refused.
    controller = PassivityController(arm7(), weak)
    controller.set_estimates(estimates(0.5))
    with pytest.raises(InputError, match="too heavy: joint_2"):
        controller.start(0.0, HOME, STILL)


def test_estimates_with_which_the_trajectory_cannot_go_on_are_refused() -> None:
    """Light at the present posture only."""
    light = np.array([0.0, 0.2, 0.0, -0.5, 0.0, 0.9, 0.0])
    heavy = np.array([0.0, 1.4, 0.0, -0.5, 0.0, 0.9, 0.0])
    loaded = arm7().with_payload("tool", 0.5, np.zeros(3), 0.01 * np.eye(3))
    weights = [np.abs(gravity_torque(model, heavy)) for model in (arm7(), loaded)]
    limit = np.where(np.arange(7) == 1, np.mean(weights, axis=0), arm7().effort_limit)
    loop = Loop(arm7(), light, adaptive=True, effort_limit=tuple(limit), **SCRIPTED)
    loop.follow(heavy, 3.0)
    loop.run(0.3)
    before = payload(loop.controller)
    with pytest.raises(InputError, match="could not go on, cancel it first: too heavy: joint_2"):
        loop.controller.set_estimates(estimates(0.5))
    assert payload(loop.controller) == pytest.approx(before, abs=1e-9)
    assert loop.run(0.1).mode == "follow"


@pytest.mark.parametrize("safe", ["zero", "damping"])
def test_a_weight_that_was_learned_before_a_fault_does_not_stay(safe: str) -> None:
    """With the safe torque zero, resume let the arm go on with the false weight."""
    controller = started(arm7(), replace(ADAPTIVE, safe_torque=safe))
    drive = Driven(controller)
    drive.run(0.3)
    controller.law.forget_recent()
    before = payload(controller)
    drive.run(0.02, beside=1e-4)
    pushed = payload(controller)
    assert pushed != before
    controller.modes.fault("test")
    drive.run(0.001)
    controller.resume()
    assert abs(payload(controller) - before) < 0.05 * abs(pushed - before)


@pytest.mark.parametrize("jumps", [True, False])
def test_the_tank_has_a_period_after_a_jump_of_the_clock(
    monkeypatch: pytest.MonkeyPatch, jumps: bool
) -> None:
    """Within a period of 1 µs its energy permitted a thousand times the power."""
    controller = started(arm7(), replace(NO_RATE, tank_capacity=1.0))
    periods: list[float] = []
    tank = controller.law.tank
    limit = tank.limit

    def note(q: Any, v: Any, tau: Any, dt: float, share: float) -> Any:
        periods.append(dt)
        return limit(q, v, tau, dt, share)

    monkeypatch.setattr(tank, "limit", note)
    for k in range(1, 11):
        controller.update(0.001 * k, HOME, STILL)
    if jumps:
        controller.clock_went_back()
        controller.update(-1.0, HOME, STILL, now=0.011)
    else:  # two samples with the same stamp
        controller.update(0.01, HOME + 1e-6, STILL, now=0.011)
    assert len(periods) == 11
    assert np.array(periods[1:-1]) == pytest.approx(0.001, rel=1e-6)
    assert 0.001 <= periods[-1] < 0.1  # the longest period of the last samples


@pytest.mark.parametrize("change", ["bounds", "model"])
def test_estimates_that_are_lost_while_learning_is_off_are_named(change: str) -> None:
    """They were dropped in silence; the arm started with the weight of its description."""
    model = arm7()
    controller = PassivityController(model, ADAPTIVE)
    controller.law.set_estimates(estimates(0.5))
    off = replace(ADAPTIVE, adaptive=False)
    controller.set_parameters(off)
    if change == "model":
        loaded = model.with_payload("tool", 1.0, np.zeros(3), 0.01 * np.eye(3))
        controller.set_parameters(off, loaded)
        assert controller.law.discarded == "the model of the arm has changed"
    else:
        controller.set_parameters(replace(ADAPTIVE, largest_payload_mass=0.1))
        assert "exceeds largest_payload_mass" in controller.law.discarded
    controller.set_parameters(replace(controller.parameters, stop_time=0.2))
    assert not controller.law.discarded  # said once
