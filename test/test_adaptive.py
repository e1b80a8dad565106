"""Laws of the adaptive controller: its storage, the projection, and physical estimates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from adaptive_law import COM, EAGER, FRICTION, INERTIA, PARAMETERS, arm7, random_state
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from robots import random_tree_urdf

from rbd_control.control import (
    AdaptiveSlotineLiController,
    ControllerParameters,
    SlotineLiController,
)
from rbd_control.control.adaptive_step import LARGEST, clip_eigenvalues
from rbd_control.dynamics import Model, dynamics_terms, forward_dynamics
from rbd_control.dynamics.inertia import pseudo_inertia, violation
from rbd_control.robot.friction import CoulombViscousFriction

clip = njit(lambda W, low, high: clip_eigenvalues(W, low, high))


def pseudo_inertias(model: Model) -> np.ndarray:
    """(n, 4, 4) about the origins of the bodies."""
    P = np.zeros((model.nv, 4, 4))
    P[:, :3, :3] = model.arrays.second_moment
    P[:, :3, 3] = P[:, 3, :3] = model.arrays.first_moment
    P[:, 3, 3] = model.arrays.mass
    return P


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
