"""Properties of the Coriolis matrix and Christoffel symbols by EW21, on trees with rotors."""

import numpy as np
import pytest
from robots import random_tree_urdf

from rbd_control.dynamics import (
    Model,
    admissible_coriolis_matrix,
    change_christoffel_symbols,
    change_coordinates,
    christoffel_symbols,
    coriolis_matrix,
    coriolis_matrix_from_body_jacobians,
    decoupled_dynamics,
    gravity_torque,
    inverse_dynamics,
    mass_matrix,
    mass_matrix_rate,
    torque_velocity_derivative,
)

from .helpers import advance, derivative, random_q, relative, tree

# Sums of a few hundred products in different orders; fast rotors cost two more digits.
ROUNDING = 1e-10


def states(model: Model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return random_q(model, rng), *rng.normal(size=(2, model.nv))


@pytest.fixture(scope="module", params=["", "geared"])
def model(request: pytest.FixtureRequest) -> Model:
    return tree(1, rotors=request.param)


@pytest.mark.parametrize("factorization", ["christoffel", "cross"])
def test_factorisations_are_admissible(model: Model, factorization: str) -> None:
    q, v, _ = states(model)
    C = admissible_coriolis_matrix(model, q, v, factorization)
    assert relative(C + C.T, mass_matrix_rate(model, q, v)) < ROUNDING
    assert relative(C @ v, coriolis_matrix(model, q, v) @ v) < ROUNDING
    oracle = coriolis_matrix_from_body_jacobians(model, q, v, factorization)
    assert relative(C, oracle) < ROUNDING


def test_torque_derivative_is_twice_the_coriolis_matrix(model: Model) -> None:
    q, v, a = states(model)
    h = 1e-3
    expected = np.stack(
        [
            (inverse_dynamics(model, q, v + h * e, a) - inverse_dynamics(model, q, v - h * e, a))
            / (2 * h)
            for e in np.eye(model.nv)
        ],
        axis=-1,
    )
    # tau is quadratic in v, so central differences are exact but for rounding, 1e-16 / h.
    assert relative(torque_velocity_derivative(model, q, v), expected) < 1e-10


def polar(q_bar: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates q = q_bar + 0.3 sin(q_bar) + coupling, with first and second derivatives."""
    n = q_bar.size
    shift = np.roll(np.eye(n), 1, axis=1)
    q = q_bar + 0.3 * np.sin(q_bar) + 0.2 * (shift @ q_bar) ** 2
    A = np.eye(n) + np.diag(0.3 * np.cos(q_bar)) + 0.4 * (shift @ q_bar)[:, None] * shift
    dA = np.einsum("bj,bk->bjk", shift, shift) * 0.4
    for b in range(n):
        dA[b, b, b] -= 0.3 * np.sin(q_bar[b])
    return q, A, dA


def test_change_of_coordinates_keeps_admissible_and_christoffel(model: Model) -> None:
    """Props. 3 and Theorem 1, for a curved change of coordinates."""
    rng = np.random.default_rng(4)
    q_bar, rate = rng.uniform(-1, 1, model.nv), rng.normal(size=model.nv)
    q, A, dA = polar(q_bar)
    terms = change_coordinates(model, q, A @ rate, A, dA @ rate)
    Gamma = change_christoffel_symbols(christoffel_symbols(model, q), mass_matrix(model, q), A, dA)
    assert relative(Gamma @ rate, terms.C) < ROUNDING

    def M_bar(x: np.ndarray) -> np.ndarray:
        q, A, _ = polar(x)
        return A.T @ mass_matrix(model, q) @ A

    h = 1e-5
    M_dot = (M_bar(q_bar + h * rate) - M_bar(q_bar - h * rate)) / (2 * h)
    assert relative(terms.C + terms.C.T, M_dot) < 1e-6  # as for the symbols above
    np.testing.assert_allclose(terms.g, A.T @ gravity_torque(model, q), rtol=1e-12)


def test_centre_of_mass_splits_off() -> None:
    """Remark 6 on a tree."""
    model = Model.from_urdf(random_tree_urdf(2, 6, branching=0.5), floating_base=True)
    q, v, _ = states(model)
    v /= np.abs(v).sum()
    M, C, g, _, _ = decoupled_dynamics(model, q, v)
    scale = np.abs(M).max()
    assert np.abs(M[:3, :3] - model.mass * np.eye(3)).max() < 1e-11 * scale
    assert np.abs(M[:3, 3:]).max() < 1e-11 * scale
    for block in (C[:3], C[:, :3]):
        assert np.abs(block).max() < 1e-11 * np.abs(C).max()
    np.testing.assert_allclose(g[:3], [0, 0, 9.81 * model.mass], rtol=1e-9, atol=1e-9)
    # Admissible: C + Cᵀ is the rate of the matrix of the kinetic energy.
    M_dot = derivative(lambda t: decoupled_dynamics(model, advance(model, q, v, t), v).M)
    assert relative(C + C.T, M_dot) < 1e-8
