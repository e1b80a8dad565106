"""The modified Newton-Euler recursion: its torque and its Coriolis matrix."""

from __future__ import annotations

import numpy as np
import pytest
from robots import random_tree_urdf

from rbd_control.dynamics import (
    Model,
    Rotor,
    coriolis_matrix,
    coriolis_matrix_de_luca_ferrajoli,
    frame_jacobian,
    mass_matrix,
    mass_matrix_rate,
    with_rotors,
)

from .helpers import Array, cross_matrix, random_q, units

# Results are some hundred products of numbers of order one in the natural units of helpers.py.
ROUNDOFF = 1e-12

Sample = tuple[Model, Array, Array, Array]


def with_geared_motors(model: Model, rng: np.random.Generator) -> Model:
    rotors = {
        name: Rotor(rng.uniform(-60.0, 60.0), 0.01 * np.eye(3), axis=rng.normal(size=3), mass=0.3)
        for name in model.joint_names[::2]
    }
    return with_rotors(model, rotors)


@pytest.fixture(params=range(8))
def sample(request: pytest.FixtureRequest) -> Sample:
    """Trees with revolute and prismatic joints; every other floats, every fourth has rotors."""
    seed = request.param
    rng = np.random.default_rng(seed)
    model = Model.from_urdf(random_tree_urdf(seed, 7, prismatic=0.3), floating_base=seed % 2 == 1)
    if seed >= 4:
        model = with_geared_motors(model, rng)
    v, w = rng.uniform(-2.0, 2.0, (2, model.nv))
    return model, random_q(model, rng), v, w


# --- Identities ----------------------------------------------------------------------------------


def test_admissible(sample: Sample) -> None:
    """C + Cᵀ = M_dot: M_dot - 2 C is skew-symmetric."""
    model, q, v, _ = sample
    _, square = units(mass_matrix(model, q))
    C = coriolis_matrix_de_luca_ferrajoli(model, q, v)
    assert np.abs((C + C.T - mass_matrix_rate(model, q, v)) / square).max() < ROUNDOFF


@pytest.mark.parametrize("floating_base", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_difference_from_the_christoffel_symbols(seed: int, floating_base: bool) -> None:
    """C = C_christoffel - sum over bodies of ½ tr(I) Jᵀ S(w) J, with angular J and w = J v."""
    rng = np.random.default_rng(seed)
    urdf = random_tree_urdf(seed, 6, prismatic=0.3, fixed=0.0)
    model = Model.from_urdf(urdf, floating_base=floating_base)
    q, v = random_q(model, rng), rng.uniform(-2.0, 2.0, model.nv)
    difference = np.zeros((model.nv, model.nv))
    arrays = model.arrays
    for link, i in model.link_body.items():
        if i < 0:
            continue
        m, h = arrays.mass[i], arrays.first_moment[i]
        trace = 2.0 * (np.trace(arrays.second_moment[i]) - h @ h / m)  # tr(I), about the centre
        J = frame_jacobian(model, q, link)[:3]
        difference -= 0.5 * trace * J.T @ cross_matrix(J @ v) @ J
    C, expected = coriolis_matrix_de_luca_ferrajoli(model, q, v), coriolis_matrix(model, q, v)
    _, square = units(mass_matrix(model, q))
    assert np.abs((C - expected - difference) / square).max() < ROUNDOFF
    assert np.abs(difference / square).max() > 1e-3
