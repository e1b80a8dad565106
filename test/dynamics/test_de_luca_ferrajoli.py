"""The modified Newton-Euler recursion: its torque and its Coriolis matrix."""

from __future__ import annotations

import numpy as np
import pytest
from robots import random_tree_urdf

from rbd_control.dynamics import (
    Model,
    coriolis_matrix,
    coriolis_matrix_de_luca_ferrajoli,
    frame_jacobian,
    mass_matrix,
    mass_matrix_rate,
)

from .helpers import cross_matrix, random_q, tree, units

# Some hundred products of order one in the units of helpers.py; fast rotors cost two digits.
ROUNDOFF = 1e-10


@pytest.mark.parametrize("floating", [False, True])
@pytest.mark.parametrize("rotors", ["", "geared"])
def test_admissible(floating: bool, rotors: str) -> None:
    """C + Cᵀ = M_dot: M_dot - 2 C is skew-symmetric."""
    model, rng = tree(1, floating=floating, rotors=rotors), np.random.default_rng(1)
    q, v = random_q(model, rng), rng.uniform(-2.0, 2.0, model.nv)
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
