"""All observers: unbiased and stable for any step, blocks as samples, and each its own equation."""

from collections.abc import Callable

import numpy as np
import pytest
from robots import random_tree_urdf
from scipy.linalg import expm

from rbd_control.dynamics import Model, momentum_terms
from rbd_control.estimation import (
    DetectorParameters,
    KalmanObserver,
    MomentumObserver,
    Observer,
    SecondOrderObserver,
)

GAIN, DAMPING = 40.0, 0.7
TORQUE_NOISE, MOMENTUM_NOISE, DRIFT = 0.05, 0.002, 3.0


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(random_tree_urdf(3, 4, branching=0.0, prismatic=0.25))


MAKE: dict[str, Callable[[Model], Observer]] = {
    "momentum": lambda model: MomentumObserver(model, GAIN),
    "second_order": lambda model: SecondOrderObserver(model, GAIN, damping=DAMPING),
    "critical": lambda model: SecondOrderObserver(model, GAIN),
    "kalman": lambda model: KalmanObserver(model, TORQUE_NOISE, MOMENTUM_NOISE, DRIFT),
}


@pytest.fixture(params=MAKE)
def observer(request: pytest.FixtureRequest, model: Model) -> Observer:
    return MAKE[request.param](model)


def jittered(count: int, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).uniform(1e-4, 3e-3, count)


@pytest.mark.parametrize("dt", [1e-3, 1.0])
def test_residual_converges_to_a_constant_torque(observer: Observer, dt: float) -> None:
    """At rest r converges to the external torque for every step size and stays bounded."""
    q, v = np.full(observer.model.nv, 0.3), np.zeros(observer.model.nv)
    g = momentum_terms(observer.model, q, v).g
    unseen = np.linspace(1.2, -2.0, observer.model.nv)
    count = int(max(3.0 / dt, 200))
    t = dt * np.arange(count)
    rows = [np.tile(x, (count, 1)) for x in (q, v, g - unseen)]
    r = observer.run(t, *rows)
    np.testing.assert_allclose(r[-1], unseen, rtol=1e-6)
    # Damping 0.7 overshoots by 5 %. Of a random walk from 0 whose mean over one interval is known,
    # the Kalman filter rightly believes that it has come 1.5 times as far at the end.
    assert np.abs(r / unseen).max() < 1.5


def test_part_of_a_step_that_has_risen(observer: Observer) -> None:
    """Between the points of the step response, and whole where it is not known."""
    np.testing.assert_array_equal(observer.risen(0.004), 1.0)
    step, known = observer.rise(1e-3, 20)
    np.testing.assert_allclose(known[1:], observer.step_response(step, 20))
    np.testing.assert_array_equal(observer.risen(0.0), 0.0)
    np.testing.assert_allclose(observer.risen(4.5 * step), 0.5 * (known[4] + known[5]), atol=1e-12)
    np.testing.assert_array_equal(observer.risen(1.0), 1.0)


def test_a_block_is_its_samples(observer: Observer) -> None:
    rng = np.random.default_rng(3)
    n = observer.model.nv
    dt = jittered(200)
    t = np.concatenate([[0.0], np.cumsum(dt)])
    q, v, tau = (rng.normal(size=(201, n)) for _ in range(3))
    block = observer.run(t, q, v, tau)
    observer.reset()
    dt = np.diff(t, prepend=t[0])
    single = [observer.update(*row) for row in zip(q, v, tau, dt, strict=True)]
    np.testing.assert_array_equal(block, single)
    np.testing.assert_array_equal(observer.residual, block[-1])


def test_filter_is_linear_and_leaves_the_observer_alone(observer: Observer) -> None:
    rng = np.random.default_rng(4)
    dt = jittered(300)
    x, y = (rng.normal(size=(300, observer.model.nv)) for _ in range(2))
    before = observer.residual
    together = observer.filter(dt, 2.0 * x - 3.0 * y)
    apart = 2.0 * observer.filter(dt, x) - 3.0 * observer.filter(dt, y)
    np.testing.assert_allclose(together, apart, atol=1e-12)
    np.testing.assert_array_equal(observer.residual, before)


@pytest.mark.parametrize("damping", [0.4, 0.999999, 1.0])
def test_second_order_is_its_differential_equation(model: Model, damping: float) -> None:
    """The result equals the matrix exponential of r_ddot = K² (x - r) - 2 zeta K r_dot."""
    observer = SecondOrderObserver(model, GAIN, damping=damping)
    dt = np.concatenate([jittered(50), [0.1, 1e-5, 0.5]])
    x = np.random.default_rng(6).normal(size=(dt.size, model.nv))
    A = np.array([[0.0, 1.0, 0.0], [-(GAIN**2), -2.0 * damping * GAIN, GAIN**2], [0.0, 0.0, 0.0]])
    state, expected = np.zeros((3, model.nv)), []
    for step, row in zip(dt, x, strict=True):
        state[2] = row
        state = expm(step * A) @ state
        expected.append(state[0])
    np.testing.assert_allclose(observer.filter(dt, x), expected, atol=1e-10)


def test_kalman_is_the_textbook_filter(model: Model) -> None:
    """The textbook filter has momentum and torque as state, and measures the summed momentum."""
    dt = jittered(400)
    x = np.random.default_rng(7).normal(size=(400, model.nv))
    P = np.zeros((2, 2))
    state, p, expected = np.zeros((2, model.nv)), np.zeros(model.nv), []
    for step, row in zip(dt, x, strict=True):
        F = np.array([[1.0, step], [0.0, 1.0]])
        Q = DRIFT**2 * np.array([[step**3 / 3.0, step**2 / 2.0], [step**2 / 2.0, step]])
        Q[0, 0] += 0.5 * (TORQUE_NOISE * step) ** 2
        P = F @ P @ F.T + Q
        K = P[:, 0] / (P[0, 0] + MOMENTUM_NOISE**2)
        p = p + step * row
        state = F @ state
        state = state + np.outer(K, p - state[0])
        P = P - np.outer(K, P[0])
        expected.append(state[1])
    observer = KalmanObserver(model, TORQUE_NOISE, MOMENTUM_NOISE, DRIFT)
    np.testing.assert_allclose(observer.filter(dt, x), expected, atol=1e-9)


def test_parameters_name_the_observer(model: Model) -> None:
    kinds = {
        "momentum": MomentumObserver,
        "second_order": SecondOrderObserver,
        "kalman": KalmanObserver,
    }
    for name, kind in kinds.items():
        assert type(DetectorParameters(observer=name).make_observer(model)) is kind
