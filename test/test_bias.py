"""The learned torque of each joint that the model lacks."""

from __future__ import annotations

import numpy as np
import pytest
from control_loop import HOME, SHIPPED, Loop

from rbd_control.control.estimates import SHARE, ZONE, Bias
from rbd_control.dynamics import Model

EFFORT, SPEED = np.array([80.0, 40.0, 10.0]), np.array([2.0, 2.5, 4.0])


def test_it_integrates_the_velocity_error_beyond_the_dead_zone() -> None:
    bias = Bias(EFFORT, SPEED, 2.0)
    s = np.array([0.5, -1.0, 0.9 * ZONE * 4.0])
    for _ in range(100):
        bias.learn(s, 0.001, np.zeros(3))
    excess = np.array([0.5 - ZONE * 2.0, -1.0 + ZONE * 2.5, 0.0])
    assert np.allclose(bias.torque, -0.2 * SHARE * EFFORT * excess / SPEED, rtol=1e-12)


def test_it_is_bounded_and_returns_from_the_bound() -> None:
    bias = Bias(EFFORT, SPEED, 20.0)
    for _ in range(1000):
        bias.learn(-10.0 * SPEED, 0.01, np.zeros(3))
    assert (bias.torque == SHARE * EFFORT).all()
    bias.learn(SPEED, 0.001, np.zeros(3))
    assert (bias.torque < SHARE * EFFORT).all()
    bias.reset()
    assert not bias.torque.any()


@pytest.mark.parametrize("seed", range(2))
def test_it_injects_no_energy_beyond_its_dead_zone(seed: int) -> None:
    """Simulate ``M s_dot = b - d - K_D s`` with a constant M, at 10 kHz.

    V is the storage of the module. Within the dead zone the estimate does not change, and its error
    acts as a constant torque, as a missing torque does without an estimate.
    """
    random = np.random.default_rng(seed)
    factor = random.uniform(-1.0, 1.0, (3, 3))
    M = factor @ factor.T + 0.1 * np.eye(3)
    rate, dt, c = 2.0, 1e-4, SHARE * EFFORT
    K_D = 12.0 * M + np.diag(0.03 * EFFORT)
    bias, d = Bias(EFFORT, SPEED, rate), c * random.uniform(-1.0, 1.0, 3)
    s = SPEED * random.uniform(-1.0, 1.0, 3)

    def storage() -> float:
        error = bias.torque - d
        return float(0.5 * s @ M @ s + (0.5 * SPEED / (rate * c)) @ error**2)

    V = [storage()]
    for _ in range(3000):
        error, before = bias.torque - d, s
        s = s + dt * np.linalg.solve(M, error - K_D @ s)
        bias.learn(0.5 * (s + before), dt, np.zeros(3))
        V.append(storage())
        middle = 0.5 * (s + before)
        constant = 0.5 * (error + bias.torque - d) @ np.clip(middle, -ZONE * SPEED, ZONE * SPEED)
        # The Euler steps are wrong by a thousandth of the dissipation at most.
        assert V[-1] - V[-2] <= dt * (constant - 0.9 * middle @ K_D @ middle) + 1e-9
    assert V[-1] < 0.9 * V[0]


def test_it_is_kept_during_a_contact_and_forgotten_in_safe_and_float(model: Model) -> None:
    friction = tuple(0.08 * model.effort_limit)
    loop = Loop(
        model,
        verdict=False,
        simulated={"rate": 250.0, "coulomb": friction, "viscous": (0.0,)},
        **SHIPPED,
    )
    loop.follow(HOME + 0.4, 1.0)

    def run(flag: bool, time: float) -> np.ndarray:
        for _ in range(round(time / 0.1)):
            loop.controller.contact(flag)
            loop.run(0.1)
        return loop.controller.law._bias.torque.copy()

    before = run(False, 0.8)
    assert np.abs(before).min() > 0.0
    kept = run(True, 0.3)
    assert (kept == before).all()
    assert (run(False, 0.3) != kept).any()
    loop.controller.modes.order("float")
    assert not run(False, 0.1).any()
    loop.controller.resume()
    loop.follow(HOME, 1.0)
    assert run(False, 0.5).any()
    loop.controller.modes.fault("test")
    assert not run(False, 0.1).any()


def test_it_continues_within_new_bounds() -> None:
    before, after = Bias(EFFORT, SPEED, 2.0), Bias(0.1 * EFFORT, SPEED, 2.0)
    before.learn(-SPEED, 0.25, np.zeros(3))
    after.take_over(before)
    assert (after.torque == 0.1 * SHARE * EFFORT).all()
    off = Bias(EFFORT, SPEED, 0.0)
    off.take_over(before)
    assert not off.torque.any()
