"""Learning of a payload and of friction on the simulated arm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from adaptive_law import COM, FRICTION, INERTIA, arm7, random_state
from control_loop import rigid

from rbd_control.control import (
    AdaptationParameters,
    AdaptiveSlotineLiController,
    SlotineLiController,
)
from rbd_control.control.adaptive import FASTEST
from rbd_control.dynamics import Model, mass_matrix
from rbd_control.robot.friction import CoulombViscousFriction
from rbd_control.simulation import SimulatedArm, SimulationParameters


def follow(law: AdaptiveSlotineLiController | None, true: Model, seconds: float) -> np.ndarray:
    """Position errors (samples, 7) of an arm that weighs ``true``, on a smooth motion."""
    arm = SimulatedArm(true, SimulationParameters(coulomb=(0.2,), viscous=(0.2,)))
    fixed = SlotineLiController(arm7(), rigid())
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
        rigid(),
        AdaptationParameters(adapted_links=("tool",)),
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
    """A joint at rest may stick: not one estimate changes by one bit, also with a payload."""
    law = AdaptiveSlotineLiController(arm7(), rigid(), AdaptationParameters(adapted_links=("all",)))
    loaded = arm7().with_payload("tool", 1.0, COM, INERTIA)
    arm = SimulatedArm(loaded, SimulationParameters(coulomb=(0.2,), viscous=(0.2,)))
    zero = np.zeros(7)
    for _ in range(2000):
        sample = arm.reading()
        assert sample is not None
        assert sample.v is not None
        arm.step(law.torque(sample.q, sample.v, zero, zero, zero, dt=1e-3))
    assert law.learned_energy == 0.0


def test_no_step_reduces_the_torque_error_faster_than_a_tenth_of_the_bandwidth() -> None:
    law = AdaptiveSlotineLiController(arm7(), FRICTION, AdaptationParameters(learning_rate=1000.0))
    dt, fastest = 1e-3, 0.0
    for seed in range(20):
        q, v, q_d, v_d, a_d = random_state(7, seed)
        s = v - v_d + 20.0 * (q - q_d)
        s[np.minimum(abs(v_d), np.sign(v_d) * v) <= law._friction.sliding] = 0.0
        before = law.torque(q, v, q_d, v_d, a_d)
        law.torque(q, v, q_d, v_d, a_d, dt)
        change = s @ (law.torque(q, v, q_d, v_d, a_d) - before)
        damping = 2.0 * s @ s + 30.0 * s @ mass_matrix(arm7(), q) @ s
        # Estimates at a bound change less.
        assert -FASTEST * 20.0 * dt * damping * (1.0 + 1e-9) <= change <= 1e-9
        fastest = max(fastest, -change / (FASTEST * 20.0 * dt * damping))
    assert fastest > 0.9  # the bound was at work


@pytest.mark.parametrize("model", ["none", "coulomb_viscous"])
def test_friction_is_learned(model: str) -> None:
    """True friction is half of the model's, or unknown altogether."""
    parameters = replace(FRICTION, friction_offset=(0.0,), friction_model=model)
    law = AdaptiveSlotineLiController(arm7(), parameters, AdaptationParameters())
    given = FRICTION.friction(7)
    assert isinstance(given, CoulombViscousFriction)
    half = SimulationParameters(
        coulomb=tuple(0.5 * given.coulomb), viscous=tuple(0.5 * given.viscous)
    )
    arm = SimulatedArm(arm7(), half)
    for k in range(8000):
        t = 1e-3 * k
        w = np.linspace(1.0, 3.0, 7)
        sample = arm.reading()
        assert sample is not None
        assert sample.v is not None
        q_d, v_d, a_d = 0.5 * (1.0 - np.cos(w * t)), 0.5 * w * np.sin(w * t), 0.5 * w**2
        arm.step(law.torque(sample.q, sample.v, q_d, v_d, a_d * np.cos(w * t), dt=1e-3))
    # Coulomb and viscous parts are told apart slowly; the torque at 0.5 rad/s is what counts.
    learned = np.array([joint.coulomb + 0.5 * joint.viscous for joint in law.estimates.joints])
    true = 0.5 * (given.coulomb + 0.5 * given.viscous)
    assert (abs(learned - true) < 0.5 * true).all()
    assert abs(law.payload) < 0.2


@pytest.mark.parametrize("delay", [0, 10])
def test_unknown_friction_is_not_learned_as_inertia(delay: int) -> None:
    """A former law learned 18 times the inertia of a wrist joint, whose loop then shook."""
    parameters = rigid()
    if delay:
        parameters = replace(parameters, bandwidth=(10.0,), damping_rate=20.0)
    model, w = arm7(), np.linspace(3.0, 1.0, 7)
    learned = AdaptiveSlotineLiController(model, parameters, AdaptationParameters())
    errors, roughness = [], []
    for law in (SlotineLiController(model, parameters), learned):
        arm = SimulatedArm(model, SimulationParameters(coulomb=(0.8,), viscous=(0.8,)))
        late, v, total, rough = [np.zeros(7)] * 10, np.zeros(7), 0.0, 0.0
        for k in range(10000):
            t = 1e-3 * k
            sample = arm.reading()
            assert sample is not None
            assert sample.v is not None
            v = v + 0.3 * (sample.v - v)
            q_d, v_d = 0.5 * (1.0 - np.cos(w * t)), 0.5 * w * np.sin(w * t)
            state = (sample.q, v, q_d, v_d, 0.5 * w**2 * np.cos(w * t))
            tau = learned.torque(*state, 1e-3) if law is learned else law.torque(*state)
            if k > 5000:
                total += np.square(arm.q - q_d).sum()
                rough += (tau[6] - 2.0 * late[-1][6] + late[-2][6]) ** 2
            late.append(tau)
            arm.step(late[-1 - delay])
        errors.append(total)
        roughness.append(rough)
    assert errors[1] < 0.25 * errors[0]
    assert roughness[1] <= 2.0 * roughness[0]
    joint = mass_matrix(learned.model, q_d)[6, 6] / mass_matrix(model, q_d)[6, 6]
    assert joint < 5.0
