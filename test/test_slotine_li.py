"""The Slotine-Li law: the equation it claims, the energy it promises, on arms and random trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from control_loop import IDEAL
from robots import random_tree_urdf

from rbd_control.control import ControllerParameters, SlotineLiController
from rbd_control.dynamics import Model, dynamics_terms, forward_dynamics, mass_matrix
from rbd_control.errors import InputError, ParameterError
from rbd_control.simulation import SimulatedArm, arm7_urdf

PARAMETERS = ControllerParameters(bandwidth=(20.0,), damping_rate=30.0, damping=(2.0,))


def models() -> list[Callable[[], Model]]:
    trees = [
        lambda seed=seed: Model.from_urdf(random_tree_urdf(seed, 9, branching=0.5))
        for seed in range(3)
    ]
    return [lambda: Model.from_urdf(arm7_urdf()), *trees]


State = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def random_state(n: int, seed: int = 0) -> State:
    """q, v, q_d, v_d, a_d."""
    q, v, q_d, v_d, a_d = np.random.default_rng(seed).uniform(-1.0, 1.0, (5, n))
    return q, v, q_d, v_d, a_d


@pytest.mark.parametrize("make", models())
def test_error_dynamics_and_power(make: Callable[[], Model]) -> None:
    model = make()
    q, v, q_d, v_d, a_d = random_state(model.nv)
    Lambda = PARAMETERS.bandwidth[0]
    tau = SlotineLiController(model, PARAMETERS).torque(q, v, q_d, v_d, a_d)
    a = forward_dynamics(model, q, v, tau)
    s = v - v_d + Lambda * (q - q_d)
    s_dot = a - a_d + Lambda * (v - v_d)
    M, C, *_ = dynamics_terms(model, q, v)
    K_D = PARAMETERS.damping[0] * np.eye(model.nv) + PARAMETERS.damping_rate * M
    # The torques are up to 1e3 N·m and rounded to 1e-13 of that; M is well conditioned.
    assert np.allclose(M @ s_dot + C @ s + K_D @ s, 0.0, atol=1e-10 * np.abs(tau).max())
    V_dot = s @ M @ s_dot + 0.5 * s @ (C + C.T) @ s  # M_dot = C + Cᵀ
    assert V_dot == pytest.approx(-s @ K_D @ s, rel=1e-10)


@pytest.mark.parametrize("make", models())
def test_storage_decays_as_promised(make: Callable[[], Model]) -> None:
    """Without the constant part of K_D, V(t) = V(0) exp(-2 damping_rate t) for every robot."""
    base = make()
    endless = np.full(base.nv, np.inf)
    model = replace(base, lower_limit=-endless, upper_limit=endless, effort_limit=endless)
    parameters = ControllerParameters(bandwidth=(10.0,), damping_rate=20.0, damping=(1e-9,))
    law, arm = SlotineLiController(model, parameters), SimulatedArm(model, IDEAL)
    q_d = np.random.default_rng(1).uniform(-0.5, 0.5, model.nv)
    zero = np.zeros(model.nv)

    def storage() -> float:
        s = arm.v + 10.0 * (arm.q - q_d)
        return float(0.5 * s @ mass_matrix(model, arm.q) @ s)

    V = [storage()]
    for _ in range(100):
        sample = arm.reading()
        assert sample is not None
        assert sample.v is not None
        arm.step(law.torque(sample.q, sample.v, q_d, zero, zero))
        V.append(storage())
    expected = V[0] * np.exp(-2.0 * 20.0 * 1e-3 * np.arange(101))
    # The torque is held for 1 ms, which is worth damping_rate x 1 ms = 2 % of the rate; V falls
    # by exp(4), so 8 %, and as much again for the motion within the period.
    assert np.allclose(V, expected, rtol=0.15)
    assert np.all(np.diff(V) < 0.0)


FRICTION: dict[str, Any] = {
    "friction_model": "coulomb_viscous",
    "friction_coulomb": (0.8,),
    "friction_viscous": (0.6,),
    "friction_velocity_scale": (0.1,),
}


@pytest.mark.parametrize("make", models())
def test_known_friction_leaves_the_law_passive(make: Callable[[], Model]) -> None:
    """V_dot <= -sᵀ K_D s on joints with the friction that is fed forward at v_r."""
    model = make()
    parameters = replace(PARAMETERS, **FRICTION)
    friction = parameters.friction(model.nv)
    for seed in range(20):
        q, v, q_d, v_d, a_d = random_state(model.nv, seed)
        tau = SlotineLiController(model, parameters).torque(q, v, q_d, v_d, a_d)
        s = v - v_d + PARAMETERS.bandwidth[0] * (q - q_d)
        assert np.allclose(
            tau - SlotineLiController(model, PARAMETERS).torque(q, v, q_d, v_d, a_d),
            friction.torque(v - s),
        )
        assert s @ (friction.torque(v) - friction.torque(v - s)) >= 0.0


@pytest.mark.parametrize("name", ["bandwidth", "damping", "damping_rate"])
def test_every_gain_counts(name: str) -> None:
    model = Model.from_urdf(arm7_urdf())
    state = random_state(7)
    before = SlotineLiController(model, PARAMETERS).torque(*state)
    value = getattr(PARAMETERS, name)
    for joint in range(7) if isinstance(value, tuple) else [0]:
        changed = np.full(7, value)
        changed[joint] *= 1.5
        other = tuple(changed) if isinstance(value, tuple) else value * 1.5
        after = SlotineLiController(model, replace(PARAMETERS, **{name: other})).torque(*state)
        assert abs(after[joint] - before[joint]) > 1e-3


def test_a_turn_is_a_turn() -> None:
    """Errors of continuous joints are not wrapped: the torque depends on the turns between."""
    model = Model.from_urdf(arm7_urdf())
    law = SlotineLiController(model, PARAMETERS)
    q, v, q_d, v_d, a_d = random_state(7)
    assert not np.allclose(
        law.torque(q, v, q_d, v_d, a_d), law.torque(q, v, q_d + 2 * np.pi, v_d, a_d)
    )


def test_bad_input_is_refused() -> None:
    model = Model.from_urdf(arm7_urdf())
    law = SlotineLiController(model, PARAMETERS)
    state = random_state(7)
    for i, (name, x) in enumerate(zip(("q", "v", "q_d", "v_d", "a_d"), state, strict=True)):
        with pytest.raises(InputError, match="nan"):
            law.torque(*state[:i], np.full(7, np.nan), *state[i + 1 :])
        with pytest.raises(InputError, match=rf"{name} has shape \(6,\) but .* nv = 7"):
            law.torque(*state[:i], x[:6], *state[i + 1 :])
    with pytest.raises(ParameterError, match="bandwidth has 3 values but the model has 7"):
        SlotineLiController(model, ControllerParameters(bandwidth=(1.0, 2.0, 3.0)))
    with pytest.raises(InputError, match="floating base"):
        SlotineLiController(Model.from_urdf(arm7_urdf(), floating_base=True), PARAMETERS)
