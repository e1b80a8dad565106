"""Torque that swings to and fro because the loop is not stable."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from control_loop import Loop

from rbd_control.control import AdaptiveSlotineLiController, ControllerParameters
from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.chatter import SWINGS, WITHIN, Chatter
from rbd_control.dynamics import Model
from rbd_control.simulation import arm7_urdf


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def told(model: Model, frequency: float, size: float, rate: float = 1000.0) -> str:
    """Return what is said of 2 s of a sine on the last joint, in shares of its torque limit."""
    limits = ArmLimits.of(model, ControllerParameters())
    chatter = Chatter(model.nv)
    for k in range(round(2.0 * rate)):
        torque = np.zeros(model.nv)
        torque[-1] = size * limits.torque[-1] * np.sin(2.0 * np.pi * frequency * k / rate + 1.0)
        said = chatter.fault(k / rate, torque, limits)
        if said:
            return said
    return ""


def test_fast_and_large_swings_are_a_fault() -> None:
    model = Model.from_urdf(arm7_urdf())
    assert "the torque of joint_7 swung" in told(model, 30.0, 0.6)
    assert told(model, 100.0, 0.9, rate=200.0)
    assert not told(model, 30.0, 0.45)  # not by the limit, from peak to peak
    slowest = 0.5 * (SWINGS - 1) / WITHIN
    assert not told(model, 0.9 * slowest, 1.0)
    assert told(model, 1.3 * slowest, 1.0)


def test_a_loop_that_is_not_stable_ends_in_mode_safe_and_at_rest(model: Model) -> None:
    """A constant damping that the small inertia of the wrist does not bear."""
    loop = Loop(model, damping=(0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 20.0))
    loop.arm.push("link_7", (0.0, 0.0, 0.0), (0.0, 0.0, 3.0), 0.05)
    modes: list[str] = []
    loop.run(0.5, lambda command: modes.append(command.mode))
    command = loop.run(1.0)
    assert command.mode == "safe"
    assert "the torque of joint_7 swung" in command.reason
    assert modes.index("safe") < 1000 * (WITHIN + 0.1)
    assert np.abs(loop.arm.v).max() < 0.05


def test_samples_that_cannot_be_used_hide_no_swings(model: Model) -> None:
    """A joint that shakes may be the reason why some samples are implausible."""
    loop = Loop(model, damping=(0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 20.0))
    loop.arm.push("link_7", (0.0, 0.0, 0.0), (0.0, 0.0, 3.0), 0.05)
    for k in range(700):
        sample = loop.arm.reading()
        assert sample is not None
        v = None if k % 50 == 49 else sample.v
        command = loop.controller.update(sample.stamp, sample.q, v, effort=sample.tau)
        loop.arm.step(command.torque)
    assert "the torque of joint_7 swung" in command.reason


def test_what_was_given_is_kept(model: Model) -> None:
    """Estimates of a file hold a payload that is there; only what came later may be wrong."""
    heavy = AdaptiveSlotineLiController(
        model.with_payload("tool", 1.0, np.zeros(3), 0.01 * np.eye(3)),
        ControllerParameters(),
        ControllerParameters(adaptive=True),
    )
    loop = Loop(model, adaptive=True)
    law = loop.controller.law
    law.set_estimates(heavy.estimates)
    assert law.adaptive is not None
    given = law.adaptive.payload
    assert given == pytest.approx(1.0)
    loop.arm.push("link_7", (0.0, 0.0, -20.0), duration=0.05)
    loop.run(0.05)
    assert law.adaptive.payload != given
    loop.controller.set_parameters(loop.controller.parameters)
    law = loop.controller.law
    law.discard_estimates()
    assert law.adaptive is not None
    assert law.adaptive.payload == pytest.approx(given)


def test_given_estimates_beyond_new_bounds_do_not_prevent_the_safe_torque(model: Model) -> None:
    heavy = model.with_payload("tool", 1.0, np.zeros(3), 0.01 * np.eye(3))
    parameters = ControllerParameters(adaptive=True)
    loop = Loop(model, adaptive=True)
    law = loop.controller.law
    given = AdaptiveSlotineLiController(heavy, parameters, parameters).estimates
    law.set_estimates(given)
    assert law.adaptive is not None
    # Learned away since, so that lower bounds are possible.
    law.adaptive.set_estimates(AdaptiveSlotineLiController(model, parameters, parameters).estimates)
    loop.controller.set_parameters(replace(loop.controller.parameters, largest_payload_mass=0.1))
    law = loop.controller.law
    law.discard_estimates()
    assert law.adaptive is not None
    assert law.adaptive.payload == 0.0


def test_what_was_learned_is_discarded(model: Model) -> None:
    """It may be why the loop is not stable."""
    loop = Loop(model, damping=(0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 20.0), adaptive=True)
    adaptive = loop.controller.law.adaptive
    assert adaptive is not None
    loop.arm.push("link_7", (0.0, 0.0, -20.0), (0.0, 0.0, 3.0), 0.05)
    learned = 0.0
    for _ in range(500):
        command = loop.run(0.001)
        if command.mode == "safe":
            break
        learned = max(learned, adaptive.learned_energy)
    assert "swung" in command.reason
    assert command.reason.endswith("the estimates of the adaptive law are discarded")
    assert learned > 0.0
    assert adaptive.learned_energy == 0.0


def test_an_arm_that_is_shaken_by_hand_is_no_fault(model: Model) -> None:
    loop = Loop(model)
    for _ in range(15):  # 10 Hz
        for force in (60.0, -60.0):
            loop.arm.push("link_7", (0.0, force, 0.0), duration=0.05)
            command = loop.run(0.05)
    assert command.mode == "hold", command.reason
