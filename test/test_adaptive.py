"""The adaptive law: the storage it claims, bodies that exist, payloads learned, bad input."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from robots import random_tree_urdf

from rbd_control.control import (
    AdaptationParameters,
    AdaptiveSlotineLiController,
    ControllerParameters,
    Estimates,
    SlotineLiController,
)
from rbd_control.control.adaptive_step import LARGEST, clip_eigenvalues
from rbd_control.dynamics import Model, dynamics_terms, forward_dynamics
from rbd_control.dynamics.inertia import pseudo_inertia, violation
from rbd_control.errors import InputError, ParameterError
from rbd_control.robot.friction import CoulombViscousFriction
from rbd_control.simulation import SimulatedArm, SimulationParameters, arm7_urdf

clip = njit(lambda W, low, high: clip_eigenvalues(W, low, high))

PARAMETERS = ControllerParameters(bandwidth=(20.0,), damping_rate=30.0, damping=(2.0,))
FRICTION = ControllerParameters(
    bandwidth=(20.0,),
    damping_rate=30.0,
    damping=(2.0,),
    friction_model="coulomb_viscous",
    friction_coulomb=(0.5, 0.6, 0.4, 0.3, 0.2, 0.5, 0.1),
    friction_viscous=(0.4,),
    friction_offset=(0.1,),
    friction_velocity_scale=(0.1,),
)
EAGER = AdaptationParameters(adapted_links=("all",), adaptation_dead_zone=(0.0,))
COM, INERTIA = np.array([0.02, -0.03, 0.06]), np.diag([0.006, 0.007, 0.005])


def arm7() -> Model:
    return Model.from_urdf(arm7_urdf())


State = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def random_state(n: int, seed: int = 0) -> State:
    """q, v, q_d, v_d, a_d."""
    q, v, q_d, v_d, a_d = np.random.default_rng(seed).uniform(-1.0, 1.0, (5, n))
    return q, v, q_d, v_d, a_d


def pseudo_inertias(model: Model) -> np.ndarray:
    """(n, 4, 4) about the origins of the bodies."""
    P = np.zeros((model.nv, 4, 4))
    P[:, :3, :3] = model.arrays.second_moment
    P[:, :3, 3] = P[:, 3, :3] = model.arrays.first_moment
    P[:, 3, 3] = model.arrays.mass
    return P


# --- Laws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        PARAMETERS,
        FRICTION,
        replace(PARAMETERS, friction_model="sigmoid", friction_f1=(1.0,), friction_f3=(0.1,)),
    ],
    ids=["none", "coulomb_viscous", "sigmoid"],
)
def test_before_it_has_learned_it_is_the_fixed_law(parameters: ControllerParameters) -> None:
    model, state = arm7(), random_state(7)
    fixed = SlotineLiController(model, parameters).torque(*state)
    adaptive = AdaptiveSlotineLiController(model, parameters, EAGER)
    # The same kernel; only the sums of feedback and friction run in another order.
    assert np.allclose(adaptive.torque(*state), fixed, rtol=0.0, atol=1e-13 * abs(fixed).max())
    adaptive.torque(*state, dt=0.0)
    assert adaptive.learned_energy == 0.0
    assert not adaptive.learning


@pytest.mark.parametrize("seed", range(4))
def test_storage_falls_as_fast_as_with_the_true_parameters(seed: int) -> None:
    """V_dot = -sᵀ K_D s on an arm of which every inertia and friction coefficient is wrong."""
    believed = Model.from_urdf(random_tree_urdf(seed, 7, branching=0.5)) if seed else arm7()
    rng = np.random.default_rng(seed)
    true = believed
    for link in believed.joint_links:
        true = true.with_payload(link, rng.uniform(0.1, 1.0), COM, INERTIA)
    known = FRICTION.friction(7)
    assert isinstance(known, CoulombViscousFriction)
    q, v, q_d, v_d, a_d = random_state(7, seed)
    Lambda, rate = 20.0, 1e-6
    v_r = v_d - Lambda * (q - q_d)
    sliding = (abs(v) > known.velocity_scale) & (v * v_r > 0.0)
    assert sliding.any()
    wrong = rng.uniform(0.2, 0.8, (2, 7))
    coulomb, viscous = np.where(sliding, wrong, (known.coulomb, known.viscous))
    # Friction at v_r: what the passivity of the rest, F(v) - F(v_r), adds is another test's.
    adaptation = replace(
        EAGER, learning_rate=rate, friction_learning_rate=7.0 * rate, adapt_friction=True
    )
    law = AdaptiveSlotineLiController(believed, FRICTION, adaptation)
    W_true = np.linalg.inv(law._bodies.S) @ pseudo_inertias(true)
    W_true = W_true @ np.linalg.inv(law._bodies.S).transpose(0, 2, 1)

    def estimates() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        learned = law.friction
        assert learned is not None
        return (
            law._bodies.W.copy(),
            learned.coulomb / known.coulomb,
            learned.viscous / known.viscous,
        )

    truth = (W_true, coulomb / known.coulomb, viscous / known.viscous)
    before, dt = estimates(), 1e-3
    tau = law.torque(q, v, q_d, v_d, a_d, dt)
    # Of ½ |x - truth|² the slope at the beginning of the step.
    divergence_rate = sum(
        float(np.sum((new - old) * (old - true))) / (gain * dt)
        for new, old, true, gain in zip(
            estimates(), before, truth, (rate, 7.0 * rate, 7.0 * rate), strict=True
        )
    )

    s, s_dot_reference = v - v_r, a_d - Lambda * (v - v_d)
    resisting = coulomb * np.tanh(v_r / 0.1) + viscous * v_r + known.offset
    s_dot = forward_dynamics(true, q, v, tau - resisting) - s_dot_reference
    M, C, *_ = dynamics_terms(true, q, v)
    motion_rate = s @ M @ s_dot + 0.5 * s @ (C + C.T) @ s
    dissipated = s @ (2.0 * np.eye(7) + 30.0 * M) @ s
    # Estimates of order 1 are rounded to 1e-16 and change by 1e-9 times powers of order 1e4; so
    # small a step leaves them inside their bounds.
    assert motion_rate + divergence_rate == pytest.approx(-dissipated, rel=1e-8)
    assert abs(divergence_rate) > 1e-3 * dissipated


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10**6), spread=st.floats(0.01, 100.0))
def test_projection_is_onto_the_nearest_and_never_away_from_the_truth(
    seed: int, spread: float
) -> None:
    rng = np.random.default_rng(seed)
    low, high = 0.1, 3.0
    turn, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    inside = turn @ np.diag(rng.uniform(low, high, 4)) @ turn.T
    W = spread * rng.normal(size=(4, 4))
    W = W + W.T
    projected = W.copy()
    clip(projected, low, high)
    values = np.linalg.eigvalsh(projected)
    rounding = 1e-12 * spread
    assert values[0] >= low - rounding
    assert values[-1] <= high + rounding
    # The nearest point of a convex set: the way out makes no acute angle with the way to any
    # member of it.
    assert np.sum((W - projected) * (inside - projected)) <= 1e2 * rounding
    again = projected.copy()
    clip(again, low, high)
    assert np.allclose(again, projected, rtol=0.0, atol=rounding)
    unchanged = inside.copy()
    clip(unchanged, low, high)
    assert np.allclose(unchanged, inside, rtol=0.0, atol=1e-14 * high)


def test_estimates_are_bodies_whatever_happens() -> None:
    """Random states and steps far too long for the loop: mass, inertia and model stay physical."""
    rng = np.random.default_rng(3)
    law = AdaptiveSlotineLiController(
        arm7(), FRICTION, replace(EAGER, learning_rate=500.0, adapt_friction=True)
    )
    heavy = wide = 0
    model, described = arm7(), arm7().arrays.mass
    for _ in range(500):
        law.torque(*rng.uniform(-3.0, 3.0, (5, 7)), dt=1e3)
        values = np.linalg.eigvalsh(law._bodies.W)
        assert (values[:, 0] > 0.0).all()
        assert values.max() < LARGEST * (1.0 + 1e-12)
        for estimate in law.estimates.links:
            row = model.link_index(estimate.link)
            room = described[row] + 3.0 - estimate.mass
            assert room > -1e-9
            P = pseudo_inertia(estimate.mass, estimate.com, estimate.inertia)
            own = pseudo_inertias(model)[row]
            spread = np.trace(own[:3, :3]) + 3.0 * 0.2**2 - np.trace(P[:3, :3])
            assert spread > -1e-9
            heavy += room < 1e-6
            wide += spread < 1e-6
    assert heavy > 100  # or the bounds were never at work
    assert wide > 100
    for estimate in law.estimates.links:
        assert estimate.mass > 0.0
        assert not violation(estimate.inertia, definite=True)
    assert law.friction is not None
    assert (law.friction.coulomb >= 0.0).all()
    assert np.isfinite(law.learned_energy)
    np.linalg.cholesky(dynamics_terms(law.model, np.zeros(7), np.zeros(7)).M)


# --- Learning ------------------------------------------------------------------------------------


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


# --- Parameters ----------------------------------------------------------------------------------

OTHER = {
    "adapted_links": ("link_3",),
    "adapt_friction": True,
    "learning_rate": 1e-3,  # a larger one reaches the limit of one period in this fast motion
    "friction_learning_rate": 1e3,
    "largest_payload_mass": 1.0,
    "largest_payload_reach": 0.1,
    "adaptation_dead_zone": (1e3,),
}


@pytest.mark.parametrize("name", [item.name for item in fields(AdaptationParameters)])
def test_every_parameter_counts(name: str) -> None:
    model, state = arm7(), random_state(7)

    def second_torque(adaptation: AdaptationParameters) -> np.ndarray:
        law = AdaptiveSlotineLiController(model, FRICTION, adaptation)
        law.torque(*state, dt=1e-3)
        return law.torque(*state)

    before = AdaptationParameters(adapt_friction=name == "friction_learning_rate")
    difference = second_torque(replace(before, **{name: OTHER[name]})) - second_torque(before)
    assert abs(difference).max() > 1e-6


# --- Kept ----------------------------------------------------------------------------------------


def learned() -> AdaptiveSlotineLiController:
    adaptation = replace(EAGER, adapted_links=("tool", "link_4"), adapt_friction=True)
    law = AdaptiveSlotineLiController(arm7(), FRICTION, adaptation)
    for seed in range(20):
        law.torque(*random_state(7, seed), dt=1e-3)
    return law


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    law, state = learned(), random_state(7, 99)
    law.estimates.save(tmp_path / "estimates.yaml")
    tau = law.torque(*state)
    model_tau = SlotineLiController(law.model, replace(FRICTION, friction_model="none"))
    law.reset()
    assert law.learned_energy == 0.0
    assert abs(law.torque(*state) - tau).max() > 1e-2
    law.set_estimates(Estimates.load(tmp_path / "estimates.yaml"))
    # Through mass, centre and inertia and back; torques are up to 1e2 N·m.
    assert np.allclose(law.torque(*state), tau, rtol=0.0, atol=1e-9)
    assert law.friction is not None
    q, _, q_d, v_d, _ = state
    friction = law.friction.torque(v_d - 20.0 * (q - q_d))
    assert np.allclose(model_tau.torque(*state) + friction, tau, rtol=0.0, atol=1e-9)


def test_estimates_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    law = learned()
    good, tau = law.estimates.to_dict(), law.torque(*random_state(7))
    links, joints = good["links"], good["joints"]
    tool, joint = links["tool"], joints["joint_2"]
    wrong = [
        (None, "the file is None; it must hold links, joints"),
        ({}, "the file has no 'links'; it holds nothing"),
        ({"links": links}, "has no 'joints'; it holds links"),
        ({"links": {"tool": tool}, "joints": joints}, "links tool but adapted are tool, link_4"),
        ({"links": links, "joints": {}}, "joints none but adapted are joint_1"),
        ({"links": {**links, "tool": 3.0}, "joints": joints}, "tool is 3.0; it must hold mass"),
    ]
    for change, message in (
        ({"mass": -1.0}, "tool cannot have mass -1"),
        ({"mass": 1e4}, "largest_payload_mass"),
        ({"com": [0.0]}, r"com of tool has shape \(1,\)"),
        ({"inertia": "round"}, "inertia of tool is 'round'"),
    ):
        wrong.append(({"links": {**links, "tool": {**tool, **change}}, "joints": joints}, message))
    negative = {**joints, "joint_2": {**joint, "coulomb": -1.0}}
    wrong.append(({"links": links, "joints": negative}, "coulomb friction of joint_2 is -1"))
    for values, message in wrong:
        with pytest.raises(InputError, match=message):
            law.set_estimates(Estimates.from_dict(values))
    (tmp_path / "no.yaml").write_text("a: [", encoding="utf-8")
    for name in ("no.yaml", "none.yaml"):
        with pytest.raises(InputError, match=f"cannot read estimates from .*{name}"):
            Estimates.load(tmp_path / name)
    assert np.array_equal(law.torque(*random_state(7)), tau)


# --- Bad input -----------------------------------------------------------------------------------


def test_bad_input_is_refused_and_teaches_nothing() -> None:
    law, state = learned(), random_state(7)
    tau = law.torque(*state)
    for i, (name, x) in enumerate(zip(("q", "v", "q_d", "v_d", "a_d"), state, strict=True)):
        for bad in (np.nan, np.inf):
            with pytest.raises(InputError, match=f"^{name} is"):
                law.torque(*state[:i], np.full(7, bad), *state[i + 1 :], dt=1e-3)
        with pytest.raises(InputError, match=rf"{name} has shape \(6,\) but .* nv = 7"):
            law.torque(*state[:i], x[:6], *state[i + 1 :], dt=1e-3)
    with pytest.raises(InputError, match="(?s)torque at q = .* is not finite"):
        law.torque(state[0], np.full(7, 1e307), *state[2:], dt=1e-3)
    for dt in (-1e-3, np.nan, np.inf):
        with pytest.raises(InputError, match="dt is"):
            law.torque(*state, dt=dt)
    assert np.array_equal(law.torque(*state), tau)


@pytest.mark.parametrize(
    ("adaptation", "parameters", "message"),
    [
        ({"adapted_links": ("hand",)}, PARAMETERS, "no link 'hand'; links are"),
        ({"adapted_links": ("link_0",)}, PARAMETERS, "link 'link_0' is fixed to the world"),
        ({"adapted_links": ("link_7", "tool")}, PARAMETERS, "'link_7' is fixed to another"),
        ({"adapt_friction": True}, PARAMETERS, "needs friction_model coulomb_viscous"),
        (
            {"adapt_friction": True},
            replace(FRICTION, friction_viscous=(0.0,)),
            "friction_viscous is .* positive values to begin from",
        ),
        ({"adaptation_dead_zone": (1.0, 2.0)}, PARAMETERS, "has 2 values but the model has 7"),
    ],
)
def test_what_cannot_be_learned_is_refused(
    adaptation: dict[str, Any], parameters: ControllerParameters, message: str
) -> None:
    with pytest.raises((InputError, ParameterError), match=message):
        AdaptiveSlotineLiController(arm7(), parameters, AdaptationParameters(**adaptation))


def test_a_floating_base_is_refused() -> None:
    model = Model.from_urdf(arm7_urdf(), floating_base=True)
    with pytest.raises(InputError, match="floating base"):
        AdaptiveSlotineLiController(model, PARAMETERS, AdaptationParameters())


def test_a_point_mass_as_last_link_can_be_adapted() -> None:
    """A point mass is on the border of physical bodies: its pseudo-inertia has no inverse."""
    model = arm7()
    arrays = model.arrays
    second = arrays.second_moment.copy()
    second[6] = np.outer(arrays.first_moment[6], arrays.first_moment[6]) / arrays.mass[6]
    point = replace(model, arrays=arrays._replace(second_moment=second))
    law = AdaptiveSlotineLiController(point, PARAMETERS, AdaptationParameters())
    for seed in range(20):
        law.torque(*random_state(7, seed), dt=1e-3)
    assert law.learning
    assert not violation(law.estimates.links[0].inertia, definite=False)
