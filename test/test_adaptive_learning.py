"""Learning of a payload and of friction on the simulated arm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from adaptive_law import COM, FRICTION, INERTIA, arm7, random_state

from rbd_control.control import (
    AdaptationParameters,
    AdaptiveSlotineLiController,
    ControllerParameters,
    SlotineLiController,
)
from rbd_control.control.adaptive_step import LEARNED_AT_ONCE
from rbd_control.dynamics import Model, mass_matrix
from rbd_control.robot.friction import CoulombViscousFriction
from rbd_control.simulation import SimulatedArm, SimulationParameters


def follow(law: AdaptiveSlotineLiController | None, true: Model, seconds: float) -> np.ndarray:
    """Position errors (samples, 7) of an arm that weighs ``true``, on a smooth motion."""
    arm = SimulatedArm(true, SimulationParameters(coulomb=(0.2,), viscous=(0.2,)))
    fixed = SlotineLiController(arm7(), ControllerParameters())
    t = 1e-3 * np.arange(round(seconds * 1e3))[:, None]
    w = np.linspace(1.0, 3.0, 7)
    start = np.array([0.0, 0.5, 0.0, -1.0, 0.0, 1.0, 0.0])
    rise = 1.0 - np.exp(-(t**2))
    q_d = rise * (start + 0.5 * np.sin(w * t))
    v_d = np.gradient(q_d, 1e-3, axis=0)
    a_d = np.gradient(v_d, 1e-3, axis=0)
    errors = np.empty_like(q_d)
    for k, desired in enumerate(zip(q_d, v_d, a_d, strict=True)):
        sample = arm.reading()
        assert sample is not None
        assert sample.v is not None
        state = (sample.q, sample.v, *desired)
        arm.step(law.torque(*state, dt=1e-3) if law else fixed.torque(*state))
        errors[k] = arm.q - desired[0]
    return errors


def test_a_payload_is_learned_while_moving() -> None:
    """The law learns 3 kg on the tool, with encoders, noise and unknown joint friction."""
    believed = arm7()
    true = believed.with_payload("tool", 3.0, COM, INERTIA)
    law = AdaptiveSlotineLiController(
        believed,
        ControllerParameters(),
        AdaptationParameters(adapted_links=("tool",), adaptation_dead_zone=(0.3,)),
    )
    adaptive, fixed = follow(law, true, 8.0)[-3000:], follow(None, true, 8.0)[-3000:]
    rms = np.sqrt(np.mean(adaptive**2)), np.sqrt(np.mean(fixed**2))
    assert rms[0] <= 0.3 * rms[1]
    (estimate,) = law.estimates.links
    # Friction of 0.2 N·m plus 0.2 N·m·s/rad passes for part of the weight: 0.5 N·m are 0.1 kg at
    # half a metre; the smallest level arm of this motion is shorter by a factor of three.
    assert law.payload == pytest.approx(3.0, abs=0.3)
    weight = believed.link_index("tool")
    own = believed.arrays.mass[weight]
    to_tool = np.linalg.inv(believed.link_placement["tool"])
    own_com = to_tool @ np.append(believed.arrays.first_moment[weight] / own, 1.0)
    expected = (own * own_com[:3] + 3.0 * COM) / (own + 3.0)
    assert np.allclose(estimate.com, expected, atol=0.03)


def test_at_rest_nothing_drifts() -> None:
    """Noise of the sensors alone, within the dead zone: not one estimate changes by one bit."""
    law = AdaptiveSlotineLiController(
        arm7(), ControllerParameters(), AdaptationParameters(adapted_links=("all",))
    )
    arm = SimulatedArm(arm7(), SimulationParameters())
    zero = np.zeros(7)
    for _ in range(2000):
        sample = arm.reading()
        assert sample is not None
        assert sample.v is not None
        arm.step(law.torque(sample.q, sample.v, zero, zero, zero, dt=1e-3))
    assert law.learned_energy == 0.0


def test_no_step_changes_the_torque_by_more_than_its_bound() -> None:
    """With friction that is large for the inertia its estimates swung from bound to bound."""
    parameters = replace(FRICTION, friction_coulomb=(30.0,), friction_velocity_scale=(0.01,))
    adaptation = AdaptationParameters(adaptation_dead_zone=(0.0,), adapt_friction=True)
    law = AdaptiveSlotineLiController(arm7(), parameters, adaptation)
    dt, learned = 1e-3, False
    for seed in range(20):
        q, v, q_d, v_d, a_d = random_state(7, seed)
        s = v - v_d + 20.0 * (q - q_d)
        before = law.torque(q, v, q_d, v_d, a_d)
        law.torque(q, v, q_d, v_d, a_d, dt)
        learned |= law.learning
        change = s @ (law.torque(q, v, q_d, v_d, a_d) - before)
        M = mass_matrix(law.model, q)
        # Reducing s by a tenth in this period; estimates at a bound change less.
        assert -LEARNED_AT_ONCE * (s @ M @ s) / dt * 1.01 <= change <= 1e-9
    assert learned


def test_friction_is_learned() -> None:
    """True friction is half of the model's: both coefficients decrease, and no mass is added."""
    parameters = replace(FRICTION, friction_offset=(0.0,))
    law = AdaptiveSlotineLiController(
        arm7(), parameters, AdaptationParameters(adapt_friction=True, adaptation_dead_zone=(0.0,))
    )
    given = parameters.friction(7)
    assert isinstance(given, CoulombViscousFriction)
    half = SimulationParameters(
        coulomb=tuple(0.5 * given.coulomb),
        viscous=tuple(0.5 * given.viscous),
        friction_smoothing=0.1,
    )
    arm = SimulatedArm(arm7(), half)
    for k in range(6000):
        t = 1e-3 * k
        w = np.linspace(1.0, 3.0, 7)
        sample = arm.reading()
        assert sample is not None
        assert sample.v is not None
        q_d, v_d, a_d = 0.5 * (1.0 - np.cos(w * t)), 0.5 * w * np.sin(w * t), 0.5 * w**2
        arm.step(law.torque(sample.q, sample.v, q_d, v_d, a_d * np.cos(w * t), dt=1e-3))
    assert law.friction is not None
    # Coulomb and viscous parts are told apart slowly; the torque at 0.5 rad/s is what counts.
    speed = np.full(7, 0.5)
    excess = law.friction.torque(speed) - arm7_friction(half, speed)
    assert (abs(excess) < 0.25 * given.torque(speed)).all()


def arm7_friction(parameters: SimulationParameters, v: np.ndarray) -> np.ndarray:
    smoothing = parameters.friction_smoothing
    coulomb, viscous = (parameters.for_joints(name, 7) for name in ("coulomb", "viscous"))
    return coulomb * np.tanh(v / smoothing) + viscous * v
