"""Laws of the adaptive controller: its storage, the projection, and physical estimates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from adaptive_law import COM, EVERY_LINK, FRICTION, INERTIA, PARAMETERS, arm7, random_state
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from robots import random_tree_urdf

from rbd_control.control import (
    AdaptationParameters,
    AdaptiveSlotineLiController,
    ControllerParameters,
    SlotineLiController,
)
from rbd_control.control.adaptive import LARGEST, clip_eigenvalues
from rbd_control.dynamics import (
    Model,
    dynamics_terms,
    forward_dynamics,
    inverse_dynamics,
    mass_matrix,
)
from rbd_control.dynamics.inertia import pseudo_inertia, violation

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
    adaptive = AdaptiveSlotineLiController(model, parameters, EVERY_LINK)
    # The same kernel; only the sums of feedback and friction run in another order.
    assert np.allclose(adaptive.torque(*state), fixed, rtol=0.0, atol=1e-13 * abs(fixed).max())
    adaptive.torque(*state, dt=0.0)
    assert adaptive.learned_energy == 0.0
    assert not adaptive.learning


@pytest.mark.parametrize("seed", range(4))
def test_the_distance_to_the_true_parameters_falls_by_the_power_of_the_torque_error(
    seed: int,
) -> None:
    """½ |x|² / rate falls by sᵀ d of the sliding joints, with every inertia and friction wrong."""
    believed = Model.from_urdf(random_tree_urdf(seed, 7, branching=0.5)) if seed else arm7()
    rng = np.random.default_rng(seed)
    true = believed
    for link in believed.joint_links:
        true = true.with_payload(link, rng.uniform(0.1, 1.0), COM, INERTIA)
    q, v, q_d, v_d, a_d = random_state(7, seed)
    rate, dt = 1e-6, 1e-3
    law = AdaptiveSlotineLiController(believed, FRICTION, replace(EVERY_LINK, learning_rate=rate))
    f = law._friction
    W_true = np.linalg.inv(law._bodies.S) @ pseudo_inertias(true)
    W_true = W_true @ np.linalg.inv(law._bodies.S).transpose(0, 2, 1)
    true_friction = f.unit * rng.uniform(0.0, 1.0, (2, 7))
    W, learned = law._bodies.W.copy(), f.learned.copy()
    law.torque(q, v, q_d, v_d, a_d, dt)
    changes = (law._bodies.W - W) * (W - W_true), (f.learned - learned) * (learned - true_friction)
    scaled = changes[1][f.unit > 0.0] / f.unit[f.unit > 0.0] ** 2
    divergence_rate = (changes[0].sum() + scaled.sum()) / (rate * dt)

    missing = inverse_dynamics(true, q, v_d, a_d) - inverse_dynamics(believed, q, v_d, a_d)
    missing += true_friction[0] * np.tanh(v_d / f.scale) + true_friction[1] * v_d
    s = v - v_d + 20.0 * (q - q_d)
    sliding = (v * v_d > 0.0) & (np.minimum(abs(v), abs(v_d)) > f.sliding)
    assert 0 < sliding.sum() < 7
    power = s[sliding] @ -missing[sliding]
    # Estimates of order 1 are rounded to 1e-16 and change by 1e-9 times powers of order 1e4; so
    # small a step leaves them inside their bounds.
    assert divergence_rate == pytest.approx(-power, rel=1e-7)


@pytest.mark.parametrize("mass", [0.0, 0.5])
def test_storage_falls_with_an_unknown_payload(mass: float) -> None:
    """V_dot of the module, near rest, where products of velocity errors vanish."""
    believed = arm7()
    true = believed.with_payload("tool", mass + 1e-9, COM, mass * INERTIA + 1e-9 * np.eye(3))
    parameters = replace(PARAMETERS, friction_model="none")
    heavy = AdaptiveSlotineLiController(true, parameters, AdaptationParameters())
    law = AdaptiveSlotineLiController(believed, parameters, AdaptationParameters())
    law.set_estimates(heavy.estimates)
    q, e, v, *_ = random_state(7)
    e, v, zero = 1e-5 * e, 1e-5 * v, np.zeros(7)
    s = v + 20.0 * e
    s_dot = forward_dynamics(true, q, v, law.torque(q, v, q - e, zero, zero)) + 20.0 * v
    M_0, M = mass_matrix(believed, q), mass_matrix(true, q)
    K_D, dM = 2.0 * np.eye(7) + 30.0 * M_0, M - M_0
    V_dot = s @ M @ s_dot + e @ (40.0 * K_D - 400.0 * dM) @ v
    dissipated = v @ (K_D - 20.0 * dM) @ v + 400.0 * e @ K_D @ e
    # Products of velocity errors of 1e-5 are a fraction of 1e-5 of the terms; gravity torques of
    # 1e2 N·m are rounded to 1e-14, the damping of these errors is of order 1e-3 N·m.
    assert V_dot == pytest.approx(-dissipated, rel=1e-4)
    assert np.linalg.eigvalsh(K_D - 20.0 * dM)[0] > 0.0


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
    law = AdaptiveSlotineLiController(arm7(), FRICTION, replace(EVERY_LINK, learning_rate=500.0))
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
    assert all(joint.coulomb >= 0.0 and joint.viscous >= 0.0 for joint in law.estimates.joints)
    assert np.isfinite(law.learned_energy)
    np.linalg.cholesky(dynamics_terms(law.model, np.zeros(7), np.zeros(7)).M)
