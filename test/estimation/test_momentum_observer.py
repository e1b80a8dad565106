"""The momentum residual: unbiased and stable at any rate, and equal to its integral form."""

from collections.abc import Sequence

import numpy as np
import pytest
from robots import random_tree_urdf

from rbd_control.dynamics import Model, forward_dynamics, frame_jacobian, momentum_terms
from rbd_control.estimation import MomentumObserver
from rbd_control.robot.friction import CoulombViscousFriction, Friction, SigmoidFriction

GAIN = 50.0
FINE = 2e-4


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(random_tree_urdf(3, 4, branching=0.0, prismatic=0.25))


def motion(
    model: Model,
    wrench: np.ndarray | None = None,
    duration: float = 1.1,
    friction: Friction | None = None,
) -> list[np.ndarray]:
    """Return a damped motion of the exact model at 5 kHz: stamps, q, v, tau, external torque.

    Integrated by RK4, whose error (1e-8 here) is far below every tolerance of this file.
    """
    rng = np.random.default_rng(1)
    q, v = rng.uniform(-0.5, 0.5, model.nv), rng.uniform(-0.2, 0.2, model.nv)
    rest, stiffness = q.copy(), 30.0
    link = model.joint_links[-1]
    rows = []
    for k in range(round(duration / FINE) + 1):
        t = k * FINE

        def torque(t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
            g = momentum_terms(model, q, v).g
            swing = 3.0 * np.sin(2.0 * t + np.arange(model.nv))
            return g + swing - stiffness * (q - rest) - 8.0 * v

        def rate(t: float, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            load = {link: wrench} if wrench is not None and t >= 0.5 else None
            tau = torque(t, q, v)
            return v, forward_dynamics(model, q, v, tau, load)

        tau = torque(t, q, v)
        external = np.zeros(model.nv)
        if wrench is not None and t >= 0.5:
            external = frame_jacobian(model, q, link).T @ wrench
        measured = tau if friction is None else tau + friction.torque(v)
        rows.append((t, q.copy(), v.copy(), measured, external))
        k1 = rate(t, q, v)
        k2 = rate(t + FINE / 2, q + FINE / 2 * k1[0], v + FINE / 2 * k1[1])
        k3 = rate(t + FINE / 2, q + FINE / 2 * k2[0], v + FINE / 2 * k2[1])
        k4 = rate(t + FINE, q + FINE * k3[0], v + FINE * k3[1])
        q = q + FINE / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0])
        v = v + FINE / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])
    return [np.array(column) for column in zip(*rows, strict=True)]


@pytest.fixture(scope="module")
def pushed(model: Model) -> list[np.ndarray]:
    return motion(model, wrench=np.array([0.0, 0.0, 0.0, 6.0, -4.0, 9.0]))


def observe(
    model: Model,
    data: list[np.ndarray],
    indices: Sequence[int],
    gain: float | np.ndarray = GAIN,
    friction: Friction | None = None,
) -> np.ndarray:
    """Return the residuals of the samples ``indices`` of a motion."""
    t, q, v, tau, _ = data
    observer = MomentumObserver(model, gain, friction)
    previous = t[indices[0]]
    residuals = []
    for i in indices:
        residuals.append(observer.update(q[i], v[i], tau[i], t[i] - previous))
        previous = t[i]
    return np.array(residuals)


def test_is_the_integral_form(model: Model, pushed: list[np.ndarray]) -> None:
    """r = K_O (p - p(0) - integral of (tau + CTv - g + r)), integrated by Euler at 5 kHz."""
    t, q, v, tau, _ = pushed
    count = 4000
    r, integral = np.zeros(model.nv), np.zeros(model.nv)
    p0 = momentum_terms(model, q[0], v[0]).p
    textbook = []
    for i in range(count):
        p, CTv, g = momentum_terms(model, q[i], v[i])
        r = GAIN * (p - p0 - integral)
        textbook.append(r)
        integral = integral + (tau[i] + CTv - g + r) * FINE
    residual = observe(model, pushed, range(count))
    # Euler errs by K_O dt / 2 = 0.5 % of the residual and a step late at the onset.
    assert np.abs(residual - textbook).max() < 1e-2 * np.abs(residual).max()


@pytest.mark.parametrize(
    "friction",
    [
        CoulombViscousFriction(
            np.array([0.6, 0.5, 3.0, 0.2]),
            np.array([1.0, 0.5, 2.0, 0.1]),
            np.array([0.1, -0.2, 0.0, 0.3]),
            np.full(4, 0.02),
        ),
        SigmoidFriction(np.full(4, 0.8), np.array([5.0, 9.0, 10.0, 20.0]), np.full(4, 0.03)),
    ],
)
def test_known_friction_leaves_no_residual(model: Model, friction: Friction | None) -> None:
    data = motion(model, duration=0.6, friction=friction)
    indices = range(0, len(data[0]), 5)
    known = np.abs(observe(model, data, indices, friction=friction)).max()
    unknown = np.abs(observe(model, data, indices)).max()
    # What stays is the trapezoid across the tanh, whose curvature at a reversal is not small.
    assert known < 0.02 * unknown
